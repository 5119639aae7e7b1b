//! A worker of the real switch that never comes back from a system call.
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open};

use crate::switch_process::bystanders::{Bystanders, MAX_LATENCY};
use crate::switch_process::guest::{Guest, frame, plain};
use crate::switch_process::{Sockets, SwitchProcess, connect, wait_for};

/// A deadline of one second, a quarter of one until it is looked at, and as much again for a busy machine.
const LONGEST_OUTAGE: Duration = Duration::from_secs(4);

/// The switch's own open TAP: a holder of the descriptor can do the same as a program that hands one over with `fd=`.
fn tap_of(switch: &SwitchProcess) -> OwnedFd {
    let process = Pid::from_raw(switch.id() as i32).unwrap();
    let process = pidfd_open(process, PidfdFlags::empty()).unwrap();
    let number = std::fs::read_dir(format!("/proc/{}/fd", switch.id())).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        let leads_to = std::fs::read_link(&path).ok()?;
        let number = path.file_name()?.to_str()?.parse().ok()?;
        leads_to.ends_with("net/tun").then_some(number)
    });
    pidfd_getfd(process, number.expect("an open TAP"), PidfdGetfdFlags::empty()).unwrap()
}

/// Another program makes the TAP's descriptor blocking, and no frame comes: the only worker hangs in `read`.
#[test]
fn a_worker_that_hangs_in_a_tap_takes_no_other_port_along() {
    let sockets = Sockets::new();
    let tap = ["--port", "host=tap:tautline0"].map(str::to_owned);
    let ports = ["one", "two", "a", "b"].map(|name| sockets.port(name, "vhost-user", "")).concat();
    let mut switch =
        SwitchProcess::start_in_own_network(&[&tap[..], &ports[..], &connect("a", "b")[..]].concat());
    let bystanders = Bystanders::start([sockets.path("a"), sockets.path("b")]);
    let mut one = Guest::running(&sockets.path("one"), plain());
    let mut two = Guest::running(&sockets.path("two"), plain());

    // A process that is stopped for longer than the deadline is not stuck.
    let lines = switch.logged().len();
    let process = Pid::from_raw(switch.id() as i32).unwrap();
    kill_process(process, Signal::STOP).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    kill_process(process, Signal::CONT).unwrap();
    bystanders.go_on();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(switch.logged().len(), lines, "{:#?}", switch.logged());
    bystanders.forget_latencies();

    let descriptor = tap_of(&switch);
    fcntl_setfl(&descriptor, fcntl_getfl(&descriptor).unwrap() - OFlags::NONBLOCK).unwrap();
    let is_named = |line: &String| {
        line.starts_with("host: ")
            && line.contains("has not come back from 'host' (from the guest, queue pair 0)")
    };
    wait_for("the port is ended", || switch.logged().iter().any(is_named).then_some(()));
    let mut worst = Duration::ZERO;
    wait_for("what was sent meanwhile has arrived", || {
        bystanders.go_on();
        let latency = bystanders.take_worst_latency();
        worst = worst.max(latency);
        (latency < MAX_LATENCY).then_some(())
    });
    println!("bystander beside a worker that hangs: worst latency {worst:.1?}");
    assert!(worst < LONGEST_OUTAGE, "{worst:?}");

    // Guests that were connected all along, at ports that learn.
    two.post(1);
    one.send(&frame(1, 900));
    assert_eq!(two.receive(), frame(1, 900));
    assert!(switch.lives());
    assert_eq!(switch.logged().iter().filter(|line| is_named(line)).count(), 1);
    bystanders.assert_undisturbed("a thread that was given up");
    bystanders.all_is_well();
    drop((one, two));
    switch.end();
}
