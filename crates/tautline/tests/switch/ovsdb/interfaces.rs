//! Rows that are interfaces of the host, in a network namespace of the test; each is checked by what the kernel answers.
use peers::{Netns, OvsDatabase};

use super::{BRIDGE, Scene, arguments};
use crate::switch_process::guest::{Guest, RECEIVE, layouts};
use crate::switch_process::{Sockets, SwitchProcess, wait_for};

/// The station of the front-end.
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 7];

impl Scene {
    fn in_network(network: &Netns) -> Self {
        let (database, sockets) = (OvsDatabase::new().unwrap(), Sockets::new());
        let switch = SwitchProcess::start_in(network, &arguments(&database, &sockets));
        Self::with_switch(database, sockets, switch)
    }

    /// A front-end at a port of its own.
    fn asker(&self) -> Guest {
        let mut guest = Guest::running(&self.add_server("guest"), layouts()[0]);
        guest.post(64);
        guest
    }
}

/// Asks who has the address 10.9.0.`last`; the station that answers.
#[track_caller]
fn ask(guest: &mut Guest, last: u8) -> [u8; 6] {
    let ask =
        [&[0, 1, 8, 0, 6, 4, 0, 1][..], &STATION, &[10, 9, 0, 200], &[0; 6], &[10, 9, 0, last]].concat();
    let frame = [&[0xff; 6][..], &STATION, &[8, 6], &ask, &[0; 18]].concat();
    guest.send(&frame);
    wait_for("an answer of the kernel", || {
        // What else the kernel says of itself comes too.
        let frames: Vec<_> = guest.used(RECEIVE).iter().map(|used| guest.received(used)).collect();
        let is_answer = |frame: &&Vec<u8>| frame[12..14] == [8, 6] && frame[20..22] == [0, 2];
        frames.iter().find(is_answer).map(|frame| frame[22..28].try_into().unwrap())
    })
}

/// What `ip` shows of an interface, if it is there.
fn shown(network: &Netns, interface: &str) -> Option<String> {
    let shown = network.run(&format!("ip -oneline link show {interface}")).unwrap();
    shown.success().then_some(shown.stdout)
}

#[test]
fn rows_of_type_tap_and_internal_are_interfaces_of_the_host() {
    let network = Netns::new().unwrap();
    let scene = Scene::in_network(&network);
    let mut guest = scene.asker();
    let address = "02:00:00:00:00:0a";
    for (name, columns) in [("t0", "type=tap".to_owned()), ("i0", format!("type=internal mac=\"{address}\""))]
    {
        scene.vsctl(&format!("add-port {BRIDGE} {name} -- set Interface {name} {columns}"));
        assert_eq!(scene.columns(name, "ofport error"), "2\n[]\n");
        assert_eq!(scene.columns(name, "admin_state"), "down\n", "{name}");
        network.configure(name, "10.9.0.1/24").unwrap();
        network.ip(&format!("link set {name} mtu 1400")).unwrap();
        let station = ask(&mut guest, 1);
        let mac = station.map(|byte| format!("{byte:02x}")).join(":");
        assert!(name == "t0" || mac == address, "{mac}");
        let index = shown(&network, name).unwrap().split(':').next().unwrap().to_owned();
        let wanted = format!("up\nup\n1400\n{index}\n\"{mac}\"\n{{driver_name=tun}}\n");
        wait_for("the columns of the interface", || {
            let columns = "admin_state link_state mtu ifindex mac_in_use status";
            (scene.columns(name, columns) == wanted).then_some(())
        });
        scene.vsctl(&format!("del-port {name}"));
        assert_eq!(shown(&network, name), None);
    }
    // The kernel's words, for names that it does not take.
    scene.vsctl(&format!("add-port {BRIDGE} lo -- set Interface lo type=internal"));
    assert!(scene.columns("lo", "error").contains("is there already and is no TAP"));
    scene.switch.end();
}

#[test]
fn a_row_of_type_afxdp_takes_an_interface_of_the_host() {
    let (network, other) = (Netns::new().unwrap(), Netns::new().unwrap());
    network.join("p1", &other, "e0").unwrap();
    network.ip("link set p1 up").unwrap();
    other.configure("e0", "10.9.0.1/24").unwrap();
    other.run("ethtool -K e0 tx off").unwrap().expect_success();
    let scene = Scene::in_network(&network);
    let mut guest = scene.asker();
    scene.vsctl(&format!("add-port {BRIDGE} p1 -- set Interface p1 type=afxdp"));
    assert_eq!(scene.columns("p1", "ofport error"), "2\n[]\n");
    ask(&mut guest, 1);
    let index = shown(&network, "p1").unwrap().split(':').next().unwrap().to_owned();
    wait_for("the columns of the interface", || {
        let columns = scene.columns("p1", "admin_state link_state mtu ifindex");
        (columns == format!("up\nup\n1500\n{index}\n")).then_some(())
    });
    scene.vsctl("del-port p1");
    assert!(!shown(&network, "p1").unwrap().contains("xdp"), "its program is gone");
    scene.switch.end();
}
