//! Bonds of `ovs-vsctl`: each is checked by frames.
use super::vlans::{Stations, Tag, frame};
use super::{BRIDGE, Scene};
use crate::switch_process::guest::{Guest, RECEIVE, TRANSMIT};
use crate::switch_process::wait_for;

/// A bond of two interfaces, at which this process is the other switch, and two stations.
struct Bond {
    scene: Scene,
    stations: Stations,
}

/// Stations, then the ends of the bond.
const A: usize = 0;
const B: usize = 1;
const ONE: usize = 2;
const OTHER: usize = 3;
const NONE: &[Tag] = &[];

/// The frames that have come by now.
fn take(guest: &mut Guest) -> Vec<Vec<u8>> {
    let used = guest.used(RECEIVE);
    let frames = used.iter().map(|used| guest.received(used)).collect();
    guest.post(used.len());
    frames
}

/// Waits for a line of `bond/show`.
#[track_caller]
fn wait_for_line(scene: &Scene, line: &str) -> String {
    wait_for(line, || {
        let shown = scene.appctl("bond/show bond0");
        shown.lines().any(|shown| shown == line).then_some(shown)
    })
}

impl Bond {
    fn new(mode: &str) -> Self {
        let scene = Scene::new();
        let mut stations = Stations::new(&scene, &["a", "b"]);
        let interfaces = "-- set Interface m0 type=dpdkvhostuser -- set Interface m1 type=dpdkvhostuser";
        scene.vsctl(&format!("add-bond {BRIDGE} bond0 m0 m1 bond_mode={mode} {interfaces}"));
        for port in ["m0", "m1"] {
            stations.0.push(Stations::at(&scene.database.socket().with_file_name(port)));
        }
        stations.0.iter_mut().for_each(|guest| guest.post(32));
        let bond = Bond { scene, stations };
        bond.wait_for("member m1: enabled");
        bond
    }

    /// Waits for a line of `bond/show`.
    #[track_caller]
    fn wait_for(&self, line: &str) -> String {
        wait_for_line(&self.scene, line)
    }

    /// Sends a frame of station `a`, and waits until it has come at an end of the bond with these bytes. Returns that
    /// end, and all other frames that came to the ends.
    #[track_caller]
    fn exit(&mut self, frame: &[u8], expected: &[u8]) -> (usize, Vec<Vec<u8>>) {
        self.stations.0[A].send(frame);
        let mut others = Vec::new();
        let end = wait_for("the frame at an end of the bond", || {
            take(&mut self.stations.0[B]);
            let mut found = None;
            for end in [ONE, OTHER] {
                for got in take(&mut self.stations.0[end]) {
                    match got == expected && found.is_none() {
                        true => found = Some(end),
                        false => others.push(got),
                    }
                }
            }
            found
        });
        (end, others)
    }
}

#[test]
fn of_an_active_backup_bond_one_interface_carries_frames() {
    let mut bond = Bond::new("active-backup");
    let shown = bond.wait_for("member m0: enabled");
    assert!(shown.contains("bond_mode: active-backup\n"), "{shown}");
    assert!(shown.contains("active member mac: 00:00:00:00:00:00(m0)\n"), "{shown}");
    for _ in 0..3 {
        bond.stations.send(A, &[], &[(B, NONE), (ONE, NONE)]);
        bond.stations.send(ONE, &[], &[(A, NONE), (B, NONE)]);
        bond.stations.send(B, &[], &[(A, NONE), (ONE, NONE)]);
        // What comes by the backup is dropped.
        bond.stations.send(OTHER, &[], &[]);
    }
    // A station behind the bond has its frames by the active interface.
    let mut to_one = frame(A as u8, &[]);
    to_one[..6].copy_from_slice(&[2, 0, 0, 0, 0, ONE as u8]);
    bond.stations.0[A].send(&to_one);
    assert_eq!(bond.stations.0[ONE].receive(), to_one);
    let listed = bond.scene.appctl("bond/list");
    assert!(listed.contains("bond0\tactive-backup\t0\tm0, m1\n"), "{listed}");
    assert_eq!(take(&mut bond.stations.0[OTHER]).len(), 0);

    // The active one is gone: the other switch hears at the other where the stations are, and frames leave there.
    drop(bond.stations.0.remove(ONE));
    let end = ONE;
    bond.wait_for("active member mac: 00:00:00:00:00:00(m1)");
    let announced = |guest: &mut Guest, count: usize| {
        let mut stations = Vec::new();
        wait_for("announced stations", || {
            for frame in take(guest) {
                assert_eq!(frame[12..14], [0x80, 0x35], "{frame:x?}");
                stations.push(usize::from(frame[11]));
            }
            (stations.len() == count).then_some(())
        });
        stations.sort_unstable();
        stations
    };
    assert_eq!(announced(&mut bond.stations.0[end], 2), [A, B]);
    assert_eq!(announced(&mut bond.stations.0[A], 1), [B]);
    assert_eq!(announced(&mut bond.stations.0[B], 1), [A]);
    bond.stations.send(A, &[], &[(B, NONE), (end, NONE)]);
    bond.stations.send(end, &[], &[(A, NONE), (B, NONE)]);
    // The failed member comes back, and the present one stays active.
    let mut back = Stations::at(&bond.scene.database.socket().with_file_name("m0"));
    bond.wait_for("member m0: enabled");
    bond.stations.send(A, &[], &[(B, NONE), (end, NONE)]);
    assert_eq!(take(&mut back).len(), 0);

    // A station of a VLAN is announced with its tag.
    bond.scene.vsctl("set Port a tag=10");
    let tag: &[Tag] = &[(0x8100, 10)];
    bond.stations.send(A, &[], &[(B, tag), (end, tag)]);
    drop(bond.stations.0.remove(end));
    bond.wait_for("active member mac: 00:00:00:00:00:00(m0)");
    let mut heard = Vec::new();
    wait_for("announced stations", || {
        heard.extend(take(&mut back));
        (heard.len() == 2).then_some(())
    });
    heard.sort_unstable_by_key(|frame| frame[11]);
    assert_eq!((heard[0][11], &heard[0][12..18]), (A as u8, &[0x81, 0, 0, 10, 0x80, 0x35][..]));
    assert_eq!((heard[1][11], &heard[1][12..14]), (B as u8, &[0x80, 0x35][..]));
    bond.scene.switch.end();
}

#[test]
fn a_balancing_bond_has_one_interface_for_each_station() {
    let mut bond = Bond::new("balance-slb");
    let mut by_station = Vec::new();
    for station in 0..16_u8 {
        let mut sent = frame(0x40 + station, &[]);
        let (first, others) = bond.exit(&sent, &sent);
        assert_eq!(others, Vec::<Vec<u8>>::new(), "each leaves once");
        *sent.last_mut().unwrap() ^= 1;
        assert_eq!(bond.exit(&sent, &sent), (first, Vec::new()));
        by_station.push(first);
    }
    assert!(by_station.contains(&ONE) && by_station.contains(&OTHER), "{by_station:?}");
    take(&mut bond.stations.0[B]);
    // Frames for all come in by the active one alone, frames for a station by either.
    bond.stations.send(ONE, &[], &[(A, NONE), (B, NONE)]);
    bond.stations.send(OTHER, &[], &[]);
    let mut to_a = frame(OTHER as u8, &[]);
    to_a[..6].copy_from_slice(&[2, 0, 0, 0, 0, 0x40]);
    bond.stations.0[OTHER].send(&to_a);
    assert_eq!(bond.stations.0[A].receive(), to_a);
    // What the other switch sends back of this network's own stations is dropped.
    bond.stations.0[ONE].send(&frame(0x40, &[]));
    bond.stations.send(ONE, &[], &[(A, NONE), (B, NONE)]);

    // In a VLAN.
    bond.scene.vsctl("set Port a tag=10 -- set Port b tag=10");
    let tag: &[Tag] = &[(0x8100, 10)];
    for station in 0x40..0x44 {
        bond.exit(&frame(station, &[]), &frame(station, tag));
    }
    bond.stations.0[ONE].send(&frame(0x40, tag));
    bond.stations.send(ONE, tag, &[(A, NONE)]);

    // A controller's frame whose input port is one interface or the other does not leave by the bond.
    bond.scene.vsctl("clear Port a tag -- clear Port b tag");
    bond.stations.0.iter_mut().for_each(|guest| drop(take(guest)));
    let sent = frame(0x50, &[]);
    let hex: String = sent.iter().map(|byte| format!("{byte:02x}")).collect();
    for interface in ["m0", "m1"] {
        let number = bond.scene.vsctl(&format!("get Interface {interface} ofport"));
        let actions = format!("in_port={},packet={hex},actions=NORMAL", number.trim());
        bond.scene.ofctl(&format!("packet-out {BRIDGE} {actions}"));
        for station in [A, B] {
            assert_eq!(bond.stations.0[station].receive(), sent);
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!([ONE, OTHER].map(|end| take(&mut bond.stations.0[end]).len()), [0, 0], "{interface}");
    }

    // What cannot be is said.
    bond.scene.vsctl("set Port bond0 bond_mode=balance-tcp");
    assert!(bond.scene.columns("m0", "ofport error").contains("write active-backup or balance-slb"));
    bond.scene.vsctl("set Port bond0 bond_mode=balance-slb lacp=active");
    assert!(bond.scene.columns("m1", "ofport error").contains("ovs-vsctl set port bond0 lacp=off"));
    assert_eq!(bond.scene.columns("a", "error"), "[]\n");
    bond.scene.switch.end();
}

#[test]
fn a_busy_interface_of_a_balancing_bond_gives_stations_to_another() {
    let mut bond = Bond::new("balance-slb");
    bond.wait_for("member m0: enabled");
    bond.scene.vsctl("set Port bond0 other_config:bond-rebalance-interval=1000");
    let large = |station| {
        let mut large = frame(station, &[]);
        large.resize(1514, station);
        large
    };
    let mut exit = |station| {
        bond.stations.0[A].reclaim(TRANSMIT);
        let (end, others) = bond.exit(&large(station), &large(station));
        assert_eq!(others.len(), 0, "each leaves once");
        end
    };
    let mut busy: Vec<u8> = (0x40..0x60).filter(|station| exit(*station) == ONE).collect();
    assert!(busy.len() >= 4, "{busy:?}");
    busy.truncate(4);
    wait_for("a station that leaves by the other interface", || {
        busy.iter().any(|station| exit(*station) == OTHER).then_some(())
    });
    assert!(busy.iter().any(|station| exit(*station) == ONE), "all were moved");
    let shown = bond.scene.appctl("bond/show bond0");
    assert!(shown.contains("  hash ") && shown.contains(" kB load\n"), "{shown}");
    bond.scene.switch.end();
}

/// Interfaces of the host are up while they have a carrier; the row of the bond has the address of the active one.
#[test]
fn an_interface_without_a_carrier_is_down() {
    let scene = Scene::new();
    let interfaces = "-- set Interface t0 type=tap -- set Interface t1 type=tap";
    scene.vsctl(&format!("add-bond {BRIDGE} bond0 t0 t1 {interfaces}"));
    let active = |name: &str, mac: &str| wait_for_line(&scene, &format!("active member mac: {mac}({name})"));
    let mac = |name: &str| {
        let shown = scene.network.run(&format!("ip -oneline link show {name}")).unwrap().expect_success();
        let (_, rest) = shown.split_once("link/ether ").unwrap();
        rest.split(' ').next().unwrap().to_owned()
    };
    active("none", "00:00:00:00:00:00");
    scene.network.ip("link set t1 up").unwrap();
    active("t1", &mac("t1"));
    scene.network.ip("link set t0 up").unwrap();
    wait_for_line(&scene, "member t0: enabled");
    active("t1", &mac("t1"));
    scene.network.ip("link set t1 down").unwrap();
    active("t0", &mac("t0"));
    wait_for("the address of the active interface", || {
        let column = scene.vsctl("--no-wait get Port bond0 bond_active_slave");
        (column == format!("\"{}\"\n", mac("t0"))).then_some(())
    });
    scene.switch.end();
}
