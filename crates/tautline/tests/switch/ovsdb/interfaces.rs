//! Rows that are interfaces of the host, in a network namespace of the test; each is checked by what the kernel answers.
use peers::Netns;

use super::{BRIDGE, Scene};
use crate::switch_process::guest::{Guest, RECEIVE, layouts};
use crate::switch_process::wait_for;

/// The station of the front-end.
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 7];

impl Scene {
    /// A front-end at a port of its own.
    fn asker(&self) -> Guest {
        let mut guest = Guest::running(&self.add_server("guest"), layouts()[0]);
        guest.post(64);
        guest
    }
}

/// Requests the address 10.9.0.`last` by ARP; returns the station that answers.
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
    let scene = Scene::new();
    let network = &scene.network;
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
        let index = shown(network, name).unwrap().split(':').next().unwrap().to_owned();
        let wanted = format!("up\nup\n1400\n{index}\n\"{mac}\"\n{{driver_name=tun}}\n");
        wait_for("the columns of the interface", || {
            let columns = "admin_state link_state mtu ifindex mac_in_use status";
            (scene.columns(name, columns) == wanted).then_some(())
        });
        scene.vsctl(&format!("del-port {name}"));
        assert_eq!(shown(network, name), None);
    }
    // The kernel's words, for names that it does not take.
    scene.vsctl(&format!("add-port {BRIDGE} lo -- set Interface lo type=internal"));
    assert!(scene.columns("lo", "error").contains("is there already and is no TAP"));
    scene.switch.end();
}

/// A row without a type takes a veth, as OpenStack's agents add it, and no interface of another driver.
#[test]
fn a_row_of_type_afxdp_takes_an_interface_of_the_host() {
    let scene = Scene::new();
    let (network, other) = (&scene.network, Netns::new().unwrap());
    network.join("p1", &other, "e0").unwrap();
    network.ip("link set p1 up").unwrap();
    other.configure("e0", "10.9.0.1/24").unwrap();
    other.run("ethtool -K e0 tx off").unwrap().expect_success();
    let mut guest = scene.asker();
    scene.vsctl(&format!("add-port {BRIDGE} p1 -- set Interface p1 type=afxdp"));
    assert_eq!(scene.columns("p1", "ofport error"), "2\n[]\n");
    ask(&mut guest, 1);
    let index = shown(network, "p1").unwrap().split(':').next().unwrap().to_owned();
    wait_for("the columns of the interface", || {
        let columns = scene.columns("p1", "admin_state link_state mtu ifindex");
        (columns == format!("up\nup\n1500\n{index}\n")).then_some(())
    });
    scene.vsctl("del-port p1");
    assert!(!shown(network, "p1").unwrap().contains("xdp"), "its program is gone");
    scene.vsctl(&format!("add-port {BRIDGE} p1"));
    assert_eq!(scene.columns("p1", "ofport error"), "2\n[]\n");
    ask(&mut guest, 1);
    network.ip("tuntap add d0 mode tap").unwrap();
    scene.vsctl(&format!("add-port {BRIDGE} d0"));
    assert!(
        scene.columns("d0", "error").contains("its driver is not veth"),
        "{}",
        scene.columns("d0", "error")
    );
    scene.switch.end();
}

/// The interface of the bridge itself is the host's end in the bridge's network.
#[test]
fn a_bridge_has_an_interface_of_its_own() {
    let scene = Scene::new();
    let mut guest = scene.asker();
    scene.network.configure(BRIDGE, "10.9.0.1/24").unwrap();
    let station = ask(&mut guest, 1);
    let mac = station.map(|byte| format!("{byte:02x}")).join(":");
    wait_for("the columns of the interface", || {
        let columns = scene.columns(BRIDGE, "ofport error admin_state mac_in_use");
        (columns == format!("65534\n[]\nup\n\"{mac}\"\n")).then_some(())
    });
    let table = scene.appctl(&format!("fdb/show {BRIDGE}"));
    assert!(table.contains(&format!("LOCAL     0  {mac}")), "{table}");

    // With a port's VLAN, and an address that the bridge asks for.
    scene.vsctl(&format!("set Port {BRIDGE} tag=10 -- set Port guest tag=10"));
    assert_eq!(ask(&mut guest, 1), station);
    scene.vsctl(&format!("set Bridge {BRIDGE} other_config:hwaddr=02:00:00:00:00:0b"));
    scene.network.configure(BRIDGE, "10.9.0.1/24").unwrap();
    assert_eq!(ask(&mut guest, 1), [2, 0, 0, 0, 0, 0xb]);
    scene.vsctl(&format!("del-br {BRIDGE}"));
    assert_eq!(shown(&scene.network, BRIDGE), None);
    scene.switch.end();
}
