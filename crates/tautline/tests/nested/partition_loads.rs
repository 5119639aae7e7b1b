//! What load on the other CPUs does to wake-ups in guests under real KVM whose vCPU is on a shared CPU, and on a
//! partition's, in the nested machine.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::Duration;

use peers::nested::Settings;

#[allow(dead_code, reason = "each test program uses a part of it")]
#[path = "../common/loads.rs"]
mod loads;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");

#[test]
#[ignore = "eight guests boot under an emulated KVM: make test-nested-long"]
fn load_moves_a_guest_on_a_shared_cpu_and_not_on_a_partitions() {
    peers::standstill::once_more(|| {
        let machine = Settings::default().size(4, 2048).program(Path::new(BINARY));
        let machine = machine.arguments(loads::NAMED_THREADS).start().unwrap();
        loads::prefer_measured_cpus(&machine);
        machine.must("mkdir -p /tmp; mount -t cgroup2 cgroup2 /sys/fs/cgroup");
        let guest = "vm:accel=kvm,kernel=/guest/kernel,memory=256";
        let effort = loads::Effort { blocks: 1, rounds: 6, limit: Duration::from_secs(400) };
        loads::measure(&machine, &format!("{guest},{guest},partition=3"), effort);
    });
}
