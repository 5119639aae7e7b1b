//! The group `net` as a user runs it: real paths, counts that add up, and nothing left however it ends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::common::{Run, nothing_left, wait_until};
use measure::Results;
use rustix::process::Signal;

/// A run of the group over some of its paths, with Open vSwitch as a user has installed it.
fn run(only: &str, more: &[&str], json: &Path) -> Run {
    let path = std::env::var("PATH").unwrap();
    let ovs = peers::ovs::unpacked().map(|folder| folder.join("usr/bin").display().to_string());
    let path = ovs.into_iter().chain([path]).collect::<Vec<_>>().join(":");
    let run =
        Run::new(&["compare", "--tables", "--quick", "--only", only]).args(more).arg("--output").arg(json);
    run.env("PATH", &path)
}

/// The network namespaces that processes of a run are in, but for this test's own.
fn namespaces(processes: &[u32]) -> BTreeSet<PathBuf> {
    let of = |process: &u32| std::fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let own = of(&std::process::id());
    processes.iter().filter_map(of).filter(|namespace| Some(namespace) != own.as_ref()).collect()
}

fn all_processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn every_path_is_measured_and_what_was_sent_was_received_or_lost() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    // Guests are emulated on every machine, so that the test does not wait for a trial of KVM.
    let guests = ["--environments", "host,vm:accel=tcg"];
    let ended = run("net", &["--blocks", "1", "--verify-payload", guests[0], guests[1]], &json).finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    let results = Results::load(&json).unwrap();
    assert!(results.complete && results.absences.is_empty(), "{ended}");
    let network = &results.network;
    let is_flown = |name: &str| network.flows.iter().any(|flow| flow.path == name);
    let there: Vec<_> = network.paths.iter().filter(|path| path.failure.is_none()).collect();
    // Eight of the host, three of containers, six of guests: virtio in QEMU twice and its e1000, vhost-user split and
    // packed on our switch, and on OVS-DPDK.
    assert_eq!(there.len(), 17, "{ended}");
    assert_eq!(there.iter().filter(|path| path.pieces[0] == "guest").count(), 6, "{ended}");
    assert!(there.iter().all(|path| is_flown(&path.name) && path.copies.is_some()), "{ended}");
    for flow in network.flows.iter().filter(|flow| there.iter().any(|path| path.name == flow.path)) {
        let in_guest = flow.path.starts_with("guest");
        for metric in [&flow.metric, &flow.cost] {
            let counted =
                results.trials.iter().filter(|trial| trial.metric == *metric && trial.verdict.counts());
            let values: Vec<f64> = counted.map(|trial| trial.outcome.value).collect();
            assert_eq!(values.len(), 1, "{metric}: {ended}");
            assert!(values.iter().all(|value| *value > 0.0), "{metric}: {values:?}");
        }
        let trials: Vec<_> =
            network.trials.iter().filter(|trial| trial.metric == flow.metric && trial.counts).collect();
        assert_eq!(trials.len(), 1, "{}", flow.metric);
        for trial in trials {
            assert_eq!(trial.sent, trial.received + trial.lost, "{trial:?}");
            let roles: Vec<&str> = trial.cost.roles.iter().map(|role| role.role.as_str()).collect();
            if in_guest {
                let guest_sends = roles.contains(&"vCPU, sending") && roles.contains(&"receiver");
                let guest_receives = roles.contains(&"vCPU, receiving") && roles.contains(&"sender");
                assert!(guest_sends || guest_receives, "{trial:?}");
                are_counted(trial, guest_sends, flow.path.ends_with("switch"), flow.datagrams);
            } else {
                assert!(roles.contains(&"sender") && roles.contains(&"receiver"), "{trial:?}");
            }
            assert_eq!(roles.contains(&"switch worker"), flow.path.ends_with("switch"), "{trial:?}");
            assert_eq!(roles.contains(&"OVS PMD thread"), flow.path.ends_with("ovs-dpdk"), "{trial:?}");
            assert_eq!(trial.cost.guest.is_some(), in_guest, "{trial:?}");
            assert!(trial.cost.calls >= trial.received.min(trial.sent), "{trial:?}");
            if !flow.datagrams {
                assert_eq!(trial.lost, 0, "{trial:?}");
            }
        }
    }
    nothing_left(ended.pid);
    let redrawn = Run::new(&["report"]).arg(&json).finish();
    assert_eq!(redrawn.stdout, ended.stdout, "redrawn from the file, the table is the same");
}

/// Between guest and host: interrupts everywhere; at our switch a kick, or none, for each frame that the guest sent, and
/// a call, or none, for what it was sent.
fn are_counted(trial: &measure::network::NetworkTrial, guest_sends: bool, is_ours: bool, datagrams: bool) {
    let guest = trial.cost.guest.unwrap();
    assert!(guest.interrupts > Some(0), "{trial:?}");
    assert_eq!((guest.kicks.is_some(), guest.calls.is_some()), (is_ours, is_ours), "{trial:?}");
    if is_ours && guest_sends {
        // A frame of a stream holds many of its messages (segmentation offload).
        let least = if datagrams { trial.received } else { 1 };
        assert!(guest.kicks.unwrap() + guest.kicks_suppressed.unwrap() >= least, "{trial:?}");
    } else if is_ours {
        assert!(guest.calls.unwrap() + guest.calls_suppressed.unwrap() > 0, "{trial:?}");
    }
}

#[test]
fn round_trips_are_measured_beside_a_stream_too() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let arguments = ["compare", "--tables", "--only", "net.veth.tcp_rr", "--blocks", "2", "--verify-payload"];
    let ended = Run::new(&arguments).arg("--output").arg(&json).finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    let results = Results::load(&json).unwrap();
    for id in ["net.veth.tcp_rr.64", "net.veth.tcp_rr.64.loaded"] {
        let counted =
            results.trials.iter().filter(|trial| trial.metric.as_str() == id && trial.verdict.counts());
        let trials: Vec<_> = counted.collect();
        assert_eq!(trials.len(), 2, "a trial of each block of {id}: {ended}");
        let is_measured = |outcome: &measure::Outcome| outcome.value > 0.0 && outcome.histogram.is_some();
        assert!(trials.iter().all(|trial| is_measured(&trial.outcome)), "{id}: {ended}");
    }
    assert!(ended.stdout.contains("beside a TCP stream"), "{ended}");
}

#[test]
fn a_run_that_is_killed_leaves_no_process_namespace_or_file() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let mut started =
        run("net.container_switch,net.veth_bridge", &["--blocks", "1", "--trial", "2s"], &json).spawn();
    let pid = started.pid();
    // An agent at each of four ends, one in a container, and a switch.
    assert!(wait_until(|| crate::common::children(pid, "agent").len() >= 3), "the ends run");
    std::thread::sleep(Duration::from_millis(500));
    let used = namespaces(&crate::common::children(pid, "agent"));
    assert!(used.len() >= 3, "{used:?}");
    crate::common::signal(pid, Signal::KILL);
    started.finish();
    nothing_left(pid);
    // Interfaces, rules and queues go with the namespaces, and those with the last process in them.
    assert!(wait_until(|| namespaces(&all_processes()).is_disjoint(&used)), "{used:?}");
}

#[test]
fn a_run_that_is_killed_takes_open_vswitch_along() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let only = "net.guest_vhost-user_ovs-dpdk";
    let mut started = run(only, &["--environments", "host,vm:accel=tcg"], &json).spawn();
    let pid = started.pid();
    // A word of its command line.
    let namespaces_of_switch = || namespaces(&crate::common::children(pid, "-vconsole:info"));
    assert!(wait_until(|| namespaces_of_switch().len() == 1), "the switch runs");
    let used = namespaces_of_switch();
    crate::common::signal(pid, Signal::KILL);
    started.finish();
    nothing_left(pid);
    assert!(wait_until(|| namespaces(&all_processes()).is_disjoint(&used)), "{used:?}");
}

#[test]
fn a_path_that_loses_its_switch_is_told_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("r.json");
    let only = "net.switch.udp_rr,net.veth.udp_rr";
    let mut started = run(only, &["--blocks", "1", "--trial", "3s", "--timeout", "2s"], &json).spawn();
    let switches = || crate::common::children(started.pid(), "switch");
    assert!(wait_until(|| switches().len() == 1), "the switch runs");
    // Before that, the switch hands over its second device.
    assert!(wait_until(|| crate::common::children(started.pid(), "agent").len() == 4), "all ends run");
    std::thread::sleep(Duration::from_millis(500));
    crate::common::signal(switches()[0], Signal::KILL);
    let ended = started.finish();
    assert_eq!(ended.code, Some(0), "{ended}");
    let results = Results::load(&json).unwrap();
    let measured =
        |id: &str| results.trials.iter().any(|trial| trial.metric.as_str() == id && trial.verdict.counts());
    assert!(measured("net.veth.udp_rr.64"), "{ended}");
    assert!(!results.absences.is_empty(), "{ended}");
    nothing_left(ended.pid);
}
