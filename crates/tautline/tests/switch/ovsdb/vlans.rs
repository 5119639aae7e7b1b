//! VLANs of `ovs-vsctl`: each is checked by frames, and no port is plugged in anew.
use std::path::Path;

use super::{BRIDGE, Scene};
use crate::switch_process::guest::{Guest, layouts};

/// Type and control information.
pub(super) type Tag = (u16, u16);

const C: u16 = 0x8100;

/// A broadcast with these tags from the station of a number.
pub(super) fn frame(station: u8, tags: &[Tag]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, station]);
    for (kind, control) in tags {
        frame.extend([kind.to_be_bytes(), control.to_be_bytes()].concat());
    }
    frame.extend([8, 0]);
    frame.extend((0..46).map(|n| n ^ station));
    frame
}

/// Front-ends that stay plugged in while their ports change.
pub(super) struct Stations(pub Vec<Guest>);

impl Stations {
    pub fn new(scene: &Scene, ports: &[&str]) -> Self {
        Stations(ports.iter().map(|port| Self::at(&scene.add_server(port))).collect())
    }

    /// A front-end at this socket.
    pub fn at(path: &Path) -> Guest {
        let mut guest = Guest::running(path, layouts()[0]);
        guest.post(32);
        guest
    }

    /// A broadcast of one comes to others with these tags, before any other frame. The frames that come to no port are
    /// missed at the next that comes.
    #[track_caller]
    pub fn send(&mut self, from: usize, tags: &[Tag], receivers: &[(usize, &[Tag])]) {
        self.0[from].send(&frame(from as u8, tags));
        for (to, tags) in receivers {
            assert_eq!(self.0[*to].receive(), frame(from as u8, tags), "from {from} to {to}");
        }
    }
}

#[test]
fn ovs_vsctl_puts_ports_that_run_into_vlans() {
    let scene = Scene::new();
    let mut stations = Stations::new(&scene, &["a", "b", "c", "d"]);
    let [a, b, c, d] = [0, 1, 2, 3];
    stations.send(a, &[(C, 7)], &[(b, &[(C, 7)]), (c, &[(C, 7)]), (d, &[(C, 7)])]);

    // The ports of access and a trunk.
    scene.vsctl("set Port a tag=10 -- set Port b tag=10 -- set Port c tag=20 -- set Port d trunks=10,20");
    stations.send(a, &[], &[(b, &[]), (d, &[(C, 10)])]);
    stations.send(c, &[], &[(d, &[(C, 20)])]);
    stations.send(d, &[(C, 20)], &[(c, &[])]);
    stations.send(d, &[(C, 30)], &[]);
    stations.send(a, &[(C, 10)], &[]);
    // Two more frames than these two have come nowhere, if these are next.
    stations.send(b, &[], &[(a, &[]), (d, &[(C, 10)])]);

    // A native VLAN; `trunks` need not name it.
    scene.vsctl("set Port d vlan_mode=native-untagged tag=20 trunks=10");
    stations.send(c, &[], &[(d, &[])]);
    stations.send(d, &[], &[(c, &[])]);
    stations.send(a, &[], &[(b, &[]), (d, &[(C, 10)])]);
    scene.vsctl("set Port d vlan_mode=native-tagged");
    stations.send(d, &[], &[(c, &[])]);
    stations.send(c, &[], &[(d, &[(C, 20)])]);

    // A customer of VLAN 30, and its VLANs 7 and 8.
    scene.vsctl("clear Port d vlan_mode tag trunks -- set Port c vlan_mode=dot1q-tunnel tag=30 cvlans=7,8");
    stations.send(c, &[(C, 7)], &[(d, &[(0x88a8, 30), (C, 7)])]);
    stations.send(c, &[(C, 9)], &[]);
    scene.vsctl("set Port c other_config:qinq-ethtype=802.1q");
    stations.send(c, &[(C, 8)], &[(d, &[(C, 30), (C, 8)])]);
    stations.send(d, &[(C, 30), (C, 7)], &[(c, &[(C, 7)])]);

    // A priority without a VLAN.
    let priority = 0xa000;
    stations.send(a, &[(C, priority)], &[(b, &[]), (d, &[(C, priority | 10)])]);
    scene.vsctl("set Port b other_config:priority-tags=if-nonzero");
    stations.send(a, &[(C, priority)], &[(b, &[(C, priority)]), (d, &[(C, priority | 10)])]);
    stations.send(a, &[], &[(b, &[]), (d, &[(C, 10)])]);

    // What a mode has no use for is ignored, as by ovs-vswitchd.
    scene.vsctl("set Port a trunks=20 -- set Port b vlan_mode=access trunks=30");
    stations.send(a, &[], &[(b, &[]), (d, &[(C, 10)])]);

    let ports = ["a", "b", "c", "d"];
    for port in ports {
        let columns = "tag trunks vlan_mode cvlans other_config";
        scene.vsctl(&format!("clear Port {port} {columns}"));
        assert_eq!(scene.columns(port, "error"), "[]\n", "{port}");
    }
    stations.send(a, &[(C, 7)], &[(b, &[(C, 7)]), (c, &[(C, 7)]), (d, &[(C, 7)])]);
    scene.switch.end();
}

/// Flows match what is behind one tag of a frame, or behind as many as `vlan-limit` says; OVN sets it to 0.
#[test]
fn flows_see_as_many_tags_as_the_database_says() {
    let scene = Scene::new();
    let mut stations = Stations::new(&scene, &["a", "b"]);
    let (a, b, tags) = (0, 1, [(C, 5), (C, 6)]);
    scene.ofctl(&format!("del-flows {BRIDGE}"));
    scene.ofctl(&format!("add-flow {BRIDGE} in_port=1,vlan_tci=0,actions=output:2"));
    scene.ofctl(&format!("add-flow {BRIDGE} in_port=1,dl_vlan=5,dl_type=0x800,actions=output:2"));
    stations.send(a, &tags, &[]);
    stations.send(a, &[], &[(b, &[])]);
    scene.vsctl("set Open_vSwitch . other_config:vlan-limit=0");
    stations.send(a, &tags, &[(b, &tags)]);
    scene.vsctl("set Open_vSwitch . other_config:vlan-limit=1");
    stations.send(a, &tags, &[]);
    stations.send(a, &[], &[(b, &[])]);
    scene.switch.end();
}
