//! What load on the other CPUs does to wake-ups on a CPU that load shares and on a partition's CPU: of a native thread in
//! the manner of cyclictest, and of the virtual CPU of a guest under real KVM.
//!
//! The machine's four CPUs share fewer CPUs of its host, so a time says little. The measure is the scheduler's, in the
//! machine's kernel: which thread ran on the CPU before the one that was woken. The host's speed and its other work have
//! no part in that. The waits of woken threads are shown beside it, and nothing is asserted of them.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;

use peers::nested::Settings;

use crate::wakeups::{CPU_LOAD, Load, NATIVE, NO_LOAD, Subject, check, measured};

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");

/// Figures of each row.
const WINDOWS: usize = 10;

const LOADS: [Load; 4] = [
    NO_LOAD,
    CPU_LOAD,
    Load {
        title: "memory",
        thread: Some("dd"),
        commands: "for _ in $(seq 8); do dd if=/dev/zero of=/dev/null bs=16M & done",
    },
    Load {
        title: "network",
        thread: Some("iperf3"),
        commands: "for port in 5201 5202 5203 5204; do iperf3 -s -D -p $port; done; sleep 1
         for port in 5201 5202 5203 5204; do iperf3 -c 127.0.0.1 -t 3600 -p $port & done",
    },
];

const GUEST: Subject = Subject {
    name: "guest",
    commands: [
        "vm:accel=kvm,kernel=/guest/kernel,memory=256 --cpus 0",
        "vm:accel=kvm,kernel=/guest/kernel,memory=256,partition=3",
    ],
    thread: "CPU 0/KVM",
    woken: "comm==\"CPU 0/KVM\"",
};

fn load_moves_shared_and_no_partition(subject: &Subject) {
    peers::standstill::once_more(|| {
        let machine = Settings::default().size(4, 2048).program(Path::new(BINARY)).start().unwrap();
        machine.must("mkdir -p /tmp; mount -t cgroup2 cgroup2 /sys/fs/cgroup");
        check(subject, &LOADS, &measured(&machine, subject, &LOADS, WINDOWS));
    });
}

#[test]
#[ignore = "some minutes under load: make test-nested-long"]
fn load_moves_a_thread_on_a_shared_cpu_and_none_on_a_partition() {
    load_moves_shared_and_no_partition(&NATIVE);
}

#[test]
#[ignore = "some minutes under load, with two guests under an emulated KVM: make test-nested-long"]
fn load_moves_a_guest_on_a_shared_cpu_and_none_on_a_partition() {
    load_moves_shared_and_no_partition(&GUEST);
}
