//! The arm64 machine: KVM in it is real, with the kernel at EL2 and at EL1.

#[path = "arm/costs.rs"]
mod costs;
#[path = "arm/guest_within.rs"]
mod guest_within;
#[path = "arm/known.rs"]
mod known;
#[path = "arm/path.rs"]
mod path;
#[path = "arm/shell.rs"]
mod shell;
#[path = "arm/worst.rs"]
mod worst;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use peers::nested::{ArmMachine, ArmSettings, Clock, Gic, KvmMode};

/// The limit of a command: the CPU is emulated.
const LIMIT: Duration = Duration::from_secs(300);

/// The folder of the programs for arm64, which are built unless they are there.
fn programs() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/arm-programs.sh");
    let output = peers::run(&mut Command::new(script), Duration::from_secs(540)).unwrap();
    PathBuf::from(output.expect_success().trim())
}

/// The static program for arm64 that `TAUTLINE_ARM64` names, by the name `tautline` in this folder.
fn given(folder: &Path) -> Option<PathBuf> {
    let program = folder.join("tautline");
    std::fs::copy(std::env::var_os("TAUTLINE_ARM64")?, &program).unwrap();
    Some(program)
}

/// Builds a VMM of one page, with a guest of seven instructions, for arm64.
fn vmm(folder: &Path) -> PathBuf {
    let program = folder.join("guest");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/arm/guest.c");
    let mut command = Command::new("aarch64-linux-gnu-gcc");
    let built = command.args(["-O1", "-Wall", "-Werror", "-static", "-o"]).arg(&program).arg(source).status();
    assert!(built.expect("scripts/setup.sh test installs a compiler for arm64").success());
    program
}

/// Whether the kernel says that KVM runs in this mode, and a guest runs to its end.
fn runs_a_guest(machine: &ArmMachine, mode: KvmMode) {
    let said = machine.must("dmesg | grep 'mode initialized'");
    let words = match mode {
        KvmMode::Vhe => "]: VHE mode",
        KvmMode::Nvhe => "]: Hyp nVHE mode",
    };
    assert!(said.contains(words), "{said}");
    let devices = machine.must("dmesg | grep -E 'GICv3: .* SPIs|ITS@|arm-smmu-v3'");
    assert!(devices.contains("SPIs") && devices.contains("ITS@") && devices.contains("smmu"), "{devices}");
    machine.must("echo 1 >/sys/kernel/tracing/events/kvm/kvm_exit/enable");
    assert_eq!(machine.must("guest"), "PSCI 1.1\noff\n");
    let exits = machine.must("cat /sys/kernel/tracing/trace");
    // The exception classes of Arm's architecture: a hypercall, and a data abort at an address without memory.
    for class in ["HVC64", "DABT_LOW"] {
        assert!(exits.contains(class), "no {class} of the guest in {exits}");
    }
}

/// `tautline host audit` says in which mode the host's kernel runs.
fn audit_names_the_mode(machine: &ArmMachine, mode: KvmMode) {
    let line = "tautline host audit --watch 0s --format json";
    let output = machine.run_within(line, LIMIT).unwrap();
    assert!(output.success(), "{line}: {}\n{}\n{}", output.status, output.stdout, output.stderr);
    let findings = output.stdout;
    let vhe = findings.split("\"rule\":").find(|finding| finding.contains("\"vhe\"")).unwrap_or_default();
    let words = match mode {
        KvmMode::Vhe => "VHE: the host kernel runs at EL2",
        KvmMode::Nvhe => "nVHE: the host kernel runs at EL1",
    };
    assert!(vhe.contains(words), "{mode:?}: {vhe}");
}

#[test]
fn kvm_runs_guests_with_vhe_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let built = programs();
    let programs = [vmm(folder.path()), built.join("tautline"), built.join("examples/known_guest")];
    let settings = programs.iter().fold(ArmSettings::default(), |settings, file| settings.program(file));
    let [vhe, nvhe] = std::thread::scope(|scope| {
        let machines = [KvmMode::Vhe, KvmMode::Nvhe].map(|mode| {
            // By instructions, so that neither host nor tests beside this one change what the kernel accounts.
            let settings = settings.clone().mode(mode).clock(Clock::Instructions);
            let settings = if mode == KvmMode::Vhe { settings.guest_within() } else { settings };
            scope.spawn(move || {
                let start = Instant::now();
                let machine = settings.start().unwrap();
                println!("{mode:?}: up after {:?}", start.elapsed());
                let costs = costs::measured(&machine);
                println!("{mode:?}: exits were timed after {:?}", start.elapsed());
                audit_names_the_mode(&machine, mode);
                println!("{mode:?}: the host was audited after {:?}", start.elapsed());
                runs_a_guest(&machine, mode);
                println!("{mode:?}: a guest ran after {:?}", start.elapsed());
                known::exits_are_counted(&machine);
                println!("{mode:?}: exits were counted after {:?}", start.elapsed());
                known::time_is_accounted(&machine);
                println!("{mode:?}: time was accounted after {:?}", start.elapsed());
                if mode == KvmMode::Vhe {
                    path::packets_are_followed(&machine);
                }
                println!("{mode:?}: in all {:?}", start.elapsed());
                costs
            })
        });
        machines.map(|machine| machine.join().unwrap())
    });
    costs::compare(&vhe, &nvhe);
}

/// GICv2 and GICv4.0 beside the GICv3 of the other tests. QEMU 10 emulates no GICv4.1.
#[test]
#[ignore = "two boots more: make test-nested-long"]
fn kvm_runs_guests_on_other_interrupt_controllers() {
    let folder = tempfile::tempdir().unwrap();
    let program = vmm(folder.path());
    let said_by_kvm = [(Gic::V2, "GICv2m", "GICv2"), (Gic::V4, "GICv4 support enabled", "GICv3")];
    for (gic, words, of_guest) in said_by_kvm {
        let machine = ArmSettings::default().gic(gic).guest_within().program(&program).start().unwrap();
        let said = machine.must("dmesg | grep -E 'kvm \\[|GICv2m'");
        assert!(said.contains(words), "{gic:?}: {said}");
        assert_eq!(machine.must("guest"), "PSCI 1.1\noff\n");
        let guest = guest_within::Guest::start(&machine, "virtio-net-pci,romfile=", "on");
        let pings = machine.must("ping -c 20 -i 0.1 -W 5 10.0.0.2");
        println!("{gic:?}: {}\n{pings}", guest.interrupt_controller(&machine));
        assert_eq!(guest.interrupt_controller(&machine), of_guest, "{gic:?}");
        assert!(pings.contains(" 0% packet loss"), "{pings}");
        guest.end(&machine);
    }
}

#[test]
#[ignore = "a boot more: make test-nested-long"]
fn kvm_worst_names_what_was_planted() {
    let folder = tempfile::tempdir().unwrap();
    let program = given(folder.path()).unwrap_or_else(|| programs().join("tautline"));
    let machine = ArmSettings::default().guest_within().program(&program).start().unwrap();
    worst::a_planted_cause_is_named(&machine);
}

/// A switch, and for some seconds a generator at both of its ports; what the switch counted is printed at its end.
const SWITCH: &str = "tautline switch --port a=vhost-user:/tmp/a --port b=vhost-user:/tmp/b >/tmp/switch 2>&1 & \
    switch=$!; until [ -S /tmp/b ]; do sleep 0.1; done; \
    timeout -s INT 15 tautline rfc2544 --from virtio-user:/tmp/a --to virtio-user:/tmp/b --sizes 64 --quick \
    --search maximum >/tmp/rates 2>&1; kill $switch; wait $switch; cat /tmp/switch";

/// The machine beside a guest in it under KVM, which boots the program.
const BESIDE_A_GUEST: &str = "tautline compare --quick --only os --blocks 1 --tables --output /vm.json \
    --environments host,vm:accel=kvm,kernel=/guest/kernel,memory=512";

/// The program in `TAUTLINE_ARM64`, which is static and for arm64, measures, audits and switches in both machines.
#[test]
#[ignore = "takes a program for arm64 in TAUTLINE_ARM64; scripts/dist-test.sh builds and names one"]
fn the_program_runs_in_both() {
    let folder = tempfile::tempdir().unwrap();
    let program = given(folder.path()).expect("TAUTLINE_ARM64: a static tautline for arm64");
    for mode in [KvmMode::Vhe, KvmMode::Nvhe] {
        let settings = ArmSettings::default().mode(mode).program(&program);
        let settings = if mode == KvmMode::Vhe { settings.guest_within() } else { settings };
        let machine = settings.start().unwrap();
        let run = |line: &str| {
            let output = machine.run_within(line, LIMIT).unwrap();
            assert!(output.success(), "{line}: {}\n{}\n{}", output.status, output.stdout, output.stderr);
            output.stdout
        };
        audit_names_the_mode(&machine, mode);
        println!("{:?}", costs::medians(&run("tautline kvm costs --samples 100 --format json")));
        println!("{}", run("tautline compare --quick --only os --blocks 1 --environments host --tables"));
        if mode == KvmMode::Vhe {
            println!("{}", run(BESIDE_A_GUEST));
            guest_within::is_measured_and_marked(&machine.must("cat /vm.json"));
        }
        let switched = run(SWITCH);
        println!("{mode:?}\n{switched}");
        let frames = switched.lines().filter(|line| line.trim().starts_with("to guest"));
        let most = frames.filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok()).max();
        assert!(most.is_some_and(|frames| frames > 100), "{most:?} frames");
    }
}
