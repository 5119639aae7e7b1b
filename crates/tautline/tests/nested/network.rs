//! The group `net` in the nested machine, where vhost-net, macvtap, an emulated card and a card that is handed on, of
//! guests under real KVM, are the kernel's and QEMU's own: payload intact, what was sent was received or lost, the
//! roles as they are.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::Duration;

use measure::Results;
use peers::nested::{HANDED_ON, Machine, Settings};

use crate::phases::Phases;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
/// The machine has the generic kernel, whose modules have the card's driver too.
const ENVIRONMENTS: &str = "host,vm:accel=kvm,kernel=/guest/generic/kernel,memory=256";
/// A path, and the threads that take CPU time on it.
type Wanted = (&'static str, &'static str);
const PATHS: [Wanted; 4] = [
    ("guest_e1000_tap", "QEMU I/O thread"),
    ("guest_virtio_vhost-net_tap", "vhost worker"),
    ("guest_virtio_vhost-net_veth_macvtap", "vhost worker"),
    ("guest_vfio_wire", "vCPU"),
];

/// A guest's start fails by the emulator's fault in about one case of five; here there are four, so that each path has
/// a repetition of its own.
#[test]
#[ignore = "four guests, one after the other: make test-nested-long"]
fn guests_over_vhost_net_macvtap_an_emulated_card_and_one_that_is_handed_on() {
    peers::standstill::once_more(guests);
}

/// Measures and checks a path, by a command of its own: so that one guest lives at a time. A machine of two emulated
/// CPUs is slow with four, and the more it has to do, the more often an interrupt is delivered twice (docs/nested.md).
fn measure(machine: &Machine, (path, role): Wanted, far: &str) {
    let only = ["udp_stream.1472", "tcp_stream.1472", "udp_rr.64"].map(|work| format!("net.{path}.{work}"));
    let line = format!(
        "tautline --verbose compare --quick --blocks 1 --trial 500ms --verify-payload --environments {ENVIRONMENTS} --timeout 30s \
         --assign {HANDED_ON},rombar=0 --assign-far {far} \
         --only {} --output /net.json >/net.txt 2>&1; status=$?; cat /net.txt; exit $status",
        only.join(",")
    );
    let output = machine.watch_guests(|| machine.run_within(&line, Duration::from_secs(300)).unwrap());
    println!("{}", output.stdout);
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    let json = machine.pull(Path::new("/net.json")).unwrap();
    let results: Results = serde_json::from_slice(&json).unwrap();
    assert!(results.absences.is_empty(), "{:?}", results.absences);
    let network = &results.network;
    let record = network.paths.iter().find(|record| record.name == path).unwrap();
    assert!(record.failure.is_none() && record.emulated, "{record:?}");
    // A stream of datagrams goes towards the near end too.
    assert_eq!(network.flows.len(), only.len() + 1);
    for flow in &network.flows {
        assert_eq!(flow.path, path);
        let trial = network.trials.iter().find(|trial| trial.metric == flow.metric && trial.counts);
        let trial = trial.unwrap_or_else(|| panic!("no trial of {}", flow.metric));
        assert_eq!(trial.sent, trial.received + trial.lost, "{trial:?}");
        assert!(trial.received > 0 && (flow.datagrams || trial.lost == 0), "{trial:?}");
        let took = trial.cost.roles.iter().any(|one| one.role.starts_with(role) && one.cpu_ns > 0);
        assert!(took, "{trial:?}");
        let guest = trial.cost.guest.unwrap();
        assert!(guest.exits > Some(0) && guest.interrupts > Some(0), "{trial:?}");
    }
}

fn driver(machine: &Machine) -> String {
    machine.must(&format!("basename $(readlink /sys/bus/pci/devices/0000:{HANDED_ON}/driver)"))
}

fn guests() {
    let mut phases = Phases::begin();
    let mut settings = Settings::default().size(2, 2048).program(Path::new(BINARY)).card_to_hand_on();
    for program in ["/usr/bin/nsenter", "/usr/bin/unshare", "/usr/bin/cat"] {
        settings = settings.program(Path::new(program));
    }
    let machine = settings.start().unwrap();
    phases.end("the machine is up");
    machine.must("modprobe vhost_net; modprobe macvtap; modprobe veth; modprobe tun");
    machine.must("modprobe vfio_pci; modprobe vfio_iommu_type1");
    let far = machine.near_interface();
    assert_eq!(driver(&machine), "e1000e\n");
    for wanted in PATHS {
        peers::standstill::once_more(|| measure(&machine, wanted, &far));
        phases.end(wanted.0);
    }
    // Card and interface are the host's again.
    assert_eq!(driver(&machine), "e1000e\n");
    assert_eq!(machine.near_interface(), far);
}
