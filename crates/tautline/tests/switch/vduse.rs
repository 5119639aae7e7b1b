//! Network interfaces of a kernel on the switch, without TAPs (VDUSE), in a guest whose kernel has it. One interface is
//! in a network namespace, as a container has it, so that frames between the two pass the switch.

use std::time::Duration;

use peers::Guest;
use peers::guest::Settings;

use crate::common::tautline;

/// For what happens soon. The CPU is emulated.
const SOON: Duration = Duration::from_secs(30);

/// Waits for a file or a pattern, in the guest's shell.
const FUNCTIONS: &str = r#"
    until_true() { # until_true COMMAND…: within 20 s
        n=0; until "$@" >/dev/null 2>&1; do n=$((n + 1)); [ $n -lt 200 ] || return 1; sleep 0.1; done
    }
    interface() { ls /sys/bus/vdpa/devices/$1/virtio*/net; }
    start() { # start OPTIONS: a switch with two ports
        tautline switch --control /run/ctl --port near=vduse:near$1 --port far=vduse:far$1 >>/run/out 2>>/run/log </dev/null &
        echo $! >/run/pid
    }
    ended() { ! grep -q '^State:.[^Z]' /proc/$(cat /run/pid)/status; }
    failed() { echo "$*"; cat /run/log /run/out; dmesg | tail -n 20; exit 1; }
"#;

struct Lab {
    guest: Guest,
}

impl Lab {
    fn boot() -> Self {
        let guest = Settings::default().size(1, 384).vduse().program(&tautline()).start();
        Lab { guest: guest.unwrap_or_else(|error| panic!("{error}")) }
    }

    fn must(&self, line: &str) -> String {
        self.guest.must(&format!("{FUNCTIONS}\n{line}"))
    }

    /// Two interfaces with addresses, on a switch whose ports have these options.
    fn start(&self, options: &str) {
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

    /// Payload both ways, with frames as long as the MTU allows.
    fn check(&self, layout: &str) {
        self.must(
            "ping -c 3 -i 0.2 -W 10 10.77.0.2 || failed ping
             ip netns exec there ping -c 3 -i 0.2 -W 10 10.77.0.1 || failed ping",
        );
        self.must(
            "mkdir -p /tmp/www; head -c 4194304 /dev/urandom >/tmp/www/file; md5sum </tmp/www/file >/run/sum
             httpd -p 10.77.0.1:80 -h /tmp/www; ip netns exec there httpd -p 10.77.0.2:80 -h /tmp/www
             wget -q -O - http://10.77.0.2/file | md5sum | cmp - /run/sum || failed to near
             ip netns exec there wget -q -O - http://10.77.0.1/file | md5sum | cmp - /run/sum || failed to far
             killall httpd",
        );
        self.must(
            "ip link set $(cat /run/near) mtu 9000; ip -n there link set $(cat /run/far) mtu 9000
             ping -c 3 -i 0.2 -W 10 -M do -s 8972 10.77.0.2 || failed ping",
        );
        let ports = self.must("tautline ctl /run/ctl ports");
        assert_eq!(ports.matches(layout).count(), 2, "{ports}");
    }

    /// Ends the switch as its operator does; nothing is left in the kernel.
    fn end(&self) {
        self.must(
            "kill $(cat /run/pid); until_true ended || failed still there
             for name in near far; do [ ! -e /dev/vduse/$name ] || failed left $name; done
             [ -z \"$(ls /sys/bus/vdpa/devices)\" ] || failed left on the bus
             ip netns delete there",
        );
    }
}

#[test]
fn a_kernel_has_interfaces_on_the_switch_and_keeps_them_when_the_switch_is_killed() {
    let lab = Lab::boot();
    let doctor = lab.must("tautline doctor --require vduse");
    assert!(doctor.contains("created, opened and destroyed a network device"), "{doctor}");
    page(&lab);
    for (options, layout) in [("", "split"), (",packed=on", "packed")] {
        lab.start(options);
        lab.check(layout);
        killed_under_traffic(&lab, options);
        lab.end();
    }
}

/// The page's commands, in the guest. The modules are loaded already, and there is no modprobe.
fn page(lab: &Lab) {
    let page = include_str!("../../../../docs/tap-and-captures.md");
    let section = page.split("\n## `vduse:NAME`\n").nth(1).expect("the section");
    let block = section.split("```").nth(1).and_then(|block| block.strip_prefix("sh\n")).expect("its block");
    let (modprobe, rest) = block.split_once('\n').unwrap();
    assert!(modprobe.starts_with("modprobe "), "{modprobe}");
    let rest = rest.replace("net0 &", "net0 >>/run/out 2>>/run/log </dev/null & echo $! >/run/pid");
    lab.must(&rest);
    lab.must(
        "ping -c 1 -W 10 10.9.0.1 && ping -c 1 -W 1 10.9.0.7 && exit 1
         kill $(cat /run/pid); until_true ended || failed still there",
    );
}

/// What is on its way when the switch is killed arrives once it runs again, and nothing arrives twice.
fn killed_under_traffic(lab: &Lab, options: &str) {
    let pings = lab
        .guest
        .begin("ping -i 0.02 -c 300 -W 20 10.77.0.2 | tail -n 3", SOON)
        .unwrap_or_else(|error| panic!("{error}"));
    lab.must(&format!("sleep 1; kill -KILL $(cat /run/pid); sleep 1; start '{options}'"));
    let said = pings.wait().unwrap_or_else(|error| panic!("{error}")).stdout;
    println!("killed with{options:?}: {said}");
    let word = |before: &str| -> u32 {
        let words: Vec<&str> = said.split([' ', ',', '\n']).filter(|word| !word.is_empty()).collect();
        let at = words.windows(2).position(|pair| pair[1] == before);
        at.map_or(0, |at| words[at].trim_start_matches('+').parse().unwrap())
    };
    let (sent, received, doubled) = (word("packets"), word("received"), word("duplicates"));
    let log = lab.must("cat /run/log");
    assert_eq!(doubled, 0, "{said}\n{log}");
    assert!(sent == 300 && received >= 298, "{said}\n{log}");
    lab.must("ping -c 3 -i 0.2 -W 10 10.77.0.2 || failed ping");
}
