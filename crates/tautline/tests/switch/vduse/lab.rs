//! A guest whose kernel has VDUSE, and what its tests do there.

use std::time::Duration;

use peers::Guest;
use peers::guest::Settings;

use crate::common::tautline;

/// For what happens soon. The CPU is emulated.
const SOON: Duration = Duration::from_secs(30);

/// What the scenes use, in the guest's shell.
const FUNCTIONS: &str = r#"
    until_true() { # until_true COMMAND…: within 20 s
        n=0; until "$@" >/dev/null 2>&1; do n=$((n + 1)); [ $n -lt 200 ] || return 1; sleep 0.1; done
    }
    interface() { ls /sys/bus/vdpa/devices/$1/virtio*/net; }
    switch() { # switch PORTS…: in the background
        tautline switch --control /run/ctl "$@" >>/run/out 2>>/run/log </dev/null &
        echo $! >/run/pid
    }
    start() { # start OPTIONS: a switch with two ports
        switch --port near=vduse:near$1 --port far=vduse:far$1
    }
    ended() { ! grep -q '^State:.[^Z]' /proc/$(cat /run/pid)/status; }
    failed() { echo "$*"; cat /run/log /run/out; dmesg | tail -n 20; exit 1; }
    refused() { # refused WORDS COMMAND…: the command fails and says the words
        words=$1; shift
        ! timeout 20 "$@" >/run/refused 2>&1 </dev/null || failed "$* runs"
        grep -q "$words" /run/refused || failed "$*: $(cat /run/refused)"
    }
    there() { ip netns exec there "$@"; }
    counted() { # counted DIRECTION INTERFACE: packets and bytes
        cat /sys/class/net/$2/statistics/${1}_packets /sys/class/net/$2/statistics/${1}_bytes
    }
    mean() { # mean BEFORE AFTER: bytes of a packet, of what `counted` wrote into two files
        set -- $(cat $1) $(cat $2); echo $((($4 - $2) / ($3 - $1)))
    }
"#;

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
        self.guest.must(&format!("{FUNCTIONS}\n{line}"))
    }

    /// Two interfaces with addresses, on a switch whose ports have these options. One is moved to a network namespace,
    /// as a container has it.
    pub fn start(&self, options: &str) {
        self.must(&format!(
            "start '{options}'
             for name in near far; do until_true interface $name || failed no interface $name; done
             near=$(interface near) far=$(interface far)
             ip netns add there
             ip link set $far netns there
             ip address add 10.77.0.1/24 dev $near && ip link set $near up
             ip -n there address add 10.77.0.2/24 dev $far && ip -n there link set $far up
             echo $near >/run/near; echo $far >/run/far"
        ));
    }

    /// Payload both ways. Frames are longer than the MTU, because neither kernel cuts them up (TSO), and then as long
    /// as a large MTU allows.
    pub fn check(&self, layout: &str) {
        self.must(
            "ping -c 3 -i 0.2 -W 10 10.77.0.2 || failed ping
             there ping -c 3 -i 0.2 -W 10 10.77.0.1 || failed ping",
        );
        let means = self.must(
            "mkdir -p /tmp/www; head -c 4194304 /dev/urandom >/tmp/www/file; md5sum </tmp/www/file >/run/sum
             near=$(cat /run/near) far=$(cat /run/far)
             httpd -p 10.77.0.1:80 -h /tmp/www; there httpd -p 10.77.0.2:80 -h /tmp/www
             wget -q -O - http://10.77.0.2/file | md5sum | cmp - /run/sum || failed to near
             counted tx $near >/run/sent.0
             there cat /sys/class/net/$far/statistics/rx_packets /sys/class/net/$far/statistics/rx_bytes >/run/got.0
             there wget -q -O - http://10.77.0.1/file | md5sum | cmp - /run/sum || failed to far
             counted tx $near >/run/sent.1
             there cat /sys/class/net/$far/statistics/rx_packets /sys/class/net/$far/statistics/rx_bytes >/run/got.1
             killall httpd
             mean /run/sent.0 /run/sent.1; mean /run/got.0 /run/got.1",
        );
        let means: Vec<u32> = means.split_whitespace().map(|word| word.parse().unwrap()).collect();
        println!("bytes of a packet, sent and received, with an MTU of 1500: {means:?}");
        assert!(means.len() == 2 && means.iter().all(|bytes| *bytes > 3000), "{means:?}");
        let large = self.must(
            "near=$(cat /run/near) far=$(cat /run/far)
             ip link set $near mtu 9000; ip -n there link set $far mtu 9000
             counted tx $near >/run/sent.0
             ping -q -c 20 -i 0.05 -W 10 -M do -s 8972 10.77.0.2 >/run/said || failed ping
             counted tx $near >/run/sent.1
             mean /run/sent.0 /run/sent.1",
        );
        println!("bytes of a packet with an MTU of 9000: {large}");
        assert!(large.trim().parse::<u32>().unwrap() > 8000, "{large}");
        let ports = self.must("tautline ctl /run/ctl ports");
        assert_eq!(ports.matches(layout).count(), 2, "{ports}");
    }

    /// Ends the switch as its operator does; nothing is left in the kernel.
    pub fn end(&self) {
        self.must(
            "kill $(cat /run/pid); until_true ended || failed still there
             for name in near far; do [ ! -e /dev/vduse/$name ] || failed left $name; done
             [ -z \"$(ls /sys/bus/vdpa/devices)\" ] || failed left on the bus
             [ ! -e /run/netns/there ] || ip netns delete there",
        );
    }

    /// What is on its way when the switch is killed arrives once it runs again, and nothing arrives twice.
    pub fn killed_under_traffic(&self, options: &str) {
        let pings = self
            .guest
            .begin("ping -i 0.02 -c 150 -W 20 10.77.0.2 | tail -n 3", SOON)
            .unwrap_or_else(|error| panic!("{error}"));
        self.must(&format!("sleep 0.7; kill -KILL $(cat /run/pid); sleep 0.7; start '{options}'"));
        let said = pings.wait().unwrap_or_else(|error| panic!("{error}")).stdout;
        println!("killed with{options:?}: {said}");
        let word = |before: &str| -> u32 {
            let words: Vec<&str> = said.split([' ', ',', '\n']).filter(|word| !word.is_empty()).collect();
            let at = words.windows(2).position(|pair| pair[1] == before);
            at.map_or(0, |at| words[at].trim_start_matches('+').parse().unwrap())
        };
        let (sent, received, doubled) = (word("packets"), word("received"), word("duplicates"));
        let log = self.must("cat /run/log");
        assert_eq!(doubled, 0, "{said}\n{log}");
        assert!(sent == 150 && received >= 148, "{said}\n{log}");
        self.must("ping -c 3 -i 0.2 -W 10 10.77.0.2 || failed ping");
    }
}
