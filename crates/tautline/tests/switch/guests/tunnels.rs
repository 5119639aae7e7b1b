//! Tunnels between the switch and the kernel's own devices, which a guest has.

use peers::guest::{Port, Settings};
use peers::{Guest, Netns};

use super::Switch;
use super::pairs::snmp_counter;
use crate::common::Run;
use crate::switch_process::wait_for;

/// A tunnel: the port's kind and options behind the address of the other end, and the words of `ip link add`.
struct Tunnel {
    kind: &'static str,
    is_v6: bool,
    options: &'static str,
    device: &'static str,
}

const fn tunnel(kind: &'static str, is_v6: bool, options: &'static str, device: &'static str) -> Tunnel {
    Tunnel { kind, is_v6, options, device }
}

/// The tunnels; the key of each is the position, counted from 1.
const TUNNELS: [Tunnel; 9] = [
    tunnel("geneve", false, "", "geneve id KEY"),
    tunnel("geneve", false, ",csum=on", "geneve id KEY udpcsum"),
    tunnel("geneve", true, "", "geneve id KEY"),
    tunnel("vxlan", false, ",csum=on", "vxlan id KEY dstport 4789 udpcsum"),
    tunnel("vxlan", true, "", "vxlan id KEY dstport 4789"),
    tunnel("gre", false, "", "gretap key KEY local 192.0.2.2"),
    tunnel("gre", false, ",csum=on", "gretap key KEY csum local 192.0.2.2"),
    tunnel("gre", true, "", "ip6gretap key KEY local fd00::2 encaplimit none"),
    tunnel("gre", true, ",csum=on", "ip6gretap key KEY csum local fd00::2 encaplimit none"),
];

/// The bytes of the file that each end has.
const FILE_BYTES: u32 = 200_000;

/// The congestion marks Not-ECT, ECT(1), ECT(0) and CE.
const MARKS: [usize; 4] = [0, 1, 2, 3];
/// The kernel's counters of received echo requests, and of received packets with each mark but the first: other packets do not
/// have any.
const COUNTERS: [(&str, &str); 4] =
    [("Icmp", "InEchos"), ("IpExt", "InECT1Pkts"), ("IpExt", "InECT0Pkts"), ("IpExt", "InCEPkts")];

/// The Ethernet address of the other end of the tunnels.
const UNDERLAY_MAC: &str = "02:00:00:00:99:01";

/// A switch with all tunnels, and a guest with the stations behind the switch and the devices at the other end.
///
/// ```text
///   n1: eth0 10.9.KEY.1 ─ i0 ─ tKEY ┄┄┄ br-phys 192.0.2.1 ─ wire ─ eth1 192.0.2.2 ┄┄┄ tKEY 10.9.KEY.2
///                                                       └ plain ─ eth2, down at first
/// ```
///
/// `eth1` and `eth2` have one address. The device of `eth2` has no offloads.
struct Scene {
    switch: Switch,
    guest: Guest,
    /// The switch's control socket.
    control: String,
    _network: Netns,
    _sockets: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let sockets = tempfile::tempdir().unwrap();
        let socket = |name: &str| sockets.path().join(name);
        let network = Netns::new().unwrap();
        let control = socket("control").display().to_string();
        let mut arguments = vec![
            format!("--control={control}"),
            "--port=br-phys=underlay:br-phys,address=192.0.2.1/24,network=phys".to_owned(),
            format!("--port=wire=vhost-user:{},network=phys", socket("wire").display()),
            format!("--port=i0=vhost-user:{}", socket("i0").display()),
            format!("--port=plain=vhost-user:{},network=phys", socket("plain").display()),
        ];
        let mut devices = String::new();
        for (Tunnel { kind, is_v6, options, device }, key) in TUNNELS.iter().zip(1..) {
            let [this, other] = if *is_v6 { ["fd00::1", "fd00::2"] } else { ["192.0.2.1", "192.0.2.2"] };
            arguments.push(format!("--port=t{key}={kind}:{other},key={key}{options}"));
            let device = device.replace("KEY", &key.to_string());
            devices += &format!(
                "ip link add t{key} type {device} remote {this}
                 ip address add 10.9.{key}.2/24 dev t{key}
                 ip link set t{key} mtu 1400 up
                 ip -n n1 address add 10.9.{key}.1/24 dev eth0\n"
            );
        }
        let switch = Switch::start_in(&network, &arguments);
        wait_for("the underlay's address of IPv6", || {
            network.ip("address replace fd00::1/64 dev br-phys nodad").ok()
        });
        let card = |name| Port::new(&socket(name)).reconnect();
        let cards =
            [card("i0"), card("wire").mac(UNDERLAY_MAC), card("plain").mac(UNDERLAY_MAC).offloads(false)];
        let guest = cards.into_iter().fold(Settings::default().tunnels(), Settings::port).start().unwrap();
        guest.must(&format!(
            "set -e
             sysctl -w net.ipv4.conf.all.arp_ignore=1
             ip netns add n1
             ip link set eth0 netns n1 mtu 1400
             ip -n n1 link set eth0 up
             ip address add 192.0.2.2/24 dev eth1
             ip address add fd00::2/64 dev eth1 nodad
             ip link set eth1 up
             {devices}
             mkdir /tmp/www
             head -c {FILE_BYTES} /dev/urandom >/tmp/www/file
             httpd -p 80 -h /tmp/www
             ip netns exec n1 httpd -p 80 -h /tmp/www"
        ));
        Scene { switch, guest, control, _network: network, _sockets: sockets }
    }

    /// Bytes arrive through a tunnel as they were sent, in both directions.
    fn transfers(&self, key: usize) {
        let sent = self.guest.must("sha256sum </tmp/www/file");
        for (at, from) in [("ip netns exec n1 ", 2), ("", 1)] {
            let got = self.guest.must(&format!("{at}wget -q -O - http://10.9.{key}.{from}/file | sha256sum"));
            assert_eq!(got, sent, "from 10.9.{key}.{from}");
        }
    }

    /// The kernel sends outer packets in fragments, because its link is narrower than what it sends through the tunnels. IPv6
    /// ends with that.
    fn transfers_in_fragments(&self) {
        self.guest.must("ip link set eth1 mtu 1000");
        for key in [1, 2, 4] {
            let network = format!("10.9.{key}.0/24 dev t{key} src 10.9.{key}.2");
            self.guest.must(&format!("ip route replace {network} proto kernel scope link mtu lock 1400"));
            let made = || snmp_counter(&self.guest.must("cat /proc/net/snmp"), "Ip", "FragCreates");
            let before = made();
            self.transfers(key);
            assert!(made() > before + 100, "tunnel {key}: {before} fragments before");
        }
    }

    /// Moves the other end of the tunnels to the device without offloads, and sends a frame to the switch.
    fn move_to_plain_device(&self) {
        self.guest.must(
            "set -e
             ip link set eth1 down
             ip address del 192.0.2.2/24 dev eth1
             ip link set eth2 up
             ip address add 192.0.2.2/24 dev eth2
             ip address add fd00::2/64 dev eth2 nodad
             ping -c 1 192.0.2.1
             ping -6 -c 1 fd00::1",
        );
    }

    /// Changes the flows of the switch.
    #[track_caller]
    fn flows(&self, words: &[&str]) {
        let ended = Run::new(&["ctl", &self.control, "flows"]).args(words).finish();
        assert!(ended.code == Some(0), "{ended}");
    }

    /// Sends an echo request with each mark through the first tunnel, from one namespace to an address in the other. Returns by
    /// how much the counters grew there, and those of the outer packets that come to the device.
    #[track_caller]
    fn marks(&self, from: &str, to: &str, address: &str) -> [[[u64; 4]; 2]; 4] {
        // A packet that is dropped has no answer.
        let counts = self.guest.must(&format!(
            "for mark in none 0 1 2 3; do
                 [ $mark = none ] || ip netns exec {from} ping -c 1 -W 1 -Q $mark {address} >/dev/null || true
                 for name in {to} n0; do ip netns exec $name cat /proc/net/snmp /proc/net/netstat && echo END; done
             done"
        ));
        let counts: Vec<_> = counts
            .split("END")
            .take(10)
            .map(|counts| COUNTERS.map(|(protocol, name)| snmp_counter(counts, protocol, name)))
            .collect();
        let grown = |at: usize| std::array::from_fn(|of| counts[at][of] - counts[at - 2][of]);
        MARKS.map(|mark| [grown(2 * mark + 2), grown(2 * mark + 3)])
    }

    /// Outer headers have the mark of the inner packet, and inner packets get marks of outer headers as from the kernel's
    /// device (RFC 6040). Flows write marks into outer headers, as routers do. Returns how many packets the switch drops.
    fn marks_congestion_as_the_kernel(&self) -> u64 {
        // Inner packets are counted apart from outer ones, whose namespace gets a name.
        self.guest.must(
            "set -e
             ip netns attach n0 $$
             ip netns add n2
             ip link set t1 netns n2
             ip -n n2 address add 10.9.1.2/24 dev t1
             ip -n n2 link set t1 mtu 1400 up",
        );
        let to_device = || self.marks("n1", "n2", "10.9.1.2");
        let unchanged = MARKS.map(|mark| {
            let both = [1, 2, 3].map(|of| u64::from(of == mark));
            [[1, both[0], both[1], both[2]], [0, both[0], both[1], both[2]]]
        });
        assert_eq!(to_device(), unchanged, "inner and outer marks");
        let mut drops = 0;
        for outer in MARKS {
            // From the bridge's own interface to the device, and back.
            let marked = |port: u16, send: &dyn Fn() -> [[[u64; 4]; 2]; 4]| {
                let fields = format!("priority=9,ip,in_port={port}");
                self.flows(&["add", &format!("{fields} actions=set_field:{outer}->nw_ecn,normal")]);
                let marks = send().map(|[inner, _]| inner);
                self.flows(&["del", "--strict", &fields]);
                marks
            };
            let by_kernel = marked(1, &to_device);
            let by_switch = marked(2, &|| self.marks("n2", "n1", "10.9.1.1"));
            assert_eq!(by_switch, by_kernel, "in {outer}");
            drops += by_switch.iter().filter(|counts| **counts == [0; 4]).count() as u64;
        }
        self.guest.must(
            "set -e
             ip -n n2 link set t1 netns n0
             ip address add 10.9.1.2/24 dev t1
             ip link set t1 mtu 1400 up",
        );
        drops
    }

    /// No checksum of a frame that the kernel checked was wrong.
    #[track_caller]
    fn had_no_wrong_checksum(&self) {
        for at in ["", "ip netns exec n1 "] {
            let counts = self.guest.must(&format!("{at}cat /proc/net/snmp /proc/net/snmp6"));
            for (protocol, counter) in [("Tcp", "InCsumErrors"), ("Udp", "InCsumErrors")] {
                assert_eq!(snmp_counter(&counts, protocol, counter), 0, "{at}{counts}");
            }
            let of_v6 = counts.lines().filter_map(|line| line.strip_prefix("Udp6InCsumErrors"));
            assert_eq!(of_v6.map(str::trim).collect::<Vec<_>>(), ["0"], "{at}{counts}");
        }
    }

    fn statistic(&self, device: &str, name: &str) -> u64 {
        self.guest.must(&format!("cat /sys/class/net/{device}/statistics/{name}")).trim().parse().unwrap()
    }
}

#[test]
fn each_kind_of_tunnel_joins_the_switch_with_the_kernel() {
    let scene = Scene::new();
    for key in 1..=TUNNELS.len() {
        let device = format!("t{key}");
        let before = ["rx_bytes", "tx_bytes"].map(|name| scene.statistic(&device, name));
        scene.transfers(key);
        let after = ["rx_bytes", "tx_bytes"].map(|name| scene.statistic(&device, name));
        let moved = [0, 1].map(|way| after[way] - before[way]);
        assert!(moved.iter().all(|bytes| *bytes > FILE_BYTES.into()), "tunnel {key}: {moved:?} bytes");
        for name in ["rx_errors", "rx_dropped", "tx_errors", "tx_dropped"] {
            assert_eq!(scene.statistic(&device, name), 0, "tunnel {key}: {name}");
        }
    }
    scene.had_no_wrong_checksum();
    let lost_marks = scene.marks_congestion_as_the_kernel();
    assert_eq!(lost_marks, 1, "CE outside of a packet whose ends do not know marks");
    scene.transfers_in_fragments();
    // The kernel does not check the outer checksum of a frame whose inner checksum it has to complete. A device without
    // offloads has no such frames, so the kernel checks all sums.
    scene.move_to_plain_device();
    (1..=TUNNELS.len()).for_each(|key| scene.transfers(key));
    scene.had_no_wrong_checksum();
    let counters = scene.switch.end();
    let drops = |of: &str| -> u64 {
        let queues = counters.ports.iter().flat_map(|port| &port.queues);
        queues.filter_map(|queue| queue.drops.get(of)).sum()
    };
    assert_eq!(["malformed tunnel header", "no such tunnel"].map(drops), [0, 0], "{counters:#?}");
    // Devices may have sent other packets meanwhile, such as reports of IPv6 groups.
    assert!(drops("congestion mark lost") >= lost_marks, "{counters:#?}");
}
