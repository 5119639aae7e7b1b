//! The group `net` in the nested machine, where vhost-net, macvtap and an emulated card of a guest under real KVM are
//! the kernel's and QEMU's own: payload intact, what was sent was received or lost, the roles as they are.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::Duration;

use measure::Results;
use peers::nested::Settings;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
/// The machine has the generic kernel, whose modules have the card's driver too.
const ENVIRONMENTS: &str = "host,vm:accel=kvm,kernel=/guest/generic/kernel,memory=512";
const PATHS: [(&str, &str); 3] = [
    ("guest_e1000_tap", "QEMU I/O thread"),
    ("guest_virtio_vhost-net_tap", "vhost worker"),
    ("guest_virtio_vhost-net_veth_macvtap", "vhost worker"),
];

#[test]
fn guests_over_vhost_net_macvtap_and_an_emulated_card() {
    peers::standstill::once_more(guests);
}

fn guests() {
    let mut settings = Settings::default().size(2, 3072).program(Path::new(BINARY));
    for program in ["/usr/bin/nsenter", "/usr/bin/unshare", "/usr/bin/cat"] {
        settings = settings.program(Path::new(program));
    }
    let machine = settings.start().unwrap();
    machine.must("modprobe vhost_net; modprobe macvtap; modprobe veth; modprobe tun");
    let works = ["udp_stream.1472", "tcp_stream.1472", "udp_rr.64"];
    let only: Vec<String> =
        PATHS.iter().flat_map(|(path, _)| works.map(|work| format!("net.{path}.{work}"))).collect();
    let line = format!(
        "tautline --quiet compare --quick --blocks 1 --verify-payload --environments {ENVIRONMENTS} --timeout 30s \
         --only {} --output /net.json >/net.txt 2>&1; status=$?; cat /net.txt; exit $status",
        only.join(",")
    );
    let output = machine.run_within(&line, Duration::from_secs(300)).unwrap();
    println!("{}", output.stdout);
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    let json = machine.pull(Path::new("/net.json")).unwrap();
    let results: Results = serde_json::from_slice(&json).unwrap();
    assert!(results.absences.is_empty(), "{:?}", results.absences);
    let network = &results.network;
    for (path, role) in PATHS {
        let record = network.paths.iter().find(|record| record.name == path).unwrap();
        assert!(record.failure.is_none() && record.emulated, "{record:?}");
        for flow in network.flows.iter().filter(|flow| flow.path == path) {
            let trial = network.trials.iter().find(|trial| trial.metric == flow.metric && trial.counts);
            let trial = trial.unwrap_or_else(|| panic!("no trial of {}", flow.metric));
            assert_eq!(trial.sent, trial.received + trial.lost, "{trial:?}");
            assert!(trial.received > 0 && (flow.datagrams || trial.lost == 0), "{trial:?}");
            assert!(trial.cost.roles.iter().any(|one| one.role == role && one.cpu_ns > 0), "{trial:?}");
        }
    }
}
