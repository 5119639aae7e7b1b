//! Tunnels between the switch and the kernel's own devices, each in a network namespace.
use std::time::Duration;

use peers::{Netns, OvsNetdev};

use super::Scene;
use crate::switch_process::wait_for;

/// Bytes of a test's TCP stream.
const STREAM: &str = "2000000";

/// What a tunnel of both ends is: the switch's columns, and the words of `ip link add`.
struct Ends<'a> {
    columns: &'a str,
    device: &'a str,
}

/// A switch with a tunnel, and a host at its other end.
///
/// ```text
///   inside: i0 10.9.0.1 ─ br0 ─ t0 ┄┄┄ br-phys 192.0.2.1 ─ wire ─ host: 192.0.2.2 ┄┄┄ t1 10.9.0.2
/// ```
struct Tunnelled {
    scene: Scene,
    inside: Netns,
    host: Netns,
}

impl Tunnelled {
    fn new(ends: &Ends<'_>) -> Self {
        let scene = Scene::new();
        let network = &scene.network;
        let (inside, host) = (network.sibling().unwrap(), network.sibling().unwrap());
        scene.vsctl("add-br br-phys -- set Bridge br-phys datapath_type=netdev");
        for (bridge, interface, other, address) in
            [("br-phys", "wire", &host, "192.0.2.2/24"), ("br0", "i0", &inside, "10.9.0.1/24")]
        {
            scene.vsctl(&format!("add-port {bridge} {interface} -- set Interface {interface} type=internal"));
            network.ip(&format!("link set {interface} netns {}", other.holder())).unwrap();
            other.configure(interface, address).unwrap();
        }
        network.configure("br-phys", "192.0.2.1/24").unwrap();
        network.ip("address add fd00::1/64 dev br-phys nodad").unwrap();
        host.ip("address add fd00::2/64 dev wire nodad").unwrap();
        inside.ip("link set i0 mtu 1400").unwrap();
        host.ip(&format!("link add t1 {}", ends.device)).unwrap();
        host.configure("t1", "10.9.0.2/24").unwrap();
        host.ip("link set t1 mtu 1400").unwrap();
        scene.vsctl(&format!("add-port br0 t0 -- set Interface t0 {}", ends.columns));
        assert_eq!(scene.columns("t0", "error"), "[]\n");
        Tunnelled { scene, inside, host }
    }

    /// The host answers pings, and bytes arrive as they were sent.
    #[track_caller]
    fn works(&self) {
        joined([(&self.inside, "10.9.0.1"), (&self.host, "10.9.0.2")]);
    }
}

/// The second host answers pings of the first, and bytes arrive in both directions as they were sent.
#[track_caller]
pub(super) fn joined(ends: [(&Netns, &str); 2]) {
    let [(one, _), (_, other)] = ends;
    wait_for("an answer through the tunnel", || {
        one.run(&format!("ping -c 1 -W 1 {other}")).unwrap().success().then_some(())
    });
    for ((from, _), (to, address)) in [(ends[0], ends[1]), (ends[1], ends[0])] {
        let listening = to.start(&python(RECEIVE, address)).unwrap();
        listening.wait_for("listening", Duration::from_secs(20)).unwrap();
        let sent = from.run(&python(SEND, address)).unwrap().expect_success();
        wait_for("the sum of the stream", || listening.said().contains(sent.trim()).then_some(()));
    }
}

/// A switch and an Open vSwitch, whose bridges `br-phys` are joined by a cable and have the addresses 192.0.2.1 and 192.0.2.2,
/// fd00::1 and fd00::2.
pub(super) struct Neighbours {
    pub scene: Scene,
    pub other: Netns,
    pub openvswitch: OvsNetdev,
}

impl Neighbours {
    pub fn new() -> Self {
        let scene = Scene::new();
        let other = scene.network.sibling().unwrap();
        let openvswitch = OvsNetdev::start(&other).unwrap();
        scene.network.join("eth1", &other, "eth2").unwrap();
        let bridge = "add-br br-phys -- set Bridge br-phys datapath_type=netdev";
        scene.vsctl(&format!("{bridge} -- add-port br-phys eth1 -- set Interface eth1 type=afxdp"));
        let neighbours = Neighbours { scene, other, openvswitch };
        neighbours.vsctl(&format!("{bridge} -- add-port br-phys eth2"));
        let hosts = [(&neighbours.scene.network, "eth1", 1), (&neighbours.other, "eth2", 2)];
        for (network, cable, number) in hosts {
            network.ip(&format!("link set {cable} up")).unwrap();
            network.configure("br-phys", &format!("192.0.2.{number}/24")).unwrap();
            network.ip(&format!("address add fd00::{number}/64 dev br-phys nodad")).unwrap();
        }
        neighbours
    }

    /// Asserts that `ovs-appctl` shows the tunnel, its neighbour and routes, and tracked connections in the same way for both
    /// switches.
    #[track_caller]
    fn show_the_same(&self, is_v6: bool) {
        let network = if is_v6 { "fd00::" } else { "192.0.2." };
        let ask = |words: &str| {
            let words: Vec<&str> = words.split(' ').collect();
            [self.scene.database.appctl(&words), self.openvswitch.appctl(&words)].map(Result::unwrap)
        };
        for words in ["tnl/neigh/show", "tnl/arp/show", "tnl/ports/show", "ovs/route/show"] {
            let [ours, theirs] = ask(words);
            assert_eq!(ours.lines().next(), theirs.lines().next(), "{words}");
            assert_eq!(shown(&ours, network, [1, 2]), shown(&theirs, network, [2, 1]), "{words}");
        }
        for host in ["7", "9"] {
            let [ours, theirs] = ask(&format!("ovs/route/lookup {network}{host}"));
            assert_eq!(shown(&ours, "", [1, 2]), shown(&theirs, "", [2, 1]));
        }
        let connections = |said: &str| -> Vec<String> {
            let lines = said.lines().filter(|line| line.starts_with("tcp") && line.contains("10.9.0."));
            // The state of each end is known to Open vSwitch, and that of the connection to this switch.
            let mut lines: Vec<_> =
                lines.map(|line| line.split(",protoinfo=(state").next().unwrap().to_owned()).collect();
            lines.sort_unstable();
            lines
        };
        let [ours, theirs] = ask("dpctl/dump-conntrack zone=7");
        assert_eq!(connections(&ours), connections(&theirs), "{ours}{theirs}");
        assert!(connections(&ours).len() >= 2, "{ours}");
        assert!(ours.lines().any(|line| line.starts_with("icmp") && theirs.contains(line)), "{ours}{theirs}");
        assert_eq!(self.scene.appctl("dpctl/dump-conntrack zone=8"), "");
    }

    /// Runs `ovs-vsctl` at Open vSwitch.
    #[track_caller]
    pub fn vsctl(&self, words: &str) -> String {
        self.openvswitch.database().vsctl(&words.split(' ').collect::<Vec<_>>()).unwrap()
    }
}

/// The lines that name tunnels or addresses of this network, sorted. This end and the other end have the same names for
/// both switches, and Ethernet addresses and numbers of the datapath are left out.
fn shown(said: &str, network: &str, [own, other]: [u8; 2]) -> Vec<String> {
    let is_meant = |line: &&str| line.contains(network) || line.contains("sys");
    let mut lines: Vec<String> = said
        .lines()
        .filter(is_meant)
        .map(|line| {
            let words = line.split(' ').map(|word| match word {
                word if word.len() == 17 && word.matches(':').count() == 5 => "MAC".to_owned(),
                word if word.starts_with('(') => "(PORT)".to_owned(),
                word => ["192.0.2.", "fd00::"].into_iter().fold(word.to_owned(), |word, network| {
                    let named = |word: String, host: u8, name: &str| match word
                        .strip_prefix(&format!("{network}{host}"))
                    {
                        Some(rest) if !rest.starts_with(|next: char| next.is_ascii_digit()) => {
                            format!("{name}{rest}")
                        }
                        _ => word,
                    };
                    named(named(word, own, "OWN"), other, "OTHER")
                }),
            });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    lines.sort_unstable();
    lines
}

const RECEIVE: &str = "import socket, hashlib, sys
s = socket.create_server((sys.argv[1], 5000)); print('listening', flush=True)
c = s.accept()[0]; h = hashlib.sha256()
while True:
    b = c.recv(65536)
    if not b: break
    h.update(b)
print(h.hexdigest(), flush=True); c.send(b'.')";

const SEND: &str = "import socket, hashlib, os, sys
b = os.urandom(int(sys.argv[2])); c = socket.create_connection((sys.argv[1], 5000))
c.sendall(b); c.shutdown(socket.SHUT_WR); c.recv(1); print(hashlib.sha256(b).hexdigest())";

/// The command line of a script.
fn python(script: &str, address: &str) -> String {
    format!("python3 -c \"{script}\" {address} {STREAM}")
}

#[test]
fn vxlan_joins_the_switch_with_the_kernel() {
    let tunnel = Tunnelled::new(&Ends {
        columns: "type=vxlan options:remote_ip=192.0.2.2 options:key=7",
        device: "type vxlan id 7 remote 192.0.2.1 dstport 4789",
    });
    tunnel.works();
    tunnel.scene.switch.end();
}

/// A frame of a controller leaves by a tunnel with the key that its actions have set: OVN asks for unknown neighbors on other
/// chassis in this way.
#[test]
fn a_controllers_frame_has_the_tunnel_fields_of_its_actions() {
    let tunnel = Tunnelled::new(&Ends {
        columns: "type=vxlan options:remote_ip=192.0.2.2 options:key=flow",
        device: "type vxlan id 7 remote 192.0.2.1 dstport 4789",
    });
    let port = tunnel.scene.columns("t0", "ofport");
    // A host that is asked by ARP learns the address of the sender.
    let asks = "ffffffffffff0200000000770806000108000604000102000000007\
                70a09004d0000000000000a090002";
    let packet = format!(
        "packet-out br0 in_port=controller,packet={asks},actions=set_field:7->tun_id,output:{}",
        port.trim()
    );
    wait_for("the host to learn of the station in a controller's frame", || {
        tunnel.scene.ofctl(&packet);
        let known = tunnel.host.run("ip neigh show 10.9.0.77").unwrap().expect_success();
        known.contains("02:00:00:00:00:77").then_some(())
    });
    tunnel.scene.switch.end();
}

#[test]
fn each_kind_of_tunnel_joins_the_switch_with_open_vswitch() {
    let neighbours = Neighbours::new();
    let (scene, other) = (&neighbours.scene, &neighbours.other);
    neighbours.vsctl("add-br br0 -- set Bridge br0 datapath_type=netdev");
    for (network, address) in [(&scene.network, "10.9.0.1/24"), (other, "10.9.0.2/24")] {
        network.configure("br0", address).unwrap();
        network.ip("link set br0 mtu 1400").unwrap();
    }
    // Both switches see the frames of the same connections.
    let tracked = "add-flow br0 ip,actions=ct(commit,zone=7,exec(set_field:5->ct_mark)),normal";
    scene.ofctl(tracked);
    neighbours.openvswitch.database().ofctl(&tracked.split(' ').collect::<Vec<_>>()).unwrap();
    for (columns, is_v6) in [
        ("type=geneve options:key=7", false),
        ("type=geneve options:key=7 options:csum=true", false),
        ("type=geneve options:key=9", true),
        ("type=vxlan options:key=7 options:csum=true", true),
        ("type=gre options:key=7", false),
        ("type=gre options:csum=true", true),
    ] {
        let remote = |number: u8| match is_v6 {
            false => format!("options:remote_ip=192.0.2.{number}"),
            true => format!("options:remote_ip=fd00::{number}"),
        };
        println!("{columns} {}", remote(2));
        scene.vsctl(&format!("add-port br0 t0 -- set Interface t0 {columns} {}", remote(2)));
        neighbours.vsctl(&format!("add-port br0 t0 -- set Interface t0 {columns} {}", remote(1)));
        joined([(&scene.network, "10.9.0.1"), (other, "10.9.0.2")]);
        neighbours.show_the_same(is_v6);
        scene.vsctl("del-port t0");
        neighbours.vsctl("del-port t0");
    }
    scene.vsctl("add-port br0 t0 -- set Interface t0 type=geneve options:remote_ip=192.0.2.9");
    wait_for("the way of a tunnel", || {
        (scene.columns("t0", "status") == "{tunnel_egress_iface=br-phys}\n").then_some(())
    });
    scene.vsctl("set Interface t0 options:remote_ip=tunnels.example");
    let error = scene.columns("t0", "error");
    assert!(error.contains("the address of the other end, or flow"), "{error}");
    neighbours.scene.switch.end();
}

/// The commands of the page, in the namespace of the switch. The network card is one end of a virtual cable.
#[test]
fn every_command_of_the_page_works() {
    let page = include_str!("../../../../../docs/tunnels.md");
    let scene = Scene::new();
    let host = scene.network.sibling().unwrap();
    scene.network.join("eth1", &host, "wire").unwrap();
    scene.network.ip("link set eth1 up").unwrap();
    host.run("ethtool -K wire tx off").unwrap().expect_success();
    host.configure("wire", "192.0.2.2/24").unwrap();
    host.ip("link add t1 type vxlan id 7 remote 192.0.2.1 dstport 4789").unwrap();
    host.configure("t1", "10.9.0.2/24").unwrap();
    let marker = "<!-- test: run by crates/tautline/tests/switch/ovsdb/tunnels.rs -->\n```sh\n";
    let block = page.split(marker).nth(1).unwrap().split("```").next().unwrap();
    let mut said = String::new();
    for line in block.lines() {
        match line.split_once(' ').unwrap() {
            ("ovs-vsctl", words) => said = scene.vsctl(words),
            ("ip", words) => scene.network.ip(words).unwrap(),
            (other, _) => panic!("{other}"),
        }
    }
    assert!(said.ends_with("[]\n"), "{said}");
    scene.vsctl("add-port br0 i0 -- set Interface i0 type=internal");
    scene.network.configure("i0", "10.9.0.1/24").unwrap();
    wait_for("an answer through the tunnel", || {
        scene.network.run("ping -c 1 -W 1 10.9.0.2").unwrap().success().then_some(())
    });
    scene.switch.end();
}
