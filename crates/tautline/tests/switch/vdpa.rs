//! The relay between a vhost-user front-end and a vDPA device, in a guest whose kernel has vDPA. The front-end is a
//! virtio-user port of a switch. The device is a VDUSE port of another switch, or a virtio card behind an IOMMU.

use peers::Guest;
use peers::guest::{Settings, VDPA_CARD};

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
    other_end() { # other_end INTERFACE: in a namespace of its own
        ip netns add there
        ip link set $1 netns there name far
        ip -n there address add 10.77.0.2/24 dev far && ip -n there link set far up
    }
    device_is_there() { until_true ls /dev/vhost-vdpa-0 || failed no device; }
"#;

struct Lab {
    guest: Guest,
}

impl Lab {
    fn boot(settings: Settings) -> Self {
        let guest = settings.size(1, 512).program(&tautline()).start();
        Lab { guest: guest.unwrap_or_else(|error| panic!("{error}")) }
    }

    fn must(&self, line: &str) -> String {
        self.guest.must(&format!("{FUNCTIONS}\n{line}"))
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
            ": >/run/relay.log
             start front switch --port guest=virtio-user:/run/guest --port near=vduse:near
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

    /// The IOMMU's faults since the last look. Without faults, grep ends with 1.
    fn faults(&self) -> String {
        self.must("dmesg -c | grep 'DMAR.*\\(fault\\|DMA Read\\|DMA Write\\)' || true")
    }
}

#[test]
fn a_front_end_and_a_device_in_software_share_rings() {
    let lab = Lab::boot(Settings::default().vduse());
    let refused =
        lab.must("tautline vdpa --port a=vhost-user:/run/a --device /dev/vhost-vdpa-0 2>&1 || true");
    assert!(refused.contains("vdpa dev add"), "{refused}");
    for options in ["", ",packed=on"] {
        lab.must(&format!(
            "start device switch --port card=vduse:card,driver=vhost_vdpa{options} --port far=vduse:far
             until_true interface far || failed no interface far
             device_is_there
             other_end $(interface far)"
        ));
        lab.relay();
        lab.front_end();
        lab.check();
        lab.must("stop front; stop relay; stop device; ip netns delete there; rm /run/*.log");
    }
}

#[test]
fn a_card_behind_an_iommu_works_on_the_rings_of_a_front_end() {
    let lab = Lab::boot(Settings::default().vdpa());
    lab.must(&format!(
        "for name in $(ls /sys/class/net); do
             [ $(cat /sys/class/net/$name/address) != 02:00:00:00:76:02 ] || other_end $name
         done
         driver=/sys/bus/pci/devices/{VDPA_CARD}/driver
         [ ! -e $driver ] || echo {VDPA_CARD} >$driver/unbind
         echo vp-vdpa >/sys/bus/pci/devices/{VDPA_CARD}/driver_override
         echo {VDPA_CARD} >/sys/bus/pci/drivers/vp-vdpa/bind
         vdpa dev add name card mgmtdev pci/{VDPA_CARD} || failed vdpa dev add
         echo vhost_vdpa >/sys/bus/vdpa/devices/card/driver_override
         echo card >/sys/bus/vdpa/devices/card/driver/unbind; echo card >/sys/bus/vdpa/drivers/vhost_vdpa/bind
         device_is_there; dmesg -c >/dev/null"
    ));
    let doctor = lab.must("tautline doctor --require vdpa");
    assert!(doctor.contains("opened /dev/vhost-vdpa-0: a device of the kind 1"), "{doctor}");
    lab.relay();
    for _ in 0..2 {
        lab.front_end();
        lab.check();
        lab.must("stop front");
    }
    // QEMU 7.2 writes the second half of a used ring's entry that crosses two pages to an address near 0, where no
    // front-end has memory: the length of a transmitted buffer, which no driver reads.
    let faults = lab.faults();
    assert!(faults.lines().all(|fault| fault.contains("addr 0x0 ") || !fault.contains("addr")), "{faults}");
    hostile(&lab);
    lab.front_end();
    lab.check();
    // The kernel waits until the relay has closed the device.
    lab.must("vdpa dev del card || failed vdpa dev del; says relay 'device is gone'; stop front; stop relay");
}

/// Front-ends with hostile messages and tables. What they say before a ring runs never reaches the device, so the IOMMU
/// has nothing to block.
fn hostile(lab: &Lab) {
    let said = lab.must(
        "tautline torture vhost-user:/run/guest --only order,memory,descriptors --cases 20 --time 2s --timeout 30s 2>&1
         echo code $?",
    );
    assert!(said.ends_with("code 0\n"), "{said}\n{}", lab.must("cat /run/relay.log"));
    assert_eq!(lab.faults(), "");
    lab.must("kill -0 $(cat /run/relay.pid) || failed the relay has ended");
}
