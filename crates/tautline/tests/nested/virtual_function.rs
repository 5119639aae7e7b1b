//! A virtual function of an emulated card (SR-IOV) behind the emulated IOMMU, assigned to a guest under real KVM, in the
//! nested machine: its group is shown, it passes packets, whose steps are followed, and it is given back, also after
//! kill -9.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::Duration;

use kvm::events::Selection;
use measure::Results;
use peers::nested::{FUNCTION, InnerSettings, Machine, NetworkPath, Settings};

use crate::kvm_path::Followed;
use crate::vm::{driver_of, wait_until};

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");
const LIMIT: Duration = Duration::from_secs(90);
/// What starts a guest with the function, beside what it boots.
const OPTIONS: &str = "--profile realtime-guest --accel kvm --vcpu-cpus 1 --housekeeping 0 \
    --assign 01:10.0 --output /status.json";
/// A guest of which nothing is asked.
const BOOT: &str = "--memory 256M --kernel /guest/kernel --initrd /guest/initramfs \
    --append 'console=ttyS0 panic=-1' --serial /serial";

fn machine() -> (Machine, String) {
    let machine = Settings::default().program(Path::new(BINARY)).card_with_functions();
    let programs = ["/usr/bin/nsenter", "/usr/bin/unshare", "/usr/bin/cat"];
    let machine = programs.iter().fold(machine, |machine, program| machine.program(Path::new(program)));
    let machine = machine.start().unwrap();
    machine.must("modprobe vfio-pci && modprobe vfio_iommu_type1");
    let card = machine.make_function();
    assert_eq!(driver_of(&machine, FUNCTION), "igbvf (null)");
    (machine, card)
}

#[test]
#[ignore = "two guests under an emulated KVM, a minute; make test-nested-long"]
fn a_guest_has_a_virtual_function_of_its_own() {
    peers::standstill::once_more(assigned);
}

fn assigned() {
    assert!(OPTIONS.contains(FUNCTION));
    let (machine, card) = machine();
    machine.bring_near_end_up();
    let dry = machine.must(&format!("tautline vm run {OPTIONS} {BOOT} --dry-run"));
    println!("{dry}");
    assert!(dry.contains("IOMMU group") && dry.contains("0000:01:10.0 8086:10ca igbvf"), "{dry}");
    // The card itself is in another group, and stays with the machine.
    assert!(!dry.contains("8086:10c9"), "{dry}");

    let inner = machine.guest(&InnerSettings::default().generic_kernel().vm_run(OPTIONS)).unwrap();
    assert_eq!(driver_of(&machine, FUNCTION), "vfio-pci vfio-pci");
    inner.bring_up(NetworkPath::Direct).unwrap();
    let address = NetworkPath::Direct.machine_address();
    // The function has its carrier; the machine's card at the other end may still wait for its own.
    inner.must(&format!("for i in $(seq 50); do ping -q -c 1 -W 1 {address} && exit; done; exit 1"));
    let pings =
        inner.must(&format!("ping -q -c 10 -i 0.1 -W 20 {address}; grep 'eth0-[rt]x' /proc/interrupts"));
    println!("{pings}");
    assert!(pings.contains(" 10 received") && pings.contains("eth0-rx"), "{pings}");
    // The card itself is still the machine's.
    assert_eq!(machine.must(&format!("cat /sys/class/net/{card}/carrier")), "1\n");
    machine.must(&format!("kill -INT {}", inner.id().unwrap()));
    let ended = inner.wait().unwrap();
    assert_eq!(ended.status, 130, "{}{}", ended.stdout, ended.stderr);
    assert_eq!(driver_of(&machine, FUNCTION), "igbvf (null)");

    // Killed: its janitor gives the function back.
    machine.must("rm /status.json");
    let run = machine.begin(&format!("tautline vm run {OPTIONS} {BOOT} 2>/run.err"), LIMIT).unwrap();
    wait_until(&machine, "grep -q running /status.json");
    assert_eq!(driver_of(&machine, FUNCTION), "vfio-pci vfio-pci");
    machine.must("kill -KILL $(pidof tautline | tr ' ' '\\n' | sort -n | head -n 1)");
    assert!(!run.wait().unwrap().success());
    let driver = format!("/sys/bus/pci/devices/0000:{FUNCTION}/driver");
    wait_until(&machine, &format!("[ $(basename $(readlink {driver})) = igbvf ]"));
    assert_eq!(driver_of(&machine, FUNCTION), "igbvf (null)");
    machine.must("[ -z \"$(ls /var/lib/tautline/vm)\" ]");
}

#[test]
#[ignore = "one more guest under an emulated KVM; make test-nested-long"]
fn the_path_of_an_assigned_card_takes_a_virtual_function() {
    peers::standstill::once_more(measured);
}

fn measured() {
    let (machine, _) = machine();
    let far = machine.near_interface();
    let line = format!(
        "tautline compare --quick --blocks 1 --trial 500ms --verify-payload --timeout 30s --tables \
         --environments host,vm:accel=kvm,kernel=/guest/generic/kernel,memory=256 --assign {FUNCTION} --assign-far {far} \
         --only net.guest_vfio_wire.udp_rr.64,net.guest_vfio_wire.udp_stream.1472 --output /net.json"
    );
    let output = machine.watch_guests(|| machine.run_within(&line, 3 * LIMIT).unwrap());
    println!("{}", output.stdout);
    assert!(output.success(), "{}{}", output.stdout, output.stderr);
    let results: Results = serde_json::from_slice(&machine.pull(Path::new("/net.json")).unwrap()).unwrap();
    assert!(results.absences.is_empty(), "{:?}", results.absences);
    for flow in &results.network.flows {
        let trial = results.network.trials.iter().find(|trial| trial.metric == flow.metric && trial.counts);
        let trial = trial.unwrap_or_else(|| panic!("no trial of {}", flow.metric));
        assert!(trial.received > 0 && trial.sent == trial.received + trial.lost, "{trial:?}");
    }
    assert_eq!(driver_of(&machine, FUNCTION), "igbvf (null)");
    assert_eq!(machine.near_interface(), far);
}

#[test]
#[ignore = "one more guest under an emulated KVM; make test-nested-long"]
fn packets_take_the_path_of_a_virtual_function() {
    peers::standstill::once_more(followed);
}

fn followed() {
    let (machine, _) = machine();
    machine.bring_near_end_up();
    crate::nested_events::hold(&machine, Selection::PATHS.events());
    let inner = machine.guest(&InnerSettings::default().generic_kernel().vm_run(OPTIONS)).unwrap();
    inner.bring_up(NetworkPath::Direct).unwrap();
    let address = NetworkPath::Direct.machine_address();
    inner.must(&format!("for i in $(seq 50); do ping -q -c 1 -W 1 {address} && exit; done; exit 1"));
    let qemu = machine.must("pidof qemu-system-x86_64").trim().parse().unwrap();
    let (path, name) = (NetworkPath::Direct, "direct-vf");
    Followed { machine: &machine, inner: &inner, qemu, path, name, costs: None }.is_documented();
}
