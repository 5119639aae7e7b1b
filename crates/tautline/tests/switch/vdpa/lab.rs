//! A guest whose kernel has vDPA, and what its tests do there.

use std::time::Duration;

use peers::Guest;
use peers::guest::{LIMIT, Settings, VDPA_CARDS};

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
    refused() { # refused WORDS COMMAND…: the command fails and says the words
        words=$1; shift
        ! timeout 20 "$@" >/run/refused 2>&1 </dev/null || failed "$* runs"
        grep -q "$words" /run/refused || failed "$*: $(cat /run/refused)"
    }
    failed() { echo "$*"; tail -n 20 /run/*.log; dmesg | tail -n 20; exit 1; }
    other_end() { # other_end INTERFACE: in a namespace of its own
        ip netns add there
        ip link set $1 netns there name far
        ip -n there address add 10.77.0.2/24 dev far && ip -n there link set far up
    }
    card() { # card NAME PCI-ADDRESS: a vDPA device of a card
        driver=/sys/bus/pci/devices/$2/driver
        [ ! -e $driver ] || echo $2 >$driver/unbind
        echo vp-vdpa >/sys/bus/pci/devices/$2/driver_override
        echo $2 >/sys/bus/pci/drivers/vp-vdpa/bind
        ADD_CARD || failed vdpa dev add
        echo vhost_vdpa >/sys/bus/vdpa/devices/$1/driver_override
        echo $1 >/sys/bus/vdpa/devices/$1/driver/unbind; echo $1 >/sys/bus/vdpa/drivers/vhost_vdpa/bind
        until_true ls -d /sys/bus/vdpa/devices/$1/vhost-vdpa-* || failed no device
    }
    device_is_there() { until_true ls /dev/vhost-vdpa-0 || failed no device; }
"#;

/// The commands of a block of the page, whose lines are joined where they are continued.
pub fn page(block: usize) -> Vec<String> {
    let page = include_str!("../../../../../docs/rings-for-hardware.md");
    let block = page.split("```sh\n").nth(block + 1).and_then(|rest| rest.split("```").next());
    block.expect("the block").replace("\\\n", "").lines().map(str::to_owned).collect()
}

/// The guest.
pub struct Lab {
    guest: Guest,
}

impl Lab {
    pub fn boot(settings: Settings) -> Self {
        let guest = settings.program(&tautline()).start();
        Lab { guest: guest.unwrap_or_else(|error| panic!("{error}")) }
    }

    pub fn must(&self, line: &str) -> String {
        self.must_within(line, LIMIT)
    }

    pub fn must_within(&self, line: &str, limit: Duration) -> String {
        let add = page(0)[1].replace("card0", "$1").replace("0000:01:00.0", "$2");
        let functions = FUNCTIONS.replace("ADD_CARD", &add);
        let output = self.guest.run_within(&format!("{functions}\n{line}"), limit);
        output.unwrap_or_else(|error| panic!("{error}")).expect_success()
    }

    /// Starts a relay with this name and socket, to a device.
    pub fn relay(&self, name: &str, device: &str) {
        let arguments = page(1)[0].replace("guest", name).replace("/dev/vhost-vdpa-0", device);
        let arguments = arguments.strip_prefix("tautline ").and_then(|rest| rest.strip_suffix(" &"));
        let arguments = arguments.expect("the page's first command");
        self.must(&format!(
            "start {name} {arguments}
             until_true ls /run/{name}.sock || failed no socket"
        ));
    }

    /// A front-end, with an interface `near` behind it. An answer from the far end tells that the device runs: the relay's
    /// log, which is limited, may not tell it after hostile front-ends.
    pub fn front_end(&self) {
        self.must(
            ": >/run/relay.log
             start front switch --port guest=virtio-user:/run/relay.sock --port near=vduse:near
             until_true interface near || failed no interface near
             near=$(interface near)
             ip address add 10.77.0.1/24 dev $near && ip link set $near up
             until_true ping -c 1 -W 1 10.77.0.2 || failed no answer",
        );
    }

    /// Payload both ways.
    pub fn check(&self) {
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
    pub fn faults(&self) -> String {
        self.must("dmesg -c | grep 'DMAR.*\\(fault\\|DMA Read\\|DMA Write\\)' || true")
    }

    /// Makes the vDPA devices `card0` and `card1`. The other ends of their wires are ports of a bridge in a namespace.
    ///
    /// QEMU's wire keeps frames for a card that is stopped, where a real wire loses them. Without NAPI for transmission, the
    /// driver of the other end takes each frame from its socket at once. With NAPI, a socket whose frame waits in that end's
    /// queue never sends the frame again, even if the path is another one by then.
    pub fn cards(&self) {
        let [first, second] = VDPA_CARDS;
        // As docs/rings-for-hardware.md says, for guests without huge pages.
        self.must(&format!(
            "rmmod vhost_vdpa; insmod /modules/$(grep vhost_vdpa /modules/order) max_iotlb_entries=65536 || failed vhost_vdpa
             card card0 {first}; card card1 {second}
             ip netns add there && ip -n there link add far type bridge || failed no bridge
             ip -n there address add 10.77.0.2/24 dev far && ip -n there link set far up
             for name in $(ls /sys/class/net); do
                 case $(cat /sys/class/net/$name/address) in 02:00:00:00:77:*)
                     ip link set $name netns there
                     ip netns exec there ethtool -C $name tx-frames 0 || failed ethtool
                     ip -n there link set $name master far up
                 esac
             done
             dmesg -c >/dev/null"
        ));
    }
}
