//! OVN controls a bridge of the switch: a real ovn-controller makes `br-int` and fills its tables.
mod answers;
mod chassis;
mod restarts;
mod scale;
mod switched;

use peers::Ovn;

use super::Scene;
use super::vlans::Stations;
use crate::flow_tables::datagrams::{self, Ends, echo, sum};
use crate::switch_process::guest::Guest;
use crate::switch_process::wait_for;

/// The last byte of the router's MAC addresses, one for each subnet.
const ROUTER: [u8; 2] = [0xf0, 0xf1];

/// A frame between addresses 02:00:00:00:00:NN.
fn framed(from: u8, to: u8, datagram: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0][..], datagram].concat()
}

/// UDP.
fn datagram(from: &str, to: &str, ports: [u16; 2]) -> Vec<u8> {
    datagrams::udp(Ends::new(from, to, ports), &[7; 40])
}

/// UDP from one station of the first subnet to another, between these ports of theirs.
fn udp(from: u8, to: u8, ports: [u16; 2]) -> Vec<u8> {
    framed(from, to, &datagram(&format!("10.0.0.{from}"), &format!("10.0.0.{to}"), ports))
}

/// An IPv4 datagram after one more router.
fn routed(mut datagram: Vec<u8>) -> Vec<u8> {
    datagram[8] -= 1;
    datagram[10..12].fill(0);
    let sum = sum(&datagram[..20]);
    datagram[10..12].copy_from_slice(&sum.to_be_bytes());
    datagram
}

/// The switch under OVN. Station N has the addresses 02:00:00:00:00:0N and 10.0.SUBNET.N.
struct Cloud {
    scene: Scene,
    ovn: Ovn,
}

impl Cloud {
    fn new() -> Self {
        let scene = Scene::new();
        let ovn = Ovn::start(&scene.database).unwrap();
        wait_for("the bridge of OVN", || scene.vsctl("list-br").contains("br-int").then_some(()));
        ovn.wait_for_frames().unwrap();
        Cloud { scene, ovn }
    }

    /// With a router between the stations 1 and 2 and the station 3.
    fn routed() -> Self {
        let cloud = Self::new();
        cloud.nbctl(&["lr-add", "lr0"]);
        for (subnet, router) in ROUTER.iter().enumerate() {
            let [switch, port, peer] = [format!("sw{subnet}"), format!("r{subnet}"), format!("s{subnet}")];
            let (mac, network) = (format!("02:00:00:00:00:{router:02x}"), format!("10.0.{subnet}.254/24"));
            cloud.nbctl(&["ls-add", &switch, "--", "lrp-add", "lr0", &port, &mac, &network]);
            cloud.nbctl(&["lsp-add", &switch, &peer, "--", "lsp-set-type", &peer, "router"]);
            let router_port = format!("router-port={port}");
            cloud.nbctl(&[
                "lsp-set-addresses",
                &peer,
                "router",
                "--",
                "lsp-set-options",
                &peer,
                &router_port,
            ]);
        }
        cloud.add(0, 1);
        cloud.add(0, 2);
        cloud.add(1, 3);
        cloud
    }

    #[track_caller]
    fn nbctl(&self, words: &[&str]) {
        self.ovn.nbctl(words).unwrap();
    }

    /// Returns once the controller of the chassis has had its flows confirmed by a barrier.
    fn sync(&self) {
        self.nbctl(&["--wait=hv", "sync"]);
    }

    /// Adds a logical port of a station to the switch `swSUBNET`.
    fn add(&self, subnet: usize, station: u8) {
        let (port, switch) = (format!("vif{station}"), format!("sw{subnet}"));
        let addresses = format!("02:00:00:00:00:0{station} 10.0.{subnet}.{station}");
        self.nbctl(&["lsp-add", &switch, &port, "--", "lsp-set-addresses", &port, &addresses]);
        let interface = format!("set Interface {port} type=dpdkvhostuser external_ids:iface-id={port}");
        self.scene.vsctl(&format!("add-port br-int {port} -- {interface}"));
    }

    /// The stations, once OVN has installed their ports.
    fn stations<const N: usize>(&self, stations: [u8; N]) -> [Guest; N] {
        stations.map(|station| {
            let port = format!("vif{station}");
            wait_for("ovn-installed", || {
                self.scene.columns(&port, "external_ids").contains("ovn-installed=\"true\"").then_some(())
            });
            self.sync();
            Stations::at(&self.scene.database.socket().with_file_name(port))
        })
    }
}

#[test]
fn ovn_binds_ports_and_its_rules_let_answers_through() {
    let mut cloud = Cloud::new();
    cloud.nbctl(&["ls-add", "sw0"]);
    cloud.add(0, 1);
    cloud.add(0, 2);
    let [mut one, mut two] = cloud.stations([1, 2]);
    one.send(&udp(1, 2, [2000, 53]));
    assert_eq!(two.receive(), udp(1, 2, [2000, 53]));
    two.send(&udp(2, 1, [53, 2000]));
    assert_eq!(one.receive(), udp(2, 1, [53, 2000]));

    let of_one = ["inport == \"vif1\" && ip4", "outport == \"vif1\" && ip4"];
    cloud.nbctl(&["acl-add", "sw0", "from-lport", "1001", of_one[0], "allow-related"]);
    cloud.nbctl(&["acl-add", "sw0", "to-lport", "1000", of_one[1], "drop"]);
    cloud.sync();
    two.send(&udp(2, 1, [54, 3000]));
    one.send(&udp(1, 2, [3000, 53]));
    assert_eq!(two.receive(), udp(1, 2, [3000, 53]));
    two.send(&udp(2, 1, [54, 3000]));
    two.send(&udp(2, 1, [53, 3000]));
    assert_eq!(one.receive(), udp(2, 1, [53, 3000]), "the answer alone");

    // Its flows are deleted and added in one change, and the connection is known as before.
    cloud.ovn.restart_controller().unwrap();
    cloud.sync();
    two.send(&udp(2, 1, [54, 3000]));
    two.send(&udp(2, 1, [53, 3000]));
    assert_eq!(one.receive(), udp(2, 1, [53, 3000]), "with another controller");

    cloud.nbctl(&["acl-del", "sw0"]);
    cloud.sync();
    two.send(&udp(2, 1, [54, 3000]));
    assert_eq!(one.receive(), udp(2, 1, [54, 3000]), "no rule any more");
    cloud.scene.switch.end();
}

#[test]
fn ovn_answers_arp_routes_and_balances() {
    let cloud = Cloud::routed();
    cloud.nbctl(&["lb-add", "lb0", "10.0.0.100:53", "10.0.0.2:5353", "udp"]);
    cloud.nbctl(&["ls-lb-add", "sw0", "lb0"]);
    let [mut one, mut two, mut three] = cloud.stations([1, 2, 3]);

    // Who has 10.0.0.2? RFC 826.
    let arp = |operation: u8, from: [u8; 2], to: [u8; 2]| {
        let of = |[mac, host]: [u8; 2], known: bool| {
            let mac = if known { [2, 0, 0, 0, 0, mac] } else { [0; 6] };
            [&mac[..], &[10, 0, 0, host]].concat()
        };
        [&[0, 1, 8, 0, 6, 4, 0, operation][..], &of(from, true), &of(to, operation == 2)].concat()
    };
    let ask = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6], &arp(1, [1, 1], [0, 2])].concat();
    let answer = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6][..], &arp(2, [2, 2], [1, 1])].concat();
    one.send(&ask);
    assert_eq!(one.receive(), answer);

    // To the other subnet and back.
    let there = datagram("10.0.0.1", "10.0.1.3", [2000, 53]);
    one.send(&framed(1, ROUTER[0], &there));
    assert_eq!(three.receive(), framed(ROUTER[1], 3, &routed(there)));
    let back = datagram("10.0.1.3", "10.0.0.1", [53, 2000]);
    three.send(&framed(3, ROUTER[1], &back));
    assert_eq!(one.receive(), framed(ROUTER[0], 1, &routed(back)));

    // The router answers itself.
    let ping = echo(Ends::new("10.0.0.1", "10.0.0.254", [0, 0]), false, 8);
    one.send(&framed(1, ROUTER[0], &ping));
    let pong = one.receive();
    assert_eq!(pong[26..34], [10, 0, 0, 254, 10, 0, 0, 1]);
    assert_eq!((pong[34], &pong[38..], sum(&pong[34..])), (0, &ping[24..], 0));

    // By the address of the balancer.
    one.send(&framed(1, 2, &datagram("10.0.0.1", "10.0.0.100", [2000, 53])));
    assert_eq!(two.receive(), udp(1, 2, [2000, 5353]));
    two.send(&udp(2, 1, [5353, 2000]));
    assert_eq!(one.receive(), framed(2, 1, &datagram("10.0.0.100", "10.0.0.1", [53, 2000])));
    cloud.scene.switch.end();
}

#[test]
fn ovn_translates_addresses() {
    let cloud = Cloud::routed();
    cloud.nbctl(&["lrp-set-gateway-chassis", "r1", "hv1", "20"]);
    cloud.nbctl(&["lr-nat-add", "lr0", "snat", "10.0.1.254", "10.0.0.0/24"]);
    cloud.nbctl(&["lr-nat-add", "lr0", "dnat_and_snat", "10.0.1.50", "10.0.0.2"]);
    let [mut one, mut two, mut three] = cloud.stations([1, 2, 3]);

    // All stations of the subnet have the router's address outside.
    one.send(&framed(1, ROUTER[0], &datagram("10.0.0.1", "10.0.1.3", [2000, 53])));
    assert_eq!(
        three.receive(),
        framed(ROUTER[1], 3, &routed(datagram("10.0.1.254", "10.0.1.3", [2000, 53])))
    );
    three.send(&framed(3, ROUTER[1], &datagram("10.0.1.3", "10.0.1.254", [53, 2000])));
    assert_eq!(one.receive(), framed(ROUTER[0], 1, &routed(datagram("10.0.1.3", "10.0.0.1", [53, 2000]))));

    // Station 2 has a floating address in the other subnet.
    three.send(&framed(3, ROUTER[1], &datagram("10.0.1.3", "10.0.1.50", [4000, 22])));
    assert_eq!(two.receive(), framed(ROUTER[0], 2, &routed(datagram("10.0.1.3", "10.0.0.2", [4000, 22]))));
    two.send(&framed(2, ROUTER[0], &datagram("10.0.0.2", "10.0.1.3", [22, 4000])));
    assert_eq!(three.receive(), framed(ROUTER[1], 3, &routed(datagram("10.0.1.50", "10.0.1.3", [22, 4000]))));
    cloud.scene.switch.end();
}

#[test]
fn every_command_of_the_page_works() {
    let page = include_str!("../../../../../docs/ovn.md");
    let cloud = Cloud::new();
    let block = page
        .split("<!-- test: run by crates/tautline/tests/switch/ovsdb/ovn.rs -->\n```sh\n")
        .nth(1)
        .unwrap();
    let mut said = Vec::new();
    for line in block.split("```").next().unwrap().lines() {
        let (program, words) = line.split_once(' ').unwrap();
        said.push(match program {
            "ovs-vsctl" => cloud.scene.vsctl(words),
            "ovs-ofctl" => cloud.scene.ofctl(words),
            "ovn-nbctl" => {
                // A text in quotes is one word.
                let parts = words.split('"').enumerate();
                let words = parts.flat_map(|(at, part)| match at % 2 {
                    0 => part.split_whitespace().collect::<Vec<_>>(),
                    _ => vec![part],
                });
                cloud.ovn.nbctl(&words.collect::<Vec<_>>()).unwrap()
            }
            other => panic!("{other}"),
        });
    }
    let [.., of_interface, flows] = &said[..] else { panic!("{said:?}") };
    assert!(of_interface.contains("iface-id=vif1"), "{of_interface}");
    assert!(flows.lines().count() > 100, "{flows}");
    cloud.scene.switch.end();
}
