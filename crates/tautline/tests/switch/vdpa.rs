//! The relay between a vhost-user front-end and a vDPA device, in a guest whose kernel has vDPA. The device is a VDUSE
//! port of one switch; the front-end is a virtio-user port of another one.

use peers::Guest;
use peers::guest::Settings;

use crate::common::tautline;

const FUNCTIONS: &str = r#"
    until_true() { # until_true COMMAND…: within 20 s
        n=0; until "$@" >/dev/null 2>&1; do n=$((n + 1)); [ $n -lt 200 ] || return 1; sleep 0.1; done
    }
    interface() { ls /sys/bus/vdpa/devices/$1/virtio*/net; }
    start() { # start NAME ARGUMENTS…: a program in the background
        name=$1; shift
        tautline "$@" >>/run/$name.log 2>&1 </dev/null &
        echo $! >/run/$name.pid
    }
    ended() { ! grep -q '^State:.[^Z]' /proc/$(cat /run/$1.pid)/status; }
    stop() { kill $(cat /run/$1.pid); until_true ended $1 || failed $1 is still there; }
    says() { until_true grep -q "$2" /run/$1.log || failed "$1 does not say $2"; }
    failed() { echo "$*"; tail -n 20 /run/*.log; dmesg | tail -n 20; exit 1; }
"#;

struct Lab {
    guest: Guest,
}

impl Lab {
    fn boot() -> Self {
        let guest = Settings::default().size(1, 512).vduse().program(&tautline()).start();
        Lab { guest: guest.unwrap_or_else(|error| panic!("{error}")) }
    }

    fn must(&self, line: &str) -> String {
        self.guest.must(&format!("{FUNCTIONS}\n{line}"))
    }

    /// The device, with an interface `far` behind it in a namespace of its own.
    fn device(&self, options: &str) {
        self.must(&format!(
            "start device switch --port card=vduse:card,driver=vhost_vdpa{options} --port far=vduse:far
             until_true interface far || failed no interface far
             until_true ls /dev/vhost-vdpa-0 || failed no device
             ip netns add there
             ip link set $(interface far) netns there name far
             ip -n there address add 10.77.0.2/24 dev far && ip -n there link set far up"
        ));
    }

    fn relay(&self) {
        self.must(
            "start relay vdpa --port guest=vhost-user:/run/guest --device /dev/vhost-vdpa-0
             until_true ls /run/guest || failed no socket",
        );
    }

    /// A front-end, with an interface `near` behind it.
    fn front_end(&self) {
        self.must(
            "start front switch --port guest=virtio-user:/run/guest --port near=vduse:near
             until_true interface near || failed no interface near
             near=$(interface near)
             ip address add 10.77.0.1/24 dev $near && ip link set $near up
             says relay 'the device runs'",
        );
    }

    /// Payload both ways.
    fn check(&self) {
        self.must(
            "ping -c 3 -i 0.2 -W 10 10.77.0.2 || failed ping
             ip netns exec there ping -c 3 -i 0.2 -W 10 10.77.0.1 || failed ping
             mkdir -p /tmp/www; head -c 1048576 /dev/urandom >/tmp/www/file; md5sum </tmp/www/file >/run/sum
             httpd -p 10.77.0.1:80 -h /tmp/www; ip netns exec there httpd -p 10.77.0.2:80 -h /tmp/www
             wget -q -O - http://10.77.0.2/file | md5sum | cmp - /run/sum || failed to near
             ip netns exec there wget -q -O - http://10.77.0.1/file | md5sum | cmp - /run/sum || failed to far
             killall httpd",
        );
    }
}

#[test]
fn a_front_end_and_a_vdpa_device_share_rings() {
    let lab = Lab::boot();
    let refused =
        lab.must("tautline vdpa --port guest=vhost-user:/run/guest --device /dev/vhost-vdpa-0 2>&1 || true");
    assert!(refused.contains("vdpa dev add"), "{refused}");
    for options in ["", ",packed=on"] {
        lab.device(options);
        lab.relay();
        for _ in 0..2 {
            lab.front_end();
            lab.check();
            lab.must("stop front; : >/run/relay.log");
        }
        println!("{}", lab.must("cat /run/*.log"));
        lab.must("stop relay; stop device; ip netns delete there; rm /run/*.log");
    }
}
