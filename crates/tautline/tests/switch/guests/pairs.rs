//! One guest whose network interfaces are two by two the ends of a wire through the switch: the near end
//! stays where the guest's programs are, the far end goes to a network namespace of the guest.

use std::fmt::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use peers::guest::{Port, Settings};
use peers::{Guest, bytes_received};

/// An Ethernet header without tag, bytes.
pub const ETHERNET_BYTES: u64 = 14;

/// How one interface is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub packed: bool,
    pub offloads: bool,
    pub mergeable: bool,
    pub queue_pairs: u16,
    pub mtu: u16,
}

impl End {
    /// As QEMU makes it where nothing else is said.
    pub const PLAIN: End = End { packed: false, offloads: true, mergeable: true, queue_pairs: 1, mtu: 1500 };

    pub fn port(self, socket: &Path) -> Port {
        let port = Port::new(socket)
            .packed(self.packed)
            .offloads(self.offloads)
            .mergeable(self.mergeable)
            .queue_pairs(self.queue_pairs);
        // Where the MTU is Ethernet's, it is not offered either: that is the usual case.
        if self.mtu == 1500 { port } else { port.host_mtu(self.mtu) }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |on, yes, no| if on { yes } else { no };
        write!(
            f,
            "{}, offloads {}, mergeable {}, {} queue pair(s), MTU {}",
            word(self.packed, "packed", "split"),
            word(self.offloads, "on", "off"),
            word(self.mergeable, "on", "off"),
            self.queue_pairs,
            self.mtu
        )
    }
}

/// The two ends of a wire.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub near: End,
    pub far: End,
}

/// The sockets of such pairs, and what the switch is told of them. Port `n0` is the near end of the first.
pub struct Plan {
    folder: tempfile::TempDir,
    pairs: Vec<Pair>,
}

impl Plan {
    pub fn new(pairs: impl IntoIterator<Item = Pair>) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), pairs: pairs.into_iter().collect() }
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ends(&self) -> impl Iterator<Item = (String, End)> {
        let ends = self.pairs.iter().zip(0..);
        ends.flat_map(|(pair, index)| [(format!("n{index}"), pair.near), (format!("f{index}"), pair.far)])
    }

    /// `--port` for each end: a switch that learns where the ends are.
    pub fn learning(&self) -> Vec<String> {
        let port = |(name, end): (String, End)| {
            let socket = self.socket(&name);
            format!("--port={name}=vhost-user:{},queue-pairs={}", socket.display(), end.queue_pairs)
        };
        self.ends().map(port).collect()
    }

    /// The same with `--wire` for each pair.
    pub fn wired(&self) -> Vec<String> {
        let mut arguments = self.learning();
        arguments.extend(self.indices().map(|index| format!("--wire=n{index}=f{index}")));
        arguments
    }

    fn indices(&self) -> Range<usize> {
        0..self.pairs.len()
    }

    /// Boots the guest and gives every interface its place and address.
    pub fn boot(&self, change: impl Fn(Port) -> Port) -> Lab {
        let ports = self.ends().map(|(name, end)| change(end.port(&self.socket(&name))));
        let settings = ports.fold(Settings::default(), Settings::port);
        // Two CPUs, for two queue pairs; memory for all those receive buffers of 64 KiB.
        let guest = settings.size(2, 768).start().unwrap();
        let lab = Lab { guest, pairs: self.pairs.clone() };
        lab.configure();
        lab
    }
}

/// A guest with all its wires.
pub struct Lab {
    pub guest: Guest,
    pairs: Vec<Pair>,
}

/// One interface's counters.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Count {
    pub fn mean_bytes(self) -> u64 {
        self.bytes / self.packets.max(1)
    }
}

/// Which way a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    ToFar,
    ToNear,
}

impl Lab {
    pub fn indices(&self) -> Range<usize> {
        0..self.pairs.len()
    }

    fn configure(&self) {
        // Interfaces of one namespace do not answer for each other, should the switch flood.
        let mut script = String::from(
            "set -e
             echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
             mkdir /tmp/www
             head -c 3000000 /dev/urandom >/tmp/www/file
             httpd -p 80 -h /tmp/www\n",
        );
        for index in self.indices() {
            let (near, far) = (2 * index, 2 * index + 1);
            let _ = writeln!(
                script,
                "grep -q :{near:02x}$ /sys/class/net/eth{near}/address
                 grep -q :{far:02x}$ /sys/class/net/eth{far}/address
                 ip address add 10.{index}.0.1/24 dev eth{near}
                 ip link set eth{near} up
                 ip netns add far{index}
                 ip link set eth{far} netns far{index}
                 ip -n far{index} link set lo up
                 ip -n far{index} address add 10.{index}.0.2/24 dev eth{far}
                 ip -n far{index} link set eth{far} up
                 ip netns exec far{index} httpd -p 80 -h /tmp/www
                 ip netns exec far{index} iperf3 --server --daemon --pidfile /tmp/iperf3.{index}"
            );
        }
        self.guest.must(&script);
    }

    /// Runs a shell's command line where an interface is.
    pub fn must_at(&self, interface: usize, line: &str) -> String {
        match interface % 2 {
            0 => self.guest.must(line),
            _ => self.guest.must(&format!("ip netns exec far{} sh -c '{line}'", interface / 2)),
        }
    }

    /// Both ends of a pair are what they were to be: as the guest's driver negotiated it.
    pub fn check_features(&self, index: usize) {
        let Pair { near, far } = self.pairs[index];
        for (interface, end) in [(2 * index, near), (2 * index + 1, far)] {
            let folder = format!("/sys/class/net/eth{interface}");
            let said = self.must_at(
                interface,
                &format!("cat {folder}/device/features {folder}/mtu; ethtool -l eth{interface}"),
            );
            let mut lines = said.lines();
            let (bits, mtu) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
            // The number of pairs in use comes after the largest possible number.
            let pairs = lines.rev().find_map(|line| line.strip_prefix("Combined:")).map(str::trim);
            let has = |bit: usize| bits.as_bytes().get(bit) == Some(&b'1');
            // VIRTIO 1.3 §5.1.3, §6: VERSION_1; RING_PACKED; MRG_RXBUF; MQ; MTU; CSUM, GUEST_CSUM,
            // GUEST_TSO4, GUEST_TSO6, HOST_TSO4, HOST_TSO6.
            let found = (has(32), has(34), has(15), has(22), has(3), [0, 1, 7, 8, 11, 12].map(has));
            let End { packed, offloads, mergeable, queue_pairs, mtu: wanted_mtu } = end;
            let wanted = (true, packed, mergeable, queue_pairs > 1, wanted_mtu != 1500, [offloads; 6]);
            assert_eq!(found, wanted, "eth{interface} ({end}): {said}");
            let numbers = (wanted_mtu.to_string(), queue_pairs.to_string());
            assert_eq!((mtu, pairs), (&*numbers.0, Some(&*numbers.1)), "eth{interface} ({end}): {said}");
        }
    }

    /// Three answers to three questions of so many bytes, of any way that IP goes, or in one frame each.
    pub fn ping(&self, index: usize, options: &str) {
        self.guest.must(&format!("ping -c 3 -i 0.05 -W 10 {options} 10.{index}.0.2"));
    }

    /// The payload that iperf3's receiving side counted, bytes. Where the options say how many to send, what is
    /// under way when all is sent is not counted: they must keep the windows small.
    pub fn iperf3(&self, address: &str, way: Way, options: &str) -> u64 {
        let reverse = if way == Way::ToNear { "--reverse" } else { "" };
        let report = self.guest.must(&format!("iperf3 --client {address} --json {reverse} {options}"));
        bytes_received(&report).unwrap_or_else(|| panic!("{report}"))
    }

    /// TCP's payload arrives as it was sent.
    pub fn transfer_whole(&self, index: usize, way: Way) {
        let (at, from) = match way {
            Way::ToFar => (2 * index + 1, 1),
            Way::ToNear => (2 * index, 2),
        };
        self.must_at(at, &format!("wget -q -O - http://10.{index}.0.{from}/file | cmp - /tmp/www/file"));
    }

    /// What an interface has received and sent.
    pub fn received_and_sent(&self, interface: usize) -> [Count; 2] {
        let names = ["rx_packets", "rx_bytes", "tx_packets", "tx_bytes"];
        let said = self.must_at(
            interface,
            &format!("cd /sys/class/net/eth{interface}/statistics; cat {}", names.join(" ")),
        );
        let numbers: Vec<u64> = said.lines().map(|line| line.parse().unwrap()).collect();
        [0, 2].map(|at| Count { packets: numbers[at], bytes: numbers[at + 1] })
    }

    /// Neither end of a pair saw anything wrong: no frame with an error, no checksum that is not right.
    pub fn check_no_errors(&self, index: usize) {
        for interface in [2 * index, 2 * index + 1] {
            let errors = format!("/sys/class/net/eth{interface}/statistics/rx_errors");
            let said = self.must_at(interface, &format!("cat {errors} /proc/net/snmp"));
            assert!(said.starts_with("0\n"), "eth{interface}: {said}");
            for (protocol, counter) in [
                ("Ip", "InHdrErrors"),
                ("Icmp", "InCsumErrors"),
                ("Tcp", "InErrs"),
                ("Tcp", "InCsumErrors"),
                ("Udp", "InCsumErrors"),
            ] {
                assert_eq!(snmp_counter(&said, protocol, counter), 0, "eth{interface}: {counter}\n{said}");
            }
        }
    }
}

/// A counter of `/proc/net/snmp`: for each protocol a line of names and one of values.
pub fn snmp_counter(text: &str, protocol: &str, counter: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(':'));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let at = names.split_whitespace().position(|name| name == counter).unwrap();
    values.split_whitespace().nth(at).unwrap().parse().unwrap()
}
