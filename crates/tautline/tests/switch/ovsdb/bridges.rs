//! Several bridges in one switch: each is checked by frames.
use super::vlans::{Stations, frame};
use super::{BRIDGE, Scene};

/// No frame goes from one bridge to the other, whatever its VLAN.
#[test]
fn bridges_are_networks_of_their_own() {
    let scene = Scene::new();
    scene.vsctl("add-br br1 -- set Bridge br1 datapath_type=netdev");
    let mut stations = Stations::new(&scene, &["a", "b"]);
    for port in ["c", "d"] {
        scene.vsctl(&format!("add-port br1 {port} -- set Interface {port} type=dpdkvhostuser"));
        stations.0.push(Stations::at(&scene.database.socket().with_file_name(port)));
    }
    let [a, b, c, d] = [0, 1, 2, 3];
    scene.vsctl("set Port a tag=10 -- set Port c tag=10 -- set Port b trunks=10 -- set Port d trunks=10");
    let tag: &[(u16, u16)] = &[(0x8100, 10)];
    for _ in 0..3 {
        stations.send(a, &[], &[(b, tag)]);
        stations.send(d, tag, &[(c, &[])]);
        stations.send(b, tag, &[(a, &[])]);
        stations.send(c, &[], &[(d, tag)]);
    }
    // To a station of the other bridge: to no port.
    let mut to_c = frame(a as u8, &[]);
    to_c[..6].copy_from_slice(&[2, 0, 0, 0, 0, c as u8]);
    stations.0[a].send(&to_c);
    assert_eq!(stations.0[b].receive()[..6], to_c[..6]);
    stations.send(d, tag, &[(c, &[])]);

    assert_eq!(scene.appctl("ofproto/list"), format!("{BRIDGE}\nbr1\n"));
    let shown = scene.appctl("dpctl/show");
    let ports = "  port 65534: br0 (internal)\n  port 1: a (dpdkvhostuser)\n  port 2: b (dpdkvhostuser)\n  \
                 port 65533: br1 (internal)\n  port 3: c (dpdkvhostuser)\n  port 4: d (dpdkvhostuser)\n";
    assert!(shown.ends_with(ports), "{shown}");
    let rows = |bridge: &str| scene.appctl(&format!("fdb/show {bridge}")).lines().skip(1).count();
    assert_eq!((rows(BRIDGE), rows("br1")), (2, 2));
    assert!(scene.appctl("fdb/stats-show br1").contains("entries in the table: 2/4096\n"));
    scene.appctl("fdb/flush br1");
    assert_eq!((rows(BRIDGE), rows("br1")), (2, 0));

    // A port that goes to the other bridge; its front-end stays connected.
    scene.vsctl("del-port b -- add-port br1 b -- set Interface b type=dpdkvhostuser -- set Port b trunks=10");
    stations.send(a, &[], &[]);
    stations.send(c, &[], &[(b, tag), (d, tag)]);
    scene.vsctl("del-br br1");
    assert_eq!(scene.appctl("ofproto/list"), format!("{BRIDGE}\n"));
    assert_eq!(scene.columns("a", "ofport error"), "1\n[]\n");
    scene.switch.end();
}
