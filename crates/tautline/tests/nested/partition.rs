//! A guest under real KVM whose virtual CPU has a CPU that is taken from everything else, in the nested machine.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::Duration;

use measure::Results;
use peers::nested::Settings;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
const LIMIT: Duration = Duration::from_secs(300);

/// Waits for a thread on the partition, and says the names of those there, and where each thread of QEMU may run.
const WATCH: &str = "until grep -qs . /sys/fs/cgroup/tautline-*/cgroup.threads; do sleep 0.2; done; sleep 2; \
    for thread in $(cat /sys/fs/cgroup/tautline-*/cgroup.threads); do cat /proc/[0-9]*/task/$thread/comm; done >/there; \
    for task in /proc/$(pidof qemu-system-x86_64)/task/*; do \
        echo $(cat $task/comm): $(sed -n 's/^Cpus_allowed_list://p' $task/status); done >/everywhere";

#[test]
fn the_vcpus_of_a_guest_have_a_partition_and_qemus_other_threads_do_not() {
    peers::standstill::once_more(|| {
        let machine = Settings::default().size(4, 2048).program(Path::new(BINARY)).start().unwrap();
        machine.must("mount -t cgroup2 cgroup2 /sys/fs/cgroup");
        let compare = "tautline compare --quick --only os.syscall --blocks 1 --tables --output /run.json \
            --environments host,vm:accel=kvm,kernel=/guest/kernel,memory=256,partition=3";
        let output = machine.run_within(&format!("({WATCH}) & {compare}"), LIMIT).unwrap();
        println!("{}", output.stdout);
        assert!(output.success(), "{}\n{}", output.stdout, output.stderr);
        let (there, everywhere) = (machine.must("cat /there"), machine.must("cat /everywhere"));
        println!("{there}{everywhere}");
        assert_eq!(there, "CPU 0/KVM\n");
        assert!(everywhere.contains("CPU 0/KVM: 3"), "{everywhere}");
        assert_eq!(everywhere.lines().filter(|line| line.contains('3')).count(), 1, "{everywhere}");
        let results: Results = serde_json::from_str(&machine.must("cat /run.json")).unwrap();
        let measured = |name: &str| results.trials.iter().any(|trial| trial.environment == name);
        assert!(measured("host") && measured("vm"), "{:?}", results.environments);
        assert!(!machine.run("ls -d /sys/fs/cgroup/tautline-*").unwrap().success());
    });
}
