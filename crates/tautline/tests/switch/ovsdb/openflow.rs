//! `ovs-ofctl` beside `ovs-vsctl`: each bridge of the database has flows and a management socket of its own.
use super::vlans::Stations;
use super::{BRIDGE, Scene};

/// A bridge that is secure forwards by its flows alone; the other bridge learns all the while.
#[test]
fn each_bridge_has_flows_of_its_own() {
    let scene = Scene::new();
    scene.vsctl("add-br br1 -- set Bridge br1 datapath_type=netdev");
    let mut stations = Stations::new(&scene, &["a", "b"]);
    for (port, number) in [("c", 7), ("d", 9)] {
        let interface = format!("set Interface {port} type=dpdkvhostuser ofport_request={number}");
        scene.vsctl(&format!("add-port br1 {port} -- {interface}"));
        stations.0.push(Stations::at(&scene.database.socket().with_file_name(port)));
    }
    let [a, b, c, d] = [0, 1, 2, 3];
    let ofctl = |words: &str| scene.ofctl(words);
    stations.send(c, &[], &[(d, &[])]);
    scene.vsctl("set-fail-mode br1 secure");
    let [secure, learning] = ["br1", BRIDGE].map(|bridge| ofctl(&format!("--no-stats dump-flows {bridge}")));
    assert_eq!((secure.as_str(), learning.as_str()), ("", " priority=0 actions=NORMAL\n"));
    stations.send(c, &[], &[]);
    ofctl("add-flow br1 in_port=7,actions=set_field:02:00:00:00:00:63->eth_dst,output:9");
    stations.0[c].send(&super::vlans::frame(c as u8, &[]));
    let mut edited = super::vlans::frame(c as u8, &[]);
    edited[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0x63]);
    assert_eq!(stations.0[d].receive(), edited);
    let dump = ofctl("dump-flows br1");
    assert!(dump.contains("n_packets=1, n_bytes=60,"), "{dump}");
    stations.send(a, &[], &[(b, &[])]);
    let id = scene.vsctl("get Bridge br1 datapath_id");
    let shown = ofctl("show br1");
    assert!(shown.contains(&format!("dpid:{}\n", id.trim().trim_matches('"'))), "{id}: {shown}");
    assert!(
        shown.contains(" 7(c): addr:") && shown.contains(" 9(d): addr:") && !shown.contains("(a)"),
        "{shown}"
    );

    // Flows of the other bridge, beside a port that is refused with VLANs.
    ofctl(&format!("add-flow {BRIDGE} priority=5,in_port=1,actions=output:2"));
    scene.vsctl(&format!("add-port {BRIDGE} e tag=5 -- set Interface e type=dpdkvhostuser"));
    assert!(scene.columns("e", "error").contains("VLANs"), "{}", scene.columns("e", "error"));
    stations.send(a, &[], &[(b, &[])]);
    ofctl(&format!("del-flows {BRIDGE} in_port=1"));
    scene.vsctl("set Interface e mtu_request=1500");
    assert_eq!(scene.columns("e", "error"), "[]\n");

    scene.vsctl("del-br br1");
    assert!(!scene.database.socket().with_file_name("br1.mgmt").exists());
    scene.switch.end();
    assert!(!scene.database.socket().with_file_name(format!("{BRIDGE}.mgmt")).exists());
}
