//! A guest whose kernel has VDUSE, and what its tests do there.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use peers::Guest;
use peers::guest::{LIMIT, Settings};

use crate::common::tautline;

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
    start() { # start OPTIONS ARGUMENTS…: a switch with two ports
        options=$1; shift; switch --port near=vduse:near$options --port far=vduse:far$options "$@"
    }
    ended() { ! grep -q '^State:.[^Z]' /proc/${1:-$(cat /run/pid)}/status; }
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
    tracing=/sys/kernel/tracing
    count_bounces() { # from now on
        [ -e $tracing/kprobe_events ] || mount -t tracefs none $tracing || failed no tracefs
        function=$(grep -m 1 -o 'vduse_domain_bounce[.a-z0-9]*' /proc/kallsyms)
        echo "p:bounces $function" >$tracing/kprobe_events && echo 1 >$tracing/events/kprobes/bounces/enable || failed no probe
    }
    bounces() { # how often the kernel has copied a buffer into the bounce area of a device, or out of one
        awk '$1 == "bounces" { print $2 }' $tracing/kprobe_profile
    }
    delivered() { # the frames that the switch has given to its ports
        tautline ctl /run/ctl ports | awk '$3 $4 == "toguest" { frames += $5 } END { print frames + 0 }'
    }
    child() { set -- $(cat /proc/$1/task/$1/children); echo $1; }
    has_child() { [ -n "$(child $1)" ]; }
    container() { # a process with a root and namespaces of its own; `there` is the name of its network namespace
        mkdir -p /run/box/bin /run/box/proc /run/box/tmp/www; cp /bin/busybox /run/box/bin/
        /programs/unshare --mount --uts --ipc --net --pid --fork chroot /run/box /bin/busybox sh -c \
            '/bin/busybox mount -t proc proc /proc; exec /bin/busybox sleep 100000' >>/run/out 2>>/run/log </dev/null &
        outside=$!; until_true has_child $outside || failed no container
        inside=$(child $outside); echo $inside >/run/inside
        until_true [ -e /proc/$inside/root/proc/1 ] || failed no container; ip netns attach there $inside
    }
    within() { /programs/nsenter --target $(cat /run/inside) --all --root /bin/busybox "$@"; } # a program of the container
    begin_pings() {
        # With room for what waits in a ring: with its own, small one, ping waits for a dead switch. Both ends know each
        # other meanwhile: a kernel that asks for an address and gets no answer gives up, and drops what waits.
        echoes >/run/echoes; known permanent
        ping -S 200000 -i 0.1 -c 1000000 10.77.0.2 >/run/pings 2>&1 </dev/null & echo $! >/run/pings.pid
    }
    known() { # known STATE: the state of both ends' addresses
        near=$(cat /run/near) far=$(cat /run/far)
        ip neigh replace 10.77.0.2 lladdr $(there cat /sys/class/net/$far/address) dev $near nud $1
        ip -n there neigh replace 10.77.0.1 lladdr $(cat /sys/class/net/$near/address) dev $far nud $1
    }
    end_pings() { known reachable; kill -INT $(cat /run/pings.pid); until_true ended $(cat /run/pings.pid) || failed pings go on; }
    echoes() { # the pings that this kernel has sent
        awk '$1 == "Icmp:" { if (!at) { for (n = 2; n <= NF; n++) if ($n == "OutEchos") at = n } else print $at }' /proc/net/snmp
    }
    pinged() { [ $(echoes) -ge $1 ]; }
    more_pings() { from=$(echoes); until_true pinged $((from + 10)) || { tail -n 5 /run/pings; failed no pings; }; }
"#;

/// The guest.
pub struct Lab {
    guest: Guest,
}

impl Lab {
    /// Boots the guest, with programs for containers.
    pub fn boot(settings: Settings) -> Self {
        let programs = ["unshare", "nsenter"].map(|name| Path::new("/usr/bin").join(name));
        let settings = programs.iter().fold(settings, |settings, program| settings.program(program));
        let guest = settings.program(&tautline()).start();
        Lab { guest: guest.unwrap_or_else(|error| panic!("{error}")) }
    }

    /// Watches the guests within the guest while `work` uses them.
    pub fn watch_guests<T>(&self, work: impl FnOnce() -> T) -> T {
        self.guest.watch_guests(work)
    }

    pub fn must(&self, line: &str) -> String {
        self.must_within(line, LIMIT)
    }

    pub fn must_within(&self, line: &str, limit: Duration) -> String {
        let output = self.guest.run_within(&format!("{FUNCTIONS}\n{line}"), limit);
        output.unwrap_or_else(|error| panic!("{error}")).expect_success()
    }

    /// Two interfaces with addresses, on a switch whose ports have these options. One is moved to a container,
    /// which has a root of its own.
    pub fn start(&self, options: &str) {
        self.must(&format!(
            "start '{options}'
             for name in near far; do until_true interface $name || failed no interface $name; done
             near=$(interface near) far=$(interface far)
             container; ip link set $far netns $(cat /run/inside)
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
             cp /tmp/www/file /run/box/tmp/www/file
             within [ -e /tmp/www/file ] && ! within [ -e /run/sum ] || failed not a root of its own
             near=$(cat /run/near) far=$(cat /run/far)
             httpd -p 10.77.0.1:80 -h /tmp/www; within httpd -p 10.77.0.2:80 -h /tmp/www
             wget -q -O - http://10.77.0.2/file | md5sum | cmp - /run/sum || failed to near
             counted tx $near >/run/sent.0
             there cat /sys/class/net/$far/statistics/rx_packets /sys/class/net/$far/statistics/rx_bytes >/run/got.0
             within wget -q -O - http://10.77.0.1/file | md5sum | cmp - /run/sum || failed to far
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
             [ ! -e /run/netns/there ] || ip netns delete there
             [ ! -e /run/inside ] || kill -KILL $(cat /run/inside); rm -f /run/inside",
        );
    }

    /// What is on its way when the switch is killed arrives once it runs again, and nothing arrives twice.
    pub fn killed_under_traffic(&self, options: &str) {
        let lost = self.lost_while(&format!(
            "more_pings; kill -KILL $(cat /run/pid); until_true ended || failed still there; more_pings; start '{options}'"
        ));
        assert!(lost <= 2, "lost {lost}");
        self.must("ping -c 3 -i 0.2 -W 10 10.77.0.2 || failed ping");
    }

    /// The switch is killed and runs again only after the kernel's limit for an answer, which is shortened. By then the
    /// kernel has given the devices up, and the switch makes them anew.
    pub fn given_up(&self) {
        self.must(
            "for name in near far; do
                 limit=/sys/class/vduse/$name/msg_timeout
                 [ $(cat $limit) = 30 ] || failed another limit; echo 1 >$limit
             done
             kill -KILL $(cat /run/pid); until_true ended || failed still there
             for name in near far; do echo $name >/sys/bus/vdpa/drivers/virtio_vdpa/unbind; done
             ip netns delete there; kill -KILL $(cat /run/inside); rm /run/inside",
        );
        self.start("");
        self.must(
            "[ $(cat /sys/class/vduse/near/msg_timeout) = 30 ] || failed the former device
             ping -c 3 -i 0.2 -W 10 10.77.0.2 || failed ping",
        );
    }

    /// Another process takes the ports over. Nothing is lost, and nothing arrives twice.
    pub fn taken_over_under_traffic(&self, options: &str) {
        let lost = self.lost_while(&format!(
            "more_pings; old=$(cat /run/pid); start '{options}' --take-over /run/ctl
             until_true ended $old || failed the old one is still there"
        ));
        let log = self.must("cat /run/log /run/out");
        println!("{log}");
        assert_eq!(lost, 0, "{log}");
        assert!(log.contains("taken over; no frame moved for"), "{log}");
    }

    /// Runs a line while pings are under way. Returns how many were lost before the last one that was answered, which was
    /// sent after the line. None was answered twice. The pings are 100 ms apart, because ping's socket drops some of 150
    /// answers that come at once.
    fn lost_while(&self, line: &str) -> usize {
        let said = self.must(&format!(
            "begin_pings; {line}
             sent=$(($(echoes) - $(cat /run/echoes)))
             answered() {{ grep -q \"icmp_seq=$((sent + 5)) \" /run/pings; }}
             until_true answered || {{ tail -n 5 /run/pings; failed no answer; }}
             end_pings; cat /run/pings"
        ));
        let number = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse::<usize>().ok();
        let answers: Vec<usize> = said.lines().filter_map(number).collect();
        let once: BTreeSet<usize> = answers.iter().copied().collect();
        let last = once.last().copied().unwrap_or(0);
        let lost = last - once.len();
        println!("{line}: {last} pings, {lost} without an answer, {} doubled", answers.len() - once.len());
        assert_eq!(once.len(), answers.len(), "{said}");
        lost
    }
}
