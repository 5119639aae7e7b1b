//! How long OVN needs until the switch forwards by the flows of many logical ports, and the switch's memory then, beside
//! Open vSwitch. `make scale-ovn` prints the table of docs/ovn.md.
use std::time::{Duration, Instant};

use peers::{Ovn, OvsDatabase, OvsNetdev};

use crate::ovsdb::{Scene, network, resident_kib};
use crate::switch_process::wait_for;

/// The logical ports of a switch. Eight of them are on the measured chassis.
const PORTS: [usize; 3] = [20, 200, 2000];
const LOCAL: usize = 8;

/// What one chassis took.
struct Measured {
    /// From the commit of all logical ports to `--wait=hv`.
    all: Duration,
    /// From the commit of one more.
    one: Duration,
    flows: usize,
    kib: u64,
}

/// Adds so many logical ports to a chassis without any.
fn measure(database: &OvsDatabase, process: u32, ports: usize) -> Measured {
    let ovn = Ovn::start(database).unwrap();
    wait_for("the bridge of OVN", || database.vsctl(&["list-br"]).unwrap().contains("br-int").then_some(()));
    for port in 0..LOCAL {
        let words = format!(
            "add-port br-int p{port} -- set Interface p{port} type=internal external_ids:iface-id=p{port}"
        );
        database.vsctl(&words.split(' ').collect::<Vec<_>>()).unwrap();
    }
    ovn.nbctl(&["--wait=hv", "ls-add", "sw0"]).unwrap();
    let added = |port: usize| {
        let [high, low] = (port as u16 + 1).to_be_bytes();
        let addresses = format!("02:00:00:00:{high:02x}:{low:02x} 10.0.{high}.{low}");
        let name = format!("p{port}");
        let words = ["--", "lsp-add", "sw0", &name, "--", "lsp-set-addresses", &name, &addresses];
        words.map(str::to_owned)
    };
    let timed = |from: usize, to: usize| {
        let words: Vec<String> = (from..to).flat_map(added).skip(1).collect();
        let words: Vec<&str> = ["--wait=hv"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let since = Instant::now();
        ovn.nbctl(&words).unwrap();
        since.elapsed()
    };
    let (all, one) = (timed(0, ports), timed(ports, ports + 1));
    let flows = database.ofctl(&["-O", "OpenFlow15", "--no-stats", "dump-flows", "br-int"]).unwrap();
    Measured { all, one, flows: flows.lines().count(), kib: resident_kib(process) }
}

#[test]
#[ignore = "some minutes: make scale-ovn"]
fn logical_ports_beside_open_vswitch() {
    println!(
        "| logical ports | switch | flows | all ports, s | one more, s | memory, MiB |\n|---|---|---|---|---|---|"
    );
    for ports in PORTS {
        let row = |name: &str, Measured { all, one, flows, kib }: Measured| {
            let [all, one] = [all, one].map(|time| time.as_secs_f64());
            println!("| {ports} | {name} | {flows} | {all:.2} | {one:.2} | {:.0} |", kib as f64 / 1024.0);
        };
        let scene = Scene::new();
        row("Tautline", measure(&scene.database, scene.switch.id(), ports));
        scene.switch.end();
        let other = network();
        let openvswitch = OvsNetdev::start(&other).unwrap();
        row("Open vSwitch", measure(openvswitch.database(), openvswitch.id(), ports));
    }
}
