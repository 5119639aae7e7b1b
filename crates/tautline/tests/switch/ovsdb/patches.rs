//! Bridges that patch ports join: checked by frames.
use super::vlans::{Stations, frame};
use super::{BRIDGE, Scene};

#[test]
fn patch_ports_join_two_bridges() {
    let scene = Scene::new();
    scene.vsctl("add-br br1 -- set Bridge br1 datapath_type=netdev");
    let mut stations = Stations::new(&scene, &["a", "b"]);
    scene.vsctl("add-port br1 c -- set Interface c type=dpdkvhostuser");
    stations.0.push(Stations::at(&scene.database.socket().with_file_name("c")));
    let [a, b, c] = [0, 1, 2];
    let none: &[(u16, u16)] = &[];
    stations.send(a, &[], &[(b, none)]);

    // One end alone is down; both pass frames with their tags.
    scene.vsctl(&format!("add-port {BRIDGE} p0 -- set Interface p0 type=patch options:peer=p1"));
    assert_eq!(scene.columns("p0", "ofport error"), "3\n[]\n");
    stations.send(a, &[], &[(b, none)]);
    scene.vsctl("add-port br1 p1 -- set Interface p1 type=patch options:peer=p0");
    let tag: &[(u16, u16)] = &[(0x8100, 7)];
    stations.send(a, &[], &[(b, none), (c, none)]);
    stations.send(c, tag, &[(a, tag), (b, tag)]);
    stations.send(c, &[], &[(a, none), (b, none)]);
    // To a station of the other bridge, which was learned behind the patch port.
    let mut to_c = frame(a as u8, &[]);
    to_c[..6].copy_from_slice(&[2, 0, 0, 0, 0, c as u8]);
    stations.0[a].send(&to_c);
    assert_eq!(stations.0[c].receive(), to_c);
    stations.send(b, &[], &[(a, none), (c, none)]);
    let table = scene.appctl(&format!("fdb/show {BRIDGE}"));
    assert!(table.contains("    3     0  02:00:00:00:00:02"), "{table}");

    // An access port at one end: what is without a tag in one bridge is in VLAN 7 in the other.
    scene.vsctl("set Port p1 tag=7 -- set Port c trunks=7");
    stations.send(a, &[], &[(b, none), (c, tag)]);
    stations.send(c, tag, &[(a, none), (b, none)]);
    scene.vsctl("clear Port p1 tag -- clear Port c trunks");

    // An end that names another peer is alone again, and one without a peer cannot be.
    scene.vsctl("set Interface p1 options:peer=p2");
    stations.send(a, &[], &[(b, none)]);
    scene.vsctl("set Interface p1 options:peer=p0");
    stations.send(c, &[], &[(a, none), (b, none)]);
    scene.vsctl("clear Interface p1 options");
    assert!(scene.columns("p1", "ofport error").starts_with("-1\n\"give the name of the patch port"));
    stations.send(a, &[], &[(b, none)]);
    scene.switch.end();
}
