//! Sessions that check the path through a tunnel (BFD), with Open vSwitch at the other end.
use super::Scene;
use super::tunnels::Neighbours;
use crate::switch_process::wait_for;

/// Waits until the column `bfd_status` of the tunnel has all these values.
#[track_caller]
fn has_status(what: &str, status: impl Fn() -> String, values: &[&str]) {
    wait_for(what, || {
        let status = status();
        values.iter().all(|value| status.contains(value)).then_some(())
    });
}

fn status(scene: &Scene) -> String {
    scene.columns("t0", "bfd_status")
}

/// Waits until a bundle whose first port is the tunnel chooses this port.
#[track_caller]
fn chooses(scene: &Scene, port: &str) {
    wait_for(&format!("a bundle that chooses {port}"), || {
        let traced = scene.appctl("ofproto/trace --names br0 in_port=i0");
        traced.contains(&format!("Datapath actions: {port}\n")).then_some(())
    });
}

#[test]
fn a_session_is_up_while_open_vswitch_answers() {
    let neighbours = Neighbours::new();
    let session = "bfd:enable=true bfd:min_rx=100 bfd:min_tx=100";
    let tunnel =
        |remote: u8| format!("type=geneve options:key=7 options:remote_ip=192.0.2.{remote} {session}");
    neighbours.vsctl("add-br br0 -- set Bridge br0 datapath_type=netdev");
    neighbours.scene.vsctl(&format!("add-port br0 t0 -- set Interface t0 {}", tunnel(2)));
    has_status(
        "a session without the other end",
        || status(&neighbours.scene),
        &["state=down", "forwarding=\"false\"", "remote_state=down"],
    );
    for port in ["i0", "i1"] {
        neighbours.scene.vsctl(&format!("add-port br0 {port} -- set Interface {port} type=internal"));
    }
    let numbers = ["t0", "i1"].map(|port| neighbours.scene.columns(port, "ofport").trim().to_owned());
    let bundle = format!("bundle(eth_src,0,active_backup,ofport,members:{})", numbers.join(","));
    neighbours.scene.ofctl(&format!("add-flow br0 in_port=i0,actions={bundle}"));
    chooses(&neighbours.scene, "i1");
    neighbours.vsctl(&format!("add-port br0 t0 -- set Interface t0 {}", tunnel(1)));
    let up = ["state=up", "remote_state=up", "forwarding=\"true\"", "diagnostic=\"No Diagnostic\""];
    has_status("this end", || status(&neighbours.scene), &up);
    has_status("Open vSwitch", || neighbours.vsctl("get Interface t0 bfd_status"), &up);
    chooses(&neighbours.scene, "t0");
    // Open vSwitch is killed: packets are missing.
    let Neighbours { scene, openvswitch, other: _other } = neighbours;
    drop(openvswitch);
    has_status(
        "the end of Open vSwitch",
        || status(&scene),
        &[
            "state=down",
            "forwarding=\"false\"",
            "diagnostic=\"Control Detection Time Expired\"",
            "flap_count=\"2\"",
        ],
    );
    chooses(&scene, "i1");
    scene.vsctl("set Interface t0 bfd:enable=false");
    wait_for("an empty status", || (status(&scene) == "{}\n").then_some(()));
    scene.switch.end();
}
