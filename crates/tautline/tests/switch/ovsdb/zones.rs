//! Limits of zones of tracked connections: of `ovs-appctl`, and of a database of a later release.
use std::process::Command;

use peers::chosen::{OPENVSWITCH, named};

use super::newer::run;
use super::{BRIDGE, Scene};
use crate::common::cache;
use crate::switch_process::wait_for;

/// A UDP datagram to this port, in hexadecimal.
fn datagram(port: u16) -> String {
    let (header, addresses) = ("4500001c0000000040110000", "0a0101010a010102");
    format!("0200000000010200000000020800{header}{addresses}0001{port:04x}00080000")
}

/// A bridge that tracks connections in zone 1.
fn tracking() -> Scene {
    let scene = Scene::new();
    scene.add_server("a");
    scene.ofctl(&format!("add-flow {BRIDGE} udp,actions=ct(commit,zone=1)"));
    scene
}

/// Begins a connection to each of these ports.
#[track_caller]
fn begin(scene: &Scene, ports: std::ops::Range<u16>) {
    for packet in ports.map(datagram) {
        let words = format!("in_port=1,packet={packet},actions=resubmit(,0)");
        scene.ofctl(&format!("-O OpenFlow13 packet-out {BRIDGE} {words}"));
    }
}

/// A connection that begins is refused at its zone's limit; connections that are there stay.
#[test]
fn ovs_appctl_limits_the_connections_of_zones() {
    let scene = tracking();
    let limits = |words: &str| scene.appctl(&format!("dpctl/ct-get-limits{words}"));
    let count = || scene.appctl("dpctl/ct-get-nconns").trim().parse::<u32>().unwrap();
    assert_eq!(limits(""), "default limit=0\n");
    scene.appctl("dpctl/ct-set-limits zone=1,limit=0");
    begin(&scene, 1..2);
    assert_eq!(limits(" netdev@ovs-netdev"), "default limit=0\nzone=1,limit=0,count=0\n");
    scene.appctl("dpctl/ct-set-limits default=3 zone=2,limit=9");
    scene.appctl("dpctl/ct-del-limits zone=1");
    begin(&scene, 1..6);
    assert_eq!(limits(" zone=1,2"), "default limit=3\nzone=1,limit=3,count=3\nzone=2,limit=9,count=0\n");
    // The first three stay, and frames of theirs begin nothing.
    begin(&scene, 1..4);
    let listed = scene.appctl("dpctl/dump-conntrack zone=1");
    assert!((1..4).all(|port| listed.contains(&format!("sport=1,dport={port})"))), "{listed}");
    assert_eq!(scene.appctl("dpctl/ct-stats-show zone=1"), "Connections Stats:\n    Total: 3\n  UDP: 3\n");
    scene.appctl("dpctl/ct-del-limits default zone=2");
    begin(&scene, 4..6);
    assert_eq!((limits(""), count()), ("default limit=0\n".to_owned(), 5));
    assert_eq!(scene.appctl("dpctl/ct-get-maxconns"), "262144\n");
    let refused = scene.database.appctl(&["dpctl/ct-set-limits", "zone=1,limit=-1"]).unwrap_err();
    assert!(refused.to_string().contains("ovs-vswitchd: failed to parse field limit"), "{refused}");
    scene.switch.end();
}

/// `ovs-vsctl set-zone-limit` of Open vSwitch 3.4 or later.
#[test]
fn limits_of_zones_in_the_database_hold() {
    if named(OPENVSWITCH).is_none() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["limits_of_zones_in_the_database_hold"]).env(OPENVSWITCH, cache("openvswitch-3.5"));
        let said = run(&mut again);
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    let scene = tracking();
    scene.vsctl("-- --id=@d create Datapath datapath_version=0 -- set Open_vSwitch . datapaths:netdev=@d");
    scene.vsctl("set-zone-limit netdev 1 3");
    let limits = |said: &str| {
        wait_for(said, || (scene.appctl("dpctl/ct-get-limits") == said).then_some(()));
    };
    limits("default limit=0\nzone=1,limit=3,count=0\n");
    begin(&scene, 1..6);
    limits("default limit=0\nzone=1,limit=3,count=3\n");
    for (command, instead) in
        [("set-limits default=1", "set-zone-limit"), ("del-limits zone=1", "del-zone-limit")]
    {
        let refused = scene.database.appctl(&format!("dpctl/ct-{command}").split(' ').collect::<Vec<_>>());
        assert!(refused.unwrap_err().to_string().contains(instead));
    }
    scene.vsctl("set-zone-limit netdev default 4");
    scene.vsctl("del-zone-limit netdev 1");
    limits("default limit=4\n");
    begin(&scene, 6..9);
    assert!(scene.appctl("dpctl/ct-get-limits zone=1").ends_with("zone=1,limit=4,count=4\n"));
    scene.vsctl("del-zone-limit netdev default");
    limits("default limit=0\n");
    scene.appctl("dpctl/ct-set-limits zone=1,limit=5");
    scene.switch.end();
}
