//! The switch between real peers: DPDK as driver and as device, and Open vSwitch with DPDK.
//!
//! ```text
//!   end A ── a ─ switch ─ p0 ── peer ── p1 ─ switch ─ b ── end B
//! ```
//!
//! Frames go both ways, numbered and with a checksum over their payload. What arrives is in order within its
//! flow and unaltered, and every frame that does not arrive is a drop that the switch or the peer counted.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::switch_process::wires::{Ends, STATIONS, Shape};
use crate::switch_process::{
    Sockets, SwitchProcess, connect, cpus, dropped, drops, listens, passed, wait_for, workers,
};
use peers::pages::{Grown, held_kib};
use peers::testpmd::{Forward, Settings, Vdev};
use peers::{OvsDpdk, Pages, Testpmd};
use rustix::process::{Pid, Signal, kill_process};
use virtio::net::MacAddress;

/// Of each direction. The rings hold the frames of more than a tenth of a second.
const FRAMES_PER_SECOND: f64 = 2000.0;
/// Several frames of each flow are under way at a time: one that takes another way overtakes.
const DENSE: f64 = 40_000.0;
const A_MOMENT: Duration = Duration::from_millis(400);

/// Long frames among short ones, and different ones from each end.
const JUMBO: [&str; 2] = ["64x2+1518x1+4000x1+9000x1", "65x2+1517x1+3999x1+9018x1"];

/// Each of these tests keeps two CPUs busy: one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A switch with wires a=p0 and p1=b, all four of them back-ends.
fn wired(sockets: &Sockets, options: &str, more: &[String]) -> SwitchProcess {
    let ports = ["a", "p0", "p1", "b"].map(|name| sockets.port(name, "vhost-user", options));
    let wires = [connect("a", "p0"), connect("p1", "b")];
    SwitchProcess::start(&[ports.concat(), wires.concat(), more.to_vec()].concat())
}

fn ends(sockets: &Sockets, shape: &Shape<'_>) -> Ends {
    let mut ends = Ends::new([(&sockets.path("a"), false), (&sockets.path("b"), false)], shape);
    ends.wait_until_up();
    ends
}

/// Frames that testpmd could not send on, since its last start.
fn dropped_by(testpmd: &mut Testpmd) -> u64 {
    let said = testpmd.command("show fwd stats all").unwrap();
    let all = said.split("Accumulated forward statistics").nth(1).unwrap_or_else(|| panic!("{said}"));
    let count = all.split("TX-dropped:").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    count.unwrap_or_else(|| panic!("{said}"))
}

/// Both ends exchange frames through testpmd, and all are accounted for.
fn exchange_through(ends: &mut Ends, switch: &SwitchProcess, testpmd: &mut Testpmd, frames_per_second: f64) {
    let before = dropped(&switch.snapshot());
    ends.exchange(frames_per_second, A_MOMENT);
    let lost = ends.account(|| dropped(&switch.snapshot()) - before + dropped_by(testpmd));
    println!("{:?} frames sent, {lost} dropped and counted", ends.sent());
}

/// A driver of testpmd that is to take one of its paths, in words as it says them.
struct DriverPath {
    vdev: fn(Vdev) -> Vdev,
    transmit: &'static str,
    receive: &'static str,
    pages: Pages,
}

fn through_drivers(path: &DriverPath, shape: &Shape<'_>, arguments: &[&str]) {
    let _alone = alone();
    let sockets = Sockets::new();
    let switch = wired(&sockets, "", &[]);
    let port = |name| (path.vdev)(Vdev::virtio_user(&sockets.path(name)));
    let settings = Settings::default().simd_bits(512).pages(path.pages);
    let mut settings = settings.port(port("p0")).port(port("p1"));
    for argument in arguments.iter().chain(&["--disable-link-check"]) {
        settings = settings.arguments([argument]);
    }
    let mut testpmd = settings.start().unwrap();
    assert_eq!(held_kib(testpmd.id()) > 0, path.pages == Pages::Huge);
    let paths = [0, 1].map(|port| {
        [
            format!("{} Tx path on port {port}", path.transmit),
            format!("{} Rx path on port {port}", path.receive),
        ]
    });
    let mut taken = testpmd.paths().unwrap();
    taken.sort_by_key(|line| line.chars().last());
    assert_eq!(taken, paths.concat());
    testpmd.start_forwarding().unwrap();
    let mut ends = ends(&sockets, shape);
    exchange_through(&mut ends, &switch, &mut testpmd, FRAMES_PER_SECOND);
    assert_eq!(testpmd.quit().unwrap().status, 0);
}

/// Usual lengths through the path, then long ones too: without mergeable buffers each holds a whole frame.
fn path(vdev: fn(Vdev) -> Vdev, transmit: &'static str, receive: &'static str) {
    let path = DriverPath { vdev, transmit, receive, pages: Pages::Small };
    through_drivers(&path, &Shape::default(), &[]);
    let shape = Shape { mixes: JUMBO, mtu_bytes: Some(9000), ..Shape::default() };
    let long = ["--tx-offloads=0x8000", "--max-pkt-len=9018"];
    let whole = [long[0], long[1], "--mbuf-size=9344"];
    let scattered = [long[0], long[1], "--enable-scatter"];
    through_drivers(&path, &shape, if receive.contains("mergeable") { &scattered } else { &whole });
}

#[test]
fn drivers_split() {
    path(|vdev| vdev.mergeable(false).in_order(false), "standard", "standard");
}

#[test]
fn drivers_split_mergeable() {
    path(|vdev| vdev.in_order(false), "standard", "mergeable buffer");
}

#[test]
fn drivers_split_in_order() {
    path(|vdev| vdev.mergeable(false), "inorder", "inorder");
}

#[test]
fn drivers_split_vectorised() {
    path(|vdev| vdev.mergeable(false).in_order(false).vectorized(true), "standard", "vectorized");
}

#[test]
fn drivers_packed() {
    let name = "packed ring standard";
    path(|vdev| vdev.packed(true).mergeable(false).in_order(false), name, name);
}

#[test]
fn drivers_packed_mergeable() {
    path(|vdev| vdev.packed(true).in_order(false), "packed ring standard", "packed ring mergeable buffer");
}

#[test]
fn drivers_packed_in_order() {
    let name = "packed ring standard";
    path(|vdev| vdev.packed(true).mergeable(false), name, name);
}

/// Both layouts, each as DPDK is meant to run: the guest's memory is one file of pages of 2 MiB.
#[test]
fn drivers_with_huge_pages() {
    let _grown = Grown::by(64).unwrap();
    for (packed, name) in [(false, "standard"), (true, "packed ring standard")] {
        let vdev = match packed {
            false => |vdev: Vdev| vdev.mergeable(false).in_order(false),
            true => |vdev: Vdev| vdev.packed(true).mergeable(false).in_order(false),
        };
        let path = DriverPath { vdev, transmit: name, receive: name, pages: Pages::Huge };
        through_drivers(&path, &Shape::default(), &[]);
    }
}

#[test]
fn drivers_packed_vectorised() {
    let name = peers::testpmd::packed_vectorized_path();
    path(|vdev| vdev.packed(true).mergeable(false).vectorized(true), name, name);
}

/// By addresses: all stations are known before the first frame, so no frame is flooded.
#[test]
fn drivers_behind_learned_addresses() {
    let _alone = alone();
    let sockets = Sockets::new();
    let ports = ["a", "p0", "p1", "b"].map(|name| sockets.port(name, "vhost-user", ""));
    let switch = SwitchProcess::start(&ports.concat());
    let [p0, p1] = [MacAddress([2, 0, 0, 0, 0xc, 0]), MacAddress([2, 0, 0, 0, 0xc, 1])];
    let port = |name, mac: MacAddress| Vdev::virtio_user(&sockets.path(name)).argument("mac", mac);
    let [a, b] = STATIONS;
    let peers = [format!("--eth-peer=0,{a}"), format!("--eth-peer=1,{b}")];
    let settings = Settings::default().port(port("p0", p0)).port(port("p1", p1).packed(true));
    let settings = settings.arguments([&peers[0], &peers[1], "--disable-link-check"]);
    let mut testpmd = settings.start().unwrap();
    testpmd.set_forward(Forward::Mac).unwrap();

    let mut ends = ends(&sockets, &Shape { to: [p0, p1], ..Shape::default() });
    ends.introduce();
    wait_for("both ends learned", || {
        (drops(&switch.snapshot(), "a", "nowhere to go") + drops(&switch.snapshot(), "b", "nowhere to go")
            == ends.hellos())
        .then_some(())
    });
    // Its first frames go to the ends, and tell where it is itself.
    testpmd.start_with_bursts(1).unwrap();
    wait_for("testpmd learned", || (switch.snapshot()["table"]["learned"] == 4).then_some(()));

    exchange_through(&mut ends, &switch, &mut testpmd, FRAMES_PER_SECOND);
    let counters = switch.snapshot();
    assert_eq!(workers(&counters, "flooded"), 0, "{counters:#}");
    assert_eq!((&counters["table"]["addresses"], &counters["table"]["moved"]), (&4.into(), &0.into()));
    for tally in ends.tallies() {
        assert_eq!(tally.foreign, 32, "{tally:?}");
    }
}

/// Two queues of each port: a flow keeps its order whichever way it takes.
#[test]
fn drivers_with_two_queue_pairs() {
    let _alone = alone();
    // With one worker, both queues of a port are its to choose from.
    for (packed, count) in [(false, 2), (true, 2), (true, 1)] {
        let sockets = Sockets::new();
        let switch = wired(&sockets, ",queue-pairs=2", &["--cpus".into(), cpus(count)]);
        let port = |name| Vdev::virtio_user(&sockets.path(name)).queue_pairs(2).packed(packed);
        let settings = Settings::default().port(port("p0")).port(port("p1")).queue_pairs(2);
        let mut testpmd = settings.arguments(["--disable-link-check"]).start().unwrap();
        testpmd.start_forwarding().unwrap();
        let mut ends = ends(&sockets, &Shape { queue_pairs: 2, ..Shape::default() });
        exchange_through(&mut ends, &switch, &mut testpmd, DENSE);
        let (counters, _) = switch.end();
        for worker in counters["workers"].as_array().unwrap() {
            assert!(worker["frames"].as_u64().unwrap() > 0, "a worker without frames: {counters:#}");
        }
    }
}

/// More comes than the rings hold: what finds no place is counted, and the rest comes when it is taken.
#[test]
fn a_driver_that_stands_still_for_a_while() {
    let _alone = alone();
    let sockets = Sockets::new();
    let switch = wired(&sockets, "", &[]);
    let port = |name| Vdev::virtio_user(&sockets.path(name)).packed(true);
    let settings = Settings::default().port(port("p0")).port(port("p1"));
    let mut testpmd = settings.arguments(["--disable-link-check"]).start().unwrap();
    testpmd.start_forwarding().unwrap();
    let mut ends = ends(&sockets, &Shape::default());
    ends.warm_up();
    let testpmd_id = Pid::from_raw(testpmd.id() as i32).unwrap();
    kill_process(testpmd_id, Signal::STOP).unwrap();
    let before = ends.sent();
    wait_for("more frames than the rings hold", || {
        ends.send(FRAMES_PER_SECOND, A_MOMENT / 4);
        ends.sent().into_iter().zip(before).all(|(sent, before)| sent - before > 400).then_some(())
    });
    kill_process(testpmd_id, Signal::CONT).unwrap();
    let lost = ends.account(|| dropped(&switch.snapshot()) + dropped_by(&mut testpmd));
    let counters = switch.snapshot();
    let full = drops(&counters, "p0", "receiver full") + drops(&counters, "p1", "receiver full");
    assert!(full > 0 && lost >= full, "{lost} lost, {counters:#}");
}

/// The same wires, but p0 and p1 are drivers, and the devices are others'.
fn wired_to_devices(sockets: &Sockets, options: &str) -> SwitchProcess {
    let backs = ["a", "b"].map(|name| sockets.port(name, "vhost-user", ""));
    let fronts = ["p0", "p1"].map(|name| sockets.port(name, "virtio-user", options));
    let wires = [connect("a", "p0"), connect("p1", "b")];
    SwitchProcess::start(&[backs.concat(), fronts.concat(), wires.concat()].concat())
}

/// Waits until these ports of the switch have agreed with their devices.
fn wait_until_connected(switch: &SwitchProcess, ports: &[&str]) {
    for port in ports {
        wait_for(&format!("a device behind {port}"), || {
            let snapshot = switch.snapshot();
            crate::switch_process::description(&snapshot, port).contains("connected, 1").then_some(())
        });
    }
}

#[test]
fn devices_of_testpmd() {
    let _alone = alone();
    for (device_connects, switch_options) in
        [(false, ""), (true, ",server=on"), (false, ",packed=off"), (true, ",server=on,mtu=9000")]
    {
        let sockets = Sockets::new();
        let vdev = |name| {
            let vdev = Vdev::vhost(&sockets.path(name));
            if device_connects { vdev.other_role() } else { vdev }
        };
        let settings = Settings::default().port(vdev("p0")).port(vdev("p1"));
        // Up before its drivers come: `net_vhost` may leave closed the queues of one that comes too early.
        let mut testpmd = settings.arguments(["--disable-link-check"]).start().unwrap();
        testpmd.start_forwarding().unwrap();
        let switch = wired_to_devices(&sockets, switch_options);
        wait_until_connected(&switch, &["p0", "p1"]);
        let jumbo = switch_options.contains("mtu");
        let mixes = if jumbo { JUMBO } else { Shape::default().mixes };
        let shape = Shape { mixes, mtu_bytes: jumbo.then_some(9000), ..Shape::default() };
        let mut ends = ends(&sockets, &shape);
        exchange_through(&mut ends, &switch, &mut testpmd, FRAMES_PER_SECOND);
    }
}

/// Frames that Open vSwitch counts as dropped at these ports.
fn dropped_by_ovs(ovs: &OvsDpdk, ports: &[&str]) -> u64 {
    let stats = ports.iter().map(|port| ovs.stats(port).unwrap());
    stats.map(|stats| stats.rx_dropped + stats.tx_dropped).sum()
}

fn exchange_through_ovs(ends: &mut Ends, switch: &SwitchProcess, ovs: &OvsDpdk, ports: &[&str]) {
    let before = dropped(&switch.snapshot()) + dropped_by_ovs(ovs, ports);
    ends.exchange(FRAMES_PER_SECOND, A_MOMENT);
    let lost = ends.account(|| dropped(&switch.snapshot()) + dropped_by_ovs(ovs, ports) - before);
    println!("{:?} frames sent, {lost} dropped and counted", ends.sent());
}

#[test]
fn open_vswitch() {
    let _alone = alone();
    let ovs = OvsDpdk::new().unwrap();

    // Port to port: in by one port and out by the other, and no address is looked at.
    let sockets = Sockets::new();
    let switch = wired_to_devices(&sockets, ",server=on");
    for port in ["p0", "p1"] {
        ovs.add_port(port, &sockets.path(port)).unwrap();
    }
    wait_until_connected(&switch, &["p0", "p1"]);
    ovs.connect("p0", "p1").unwrap();
    exchange_through_ovs(&mut ends(&sockets, &Shape::default()), &switch, &ovs, &["p0", "p1"]);
    let (counters, _) = switch.end();
    assert!(passed(&counters, "p0", true) > 0 && passed(&counters, "p1", false) > 0, "{counters:#}");
    for port in ["p0", "p1"] {
        ovs.vsctl(&["del-port", port]).unwrap();
    }

    // Two switches that learn, one behind the other; end B is plugged into Open vSwitch itself.
    let sockets = Sockets::new();
    let ports = [sockets.port("x", "vhost-user", ""), sockets.port("y", "virtio-user", ",server=on")];
    let switch = SwitchProcess::start(&ports.concat());
    ovs.learn().unwrap();
    let far = sockets.path("far");
    let mut ends = Ends::new([(&sockets.path("x"), false), (&far, true)], &Shape::default());
    assert!(listens(&far));
    ovs.add_port("y", &sockets.path("y")).unwrap();
    ovs.add_port("far", &far).unwrap();
    wait_until_connected(&switch, &["y"]);
    ends.wait_until_up();
    exchange_through_ovs(&mut ends, &switch, &ovs, &["y", "far"]);
    let known = ovs.addresses().unwrap();
    for station in STATIONS {
        assert!(known.contains(&station.to_string()), "{station} in {known}");
    }
    assert_eq!(switch.snapshot()["table"]["addresses"], 2);
}
