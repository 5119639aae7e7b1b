//! Tunnels between the switch and the kernel's own devices, which a guest has.

use peers::guest::{Port, Settings};
use peers::{Guest, Netns};

use super::Switch;
use super::pairs::snmp_counter;
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
    _network: Netns,
    _sockets: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let sockets = tempfile::tempdir().unwrap();
        let socket = |name: &str| sockets.path().join(name);
        let network = Netns::new().unwrap();
        let mut arguments = vec![
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
        Scene { switch, guest, _network: network, _sockets: sockets }
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
    scene.transfers_in_fragments();
    // The kernel does not check the outer checksum of a frame whose inner checksum it has to complete. A device without
    // offloads has no such frames, so the kernel checks all sums.
    scene.move_to_plain_device();
    (1..=TUNNELS.len()).for_each(|key| scene.transfers(key));
    scene.had_no_wrong_checksum();
    let counters = scene.switch.end();
    let blame = ["malformed tunnel header", "no such tunnel", "congestion mark lost"];
    for queue in counters.ports.iter().flat_map(|port| &port.queues) {
        assert!(queue.drops.keys().all(|reason| !blame.contains(&&**reason)), "{counters:#?}");
    }
}
