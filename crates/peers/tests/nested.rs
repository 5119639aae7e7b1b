//! The nested machine: KVM in it is real, and it is gone when it is dropped.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use peers::nested::{InnerSettings, Machine, Settings};

/// How often a KVM tracepoint has fired, as tracefs counts without keeping the events.
fn exits(machine: &Machine) -> u64 {
    let text = machine.must("cat /sys/kernel/tracing/events/kvm/kvm_exit/hist");
    let total = text.lines().find_map(|line| line.trim().strip_prefix("Hits: "));
    total.and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count in {text}"))
}

#[test]
fn kvm_is_real_and_all_is_gone_at_the_end() {
    let start = Instant::now();
    let machine = Settings::default().program(Path::new("/bin/ls")).start().unwrap();
    println!("up after {:?}", start.elapsed());
    assert!(machine.must("lsmod").contains("kvm_amd"));

    // Files of any bytes, both ways; a program of the host with its libraries.
    let content: Vec<u8> = (0..3_000_000u32).map(|number| ((number * 7) >> 3) as u8).collect();
    machine.push(&content, Path::new("/data/with a space")).unwrap();
    assert!(machine.pull(Path::new("/data/with a space")).unwrap() == content);
    assert!(machine.pull(Path::new("/no/such/file")).unwrap_err().to_string().contains("/no/such/file"));
    assert!(machine.must("ls --version").contains("coreutils"));

    let refused = machine.guest(&InnerSettings::default().arguments("-no-such-option"));
    let error = refused.err().expect("QEMU knows no such option").to_string();
    assert!(error.contains("no-such-option"), "{error}");

    machine.must("echo 'hist:keys=exit_reason' >/sys/kernel/tracing/events/kvm/kvm_exit/trigger");
    assert_eq!(exits(&machine), 0);
    let inner = machine.guest(&InnerSettings::default()).unwrap();
    println!("guest within up after {:?}", start.elapsed());
    assert!(inner.must("cat /proc/cpuinfo; uname -r").contains("hypervisor"));
    assert!(inner.must("dmesg").contains("KVM"), "the guest within runs under KVM");
    let before = exits(&machine);
    inner.must("true");
    let after = exits(&machine);
    println!("{before} exits, {after} after a command");
    assert!(0 < before && before < after);
    let qemu = inner.id().unwrap();
    drop(inner);
    assert!(!machine.run(&format!("test -e /proc/{qemu}")).unwrap().success());

    let (id, folder) = (machine.id(), machine.folder().to_owned());
    drop(machine);
    assert!(!Path::new(&format!("/proc/{id}")).exists());
    assert!(!folder.exists());
    println!("{:?} in all", start.elapsed());
}

#[test]
fn machines_go_on_from_one_boot_and_none_changes_it() {
    let seconds = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let boots = [1, 2].map(|round| {
        let before = seconds();
        let machine = Settings::default().start().unwrap();
        let clock: u64 = machine.must("date +%s").trim().parse().unwrap();
        assert!((before..=seconds()).contains(&clock), "its clock is that of the host");
        assert!(!machine.run("test -e /left-behind").unwrap().success(), "start {round}");
        machine.must("echo mine >/left-behind; sync");
        // To the microsecond.
        machine.must("dmesg | head -n 100")
    });
    assert_eq!(boots[0], boots[1]);
}

/// With the counting clock a boot takes the same time, by the machine's own clock, whatever the host does.
#[test]
#[ignore = "two boots of a minute each: for those who change the machine"]
fn counted_instructions_repeat() {
    let boot = || -> f64 {
        let settings = Settings::default().size(1, 2048).clock(peers::nested::Clock::Instructions);
        let machine = settings.start().unwrap();
        let up = machine.run_within("cut -d' ' -f1 /proc/uptime", Duration::from_secs(60)).unwrap();
        up.stdout.trim().parse().unwrap()
    };
    let [first, second] = [boot(), boot()];
    println!("{first} s and {second} s");
    assert!((first - second).abs() / first < 0.05, "{first} s and {second} s");
}
