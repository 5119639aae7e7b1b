//! `tautline vm run` under real KVM, in the nested machine: threads read back from its `/proc`, and a device behind its
//! emulated IOMMU handed on, used and given back, also after kill -9. One boot for all of it.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::{Duration, Instant};

use peers::nested::{Machine, Settings};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
const LIMIT: Duration = Duration::from_secs(90);
/// In the machine's first slot behind what every nested machine has.
const NIC: &str = "/sys/bus/pci/devices/0000:00:1e.0";
const RUN: &str = "tautline vm run --profile realtime-guest --accel kvm --vcpu-cpus 1 --housekeeping 0 \
    --memory 256M --kernel /guest/kernel --initrd /guest/initramfs --append 'console=ttyS0 panic=-1' \
    --assign 00:1e.0,rombar=0 --serial /serial --output /status.json";

fn wait_until(machine: &Machine, condition: &str) {
    let deadline = Instant::now() + LIMIT;
    while !machine.run(condition).unwrap().success() {
        let said = || machine.must("tail -n 50 /run.err /status.json /serial 2>&1; true");
        assert!(Instant::now() < deadline, "never true: {condition}: {}", said());
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn driver(machine: &Machine) -> String {
    let output = machine.must(&format!("basename $(readlink {NIC}/driver); cat {NIC}/driver_override"));
    output.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn process(machine: &Machine) -> u64 {
    let status: Value = serde_json::from_slice(&machine.pull(Path::new("/status.json")).unwrap()).unwrap();
    assert_eq!(
        (&status["state"], &status["not_done"]),
        (&"running".into(), &Value::Array(vec![])),
        "{status:#}"
    );
    status["process"].as_u64().unwrap()
}

#[test]
fn a_guest_under_kvm_has_its_threads_placed_and_a_device_of_its_own() {
    let machine = Settings::default()
        .program(Path::new(BINARY))
        .arguments(["-device", "e1000e,addr=1e.0"])
        .start()
        .unwrap();
    machine.must("modprobe e1000e && modprobe vfio-pci && modprobe vfio_iommu_type1");
    assert_eq!(driver(&machine), "e1000e (null)");

    let dry = machine.must(&format!("{RUN} --dry-run"));
    assert!(dry.contains("IOMMU group") && dry.contains("0000:00:1e.0 8086:10d3 e1000e"), "{dry}");

    let run = machine.begin(&format!("{RUN} 2>/run.err"), LIMIT).unwrap();
    wait_until(&machine, "grep -q running /status.json");
    let qemu = process(&machine);
    assert_eq!(driver(&machine), "vfio-pci vfio-pci");
    // Name, CPUs, priority and policy: proc(5), fields 40 and 41.
    let threads = machine.must(&format!(
        "for t in /proc/{qemu}/task/*; do echo \"$(cat $t/comm)|$(sed -n 's/^Cpus_allowed_list:.//p' $t/status)|$(sed 's/.*) //' $t/stat | cut -d' ' -f38,39)\"; done"
    ));
    let vcpus = threads.lines().filter(|line| line.starts_with("CPU 0/KVM")).collect::<Vec<_>>();
    assert_eq!(vcpus, ["CPU 0/KVM|1|1 1"], "{threads}");
    for line in threads.lines().filter(|line| !line.starts_with("CPU ")) {
        assert!(line.ends_with("|0|0 0"), "{line} of {threads}");
    }
    let helpers = machine.must("grep -l '^kvm-pit/\\|^kvm-nx-lpage' /proc/[0-9]*/comm || true");
    println!("KVM's helpers: {helpers}");
    let locked = machine.must(&format!("grep VmLck /proc/{qemu}/status"));
    let locked: u64 = locked.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(locked >= 256 << 10, "{locked}");
    // The guest's own kernel sees the card, and drives it where it has the driver.
    wait_until(&machine, "grep -qi '10d3\\|init\\|Run /init' /serial");

    machine.must("kill -INT $(pidof tautline | tr ' ' '\\n' | sort -n | head -n 1)");
    let ended = run.wait().unwrap();
    assert_eq!(ended.status, 130, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(driver(&machine), "e1000e (null)");
    machine.must(&format!("[ ! -e /proc/{qemu} ] && rm /status.json"));

    // Killed: its janitor gives the device back.
    let run = machine.begin(&format!("{RUN} 2>/run.err"), LIMIT).unwrap();
    wait_until(&machine, "grep -q running /status.json");
    machine.must("kill -KILL $(pidof tautline | tr ' ' '\\n' | sort -n | head -n 1)");
    assert!(!run.wait().unwrap().success());
    wait_until(&machine, &format!("[ $(basename $(readlink {NIC}/driver)) = e1000e ]"));
    assert_eq!(driver(&machine), "e1000e (null)");
    machine.must("[ -z \"$(ls /var/lib/tautline/vm)\" ] && rm /status.json");

    // Killed with its janitor: the next command gives it back.
    let run = machine.begin(&format!("{RUN} 2>/run.err"), LIMIT).unwrap();
    wait_until(&machine, "grep -q running /status.json");
    machine.must("kill -KILL $(pidof tautline)");
    assert!(!run.wait().unwrap().success());
    assert_eq!(driver(&machine), "vfio-pci vfio-pci");
    let said = machine.must("tautline vm detach --pid 1");
    assert!(said.contains("driver of PCI device 0000:00:1e.0: e1000e -"), "{said}");
    assert_eq!(driver(&machine), "e1000e (null)");
}
