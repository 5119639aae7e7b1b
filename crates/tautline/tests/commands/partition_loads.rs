//! What load on the other CPUs does to wake-ups on a shared CPU and on a partition's, in a booted machine of four
//! emulated CPUs with cgroup v2.

use std::path::Path;
use std::time::Duration;

use peers::Guest;
use peers::guest::Settings;

#[path = "../common/loads.rs"]
mod loads;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");

fn boot() -> Guest {
    let guest = Settings::default().size(4, 768).program(Path::new(BINARY)).arguments(loads::NAMED_THREADS);
    let guest = guest.start().unwrap();
    loads::prefer_measured_cpus(&guest);
    guest.must("mkdir -p /tmp && mount -t cgroup2 cgroup2 /sys/fs/cgroup && mount -t tracefs tracefs /sys/kernel/tracing");
    guest
}

#[test]
#[ignore = "the machine's four CPUs need a quiet host: make test-nested-long"]
fn wake_ups_displace_load_on_a_shared_cpu_and_none_on_a_partitions() {
    peers::standstill::once_more(|| {
        let guest = boot();
        let measuring = ["host --cpus 0", "partition:3"].map(|environment| {
            let line =
                "tautline compare --quick --blocks 1 --only wakeup.idle --wakeup-trial 300s --environments";
            guest.begin(&format!("{line} {environment}"), Duration::from_secs(300)).unwrap()
        });
        loads::check_while_measuring(&guest);
        // Both end with the machine.
        drop(measuring);
    });
}

#[test]
#[ignore = "some minutes for the table of docs/compare.md: make test-nested-long"]
fn the_table_of_the_page() {
    let effort = loads::Effort { blocks: 6, rounds: 1, limit: Duration::from_secs(400) };
    peers::standstill::once_more(|| loads::measure(&boot(), "host,partition:3", effort));
}
