//! `tautline vm run` under real KVM, in the nested machine: threads read back from its `/proc`, and a device behind its
//! emulated IOMMU handed on, used and given back, also after kill -9. One boot for all of it, in the newer QEMU: the
//! machine stands still there less often (docs/nested.md).
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::{Duration, Instant};

use peers::nested::{HANDED_ON, Inner, InnerSettings, Machine, NetworkPath, Settings};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
const LIMIT: Duration = Duration::from_secs(90);
/// What starts a guest with a device of its own, beside what it boots.
const OPTIONS: &str = "--profile realtime-guest --accel kvm --vcpu-cpus 1 --housekeeping 0 \
    --assign 00:06.0,rombar=0 --output /status.json";

/// The same with a guest of which nothing is asked.
fn command() -> String {
    format!(
        "tautline vm run {OPTIONS} --memory 256M --kernel /guest/kernel --initrd /guest/initramfs \
         --append 'console=ttyS0 panic=-1' --serial /serial"
    )
}

pub fn wait_until(machine: &Machine, condition: &str) {
    let deadline = Instant::now() + LIMIT;
    while !machine.run(condition).unwrap().success() {
        let said = || machine.must("tail -n 50 /run.err /status.json /serial 2>&1; true");
        assert!(Instant::now() < deadline, "never true: {condition}: {}", said());
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The driver of a PCI device, and the driver that it may have alone.
pub fn driver_of(machine: &Machine, device: &str) -> String {
    let nic = format!("/sys/bus/pci/devices/0000:{device}");
    let output = machine.must(&format!("basename $(readlink {nic}/driver); cat {nic}/driver_override"));
    output.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn driver(machine: &Machine) -> String {
    driver_of(machine, HANDED_ON)
}

fn process(machine: &Machine) -> u64 {
    let status: Value = serde_json::from_slice(&machine.pull(Path::new("/status.json")).unwrap()).unwrap();
    peers::schema::fits(&status);
    assert_eq!(
        (&status["state"], &status["not_done"]),
        (&"running".into(), &Value::Array(vec![])),
        "{status:#}"
    );
    status["process"].as_u64().unwrap()
}

#[test]
fn a_guest_under_kvm_has_its_threads_placed_and_a_device_of_its_own() {
    peers::standstill::once_more(guest_under_kvm);
}

const ICMP_COUNTERS: &str = "grep ^Icmp: /proc/net/snmp";

/// A counter by its name: one line of names, one of values.
fn icmp(counters: &str, name: &str) -> u64 {
    let mut lines = counters.lines().map(str::split_whitespace);
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let (_, value) = names.zip(values).find(|(of, _)| *of == name).unwrap();
    value.parse().unwrap()
}

/// Packets out and in, none lost, and at least one interrupt for each that is alone on its way.
///
/// QEMU's e1000e may raise no interrupt for a packet. Its driver has the card raise one every two seconds, so the reply
/// comes late, but by an interrupt.
fn uses_the_card(machine: &Machine, inner: &Inner) {
    const PINGS: u64 = 6;
    inner.bring_up(NetworkPath::Direct).unwrap();
    let address = NetworkPath::Direct.machine_address();
    // The guest's card has its carrier; the machine's, at the other end, may still wait for its own.
    inner.must(&format!("for i in $(seq 50); do ping -q -c 1 -W 1 {address} && exit; done; exit 1"));
    let interrupts = || -> u64 {
        let counts = inner.must("grep -- '-[rt]x-' /proc/interrupts");
        counts.lines().map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum()
    };
    let echoes =
        || (icmp(&machine.must(ICMP_COUNTERS), "InEchos"), icmp(&inner.must(ICMP_COUNTERS), "InEchoReps"));
    let (asked, answered) = echoes();
    for ping in 1..=PINGS {
        let before = interrupts();
        inner.must(&format!("ping -q -c 1 -W 20 {address}"));
        let (whole, begin) = ((asked + ping, answered + ping), Instant::now());
        while echoes() != whole {
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?} instead of {whole:?}", echoes());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(
            interrupts() > before,
            "no interrupt for ping {ping}: {}",
            inner.must("cat /proc/interrupts")
        );
    }
}

fn guest_under_kvm() {
    assert!(OPTIONS.contains(HANDED_ON));
    let machine = Settings::default().program(Path::new(BINARY)).card_to_hand_on().start().unwrap();
    machine.must("modprobe vfio-pci && modprobe vfio_iommu_type1");
    machine.bring_near_end_up();
    assert_eq!(driver(&machine), "e1000e (null)");

    let dry = machine.must(&format!("{} --dry-run", command()));
    assert!(dry.contains("IOMMU group") && dry.contains("0000:00:06.0 8086:10d3 e1000e"), "{dry}");

    let inner = machine.guest(&InnerSettings::default().generic_kernel().vm_run(OPTIONS)).unwrap();
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
    uses_the_card(&machine, &inner);

    machine.must(&format!("kill -INT {}", inner.id().unwrap()));
    let ended = inner.wait().unwrap();
    assert_eq!(ended.status, 130, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(driver(&machine), "e1000e (null)");
    machine.must(&format!("[ ! -e /proc/{qemu} ] && rm /status.json"));

    // Killed: its janitor gives the device back.
    let run = machine.begin(&format!("{} 2>/run.err", command()), LIMIT).unwrap();
    wait_until(&machine, "grep -q running /status.json");
    machine.must("kill -KILL $(pidof tautline | tr ' ' '\\n' | sort -n | head -n 1)");
    assert!(!run.wait().unwrap().success());
    wait_until(
        &machine,
        &format!("[ $(basename $(readlink /sys/bus/pci/devices/0000:{HANDED_ON}/driver)) = e1000e ]"),
    );
    assert_eq!(driver(&machine), "e1000e (null)");
    machine.must("[ -z \"$(ls /var/lib/tautline/vm)\" ] && rm /status.json");

    // Killed with its janitor: the next command gives it back.
    let run = machine.begin(&format!("{} 2>/run.err", command()), LIMIT).unwrap();
    wait_until(&machine, "grep -q running /status.json");
    machine.must("kill -KILL $(pidof tautline)");
    assert!(!run.wait().unwrap().success());
    assert_eq!(driver(&machine), "vfio-pci vfio-pci");
    let said = machine.must("tautline vm detach --pid 1");
    assert!(said.contains("driver of PCI device 0000:00:06.0: e1000e -"), "{said}");
    assert_eq!(driver(&machine), "e1000e (null)");
}
