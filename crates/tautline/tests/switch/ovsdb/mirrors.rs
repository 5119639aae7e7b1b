//! Mirrors of `ovs-vsctl`: each is checked by frames.
use super::vlans::Stations;
use super::{BRIDGE, Scene};
use crate::switch_process::wait_for;

#[test]
fn ovs_vsctl_makes_changes_and_ends_mirrors() {
    let scene = Scene::new();
    let mut stations = Stations::new(&scene, &["a", "b", "c", "d"]);
    let [a, b, c, d] = [0, 1, 2, 3];
    let none: &[(u16, u16)] = &[];
    let mut send = |from, to: &[usize]| {
        stations.send(from, &[], &to.iter().map(|to| (*to, none)).collect::<Vec<_>>());
    };
    send(a, &[b, c, d]);

    // Frames that arrive at a: d gets each once, and no other. What it sends goes nowhere.
    let ports = "--id=@a get Port a -- --id=@b get Port b -- --id=@d get Port d";
    let mirror = "create Mirror name=m select_src_port=@a output_port=@d";
    scene.vsctl(&format!("{ports} -- --id=@m {mirror} -- set Bridge {BRIDGE} mirrors=@m"));
    send(a, &[b, c, d]);
    send(b, &[a, c]);
    send(d, &[]);
    send(a, &[b, c, d]);

    // Frames that leave at b.
    scene.vsctl("--id=@b get Port b -- set Mirror m select_src_port=[] select_dst_port=@b");
    send(c, &[a, b, d]);
    send(b, &[a, c]);
    send(a, &[b, c, d]);

    // All frames, each once.
    scene.vsctl("set Mirror m select_all=true");
    send(c, &[a, b, d]);
    send(b, &[a, c, d]);
    wait_for("the mirror's counters", || {
        let counters = scene.vsctl("--no-wait get Mirror m statistics");
        (counters == "{tx_bytes=120, tx_packets=2}\n").then_some(())
    });

    // What the switch does not have is said in its log, and the port is an ordinary one until it is put right.
    scene.vsctl("set Mirror m select_vlan=10");
    send(d, &[a, b, c]);
    send(a, &[b, c, d]);
    let why = "mirror m: the switch does not mirror by select_vlan: ovs-vsctl clear mirror m select_vlan";
    let said = || scene.switch.logged().iter().filter(|line| line.contains(why)).count();
    wait_for("the reason in the log", || (said() == 1).then_some(()));
    scene.vsctl("clear Mirror m select_vlan");
    send(b, &[a, c, d]);
    send(d, &[]);

    // A port that is mirrored is removed.
    scene.vsctl("del-port a");
    send(b, &[c, d]);
    scene.vsctl(&format!("clear Bridge {BRIDGE} mirrors"));
    send(d, &[b, c]);
    assert_eq!(said(), 1, "once");
    scene.switch.end();
}
