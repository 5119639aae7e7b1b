//! Two chassis: the switch and an Open vSwitch.
use peers::{Netns, Ovn};

use crate::ovsdb::tunnels::{Neighbours, joined};
use crate::switch_process::wait_for;

/// Gives a host behind a logical port its addresses.
fn configure(host: &Netns, interface: &str, station: u8) {
    host.ip(&format!("link set {interface} address 02:00:00:00:00:0{station} mtu 1400")).unwrap();
    host.configure(interface, &format!("10.0.0.{station}/24")).unwrap();
}

#[test]
fn ovn_joins_the_switch_and_an_open_vswitch() {
    let neighbours = Neighbours::new();
    let (scene, other) = (&neighbours.scene, &neighbours.other);
    let ovn = Ovn::start(&scene.database).unwrap();
    scene.vsctl("--no-wait set Open_vSwitch . external_ids:ovn-encap-ip=192.0.2.1");
    let database = neighbours.openvswitch.database();
    let _chassis = ovn.join(database, "hv2", "192.0.2.2").unwrap();
    wait_for("the bridges of OVN", || {
        let lists = [scene.vsctl("list-br"), neighbours.vsctl("list-br")];
        lists.iter().all(|list| list.contains("br-int")).then_some(())
    });
    let hosts = [other.sibling().unwrap(), other.sibling().unwrap()];
    ovn.nbctl(&["ls-add", "sw0"]).unwrap();
    for station in [1, 2] {
        let addresses = format!("02:00:00:00:00:0{station} 10.0.0.{station}");
        let port = format!("vif{station}");
        ovn.nbctl(&["lsp-add", "sw0", &port, "--", "lsp-set-addresses", &port, &addresses]).unwrap();
    }
    let of_interface = |port: &str| format!("set Interface {port} external_ids:iface-id={port}");
    scene.vsctl(&format!("add-port br-int vif1 -- {} type=internal", of_interface("vif1")));
    scene.network.ip(&format!("link set vif1 netns {}", hosts[0].holder())).unwrap();
    configure(&hosts[0], "vif1", 1);
    other.join("vif2", &hosts[1], "e0").unwrap();
    other.ip("link set vif2 up").unwrap();
    hosts[1].run("ethtool -K e0 tx off").unwrap().expect_success();
    configure(&hosts[1], "e0", 2);
    neighbours.vsctl(&format!("add-port br-int vif2 -- {}", of_interface("vif2")));
    for port in ["vif1", "vif2"] {
        ovn.nbctl(&["wait-until", "Logical_Switch_Port", port, "up=true"]).unwrap();
    }
    ovn.nbctl(&["--wait=hv", "sync"]).unwrap();
    // ovn-controller gives this QoS to the port by which tunnels leave, some seconds after it has seen the tunnel's status.
    scene.vsctl("-- --id=@q create QoS type=linux-noop -- set Port br-phys qos=@q");
    assert_eq!(scene.columns("br-phys", "error"), "[]\n");
    joined([(&hosts[0], "10.0.0.1"), (&hosts[1], "10.0.0.2")]);
    let tunnel = scene.vsctl("--bare --columns=type,error find Interface type=geneve");
    assert_eq!(tunnel.trim(), "geneve", "and no error");

    // Rules hold for frames from the other chassis.
    let rule = ["acl-add", "sw0", "to-lport", "1000", "outport == \"vif1\" && icmp4", "drop"];
    ovn.nbctl(&rule).unwrap();
    ovn.nbctl(&["--wait=hv", "sync"]).unwrap();
    assert!(!hosts[1].run("ping -c 1 -W 1 10.0.0.1").unwrap().success());
    ovn.nbctl(&["acl-del", "sw0"]).unwrap();
    ovn.nbctl(&["--wait=hv", "sync"]).unwrap();
    hosts[1].run("ping -c 1 -W 1 10.0.0.1").unwrap().expect_success();
    neighbours.scene.switch.end();
}
