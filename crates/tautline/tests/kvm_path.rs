//! Network paths into a guest under real KVM, and what `tautline kvm path` says of them. One machine for all.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::Instant;

use peers::nested::{Inner, InnerSettings, Machine, NetworkPath, Settings};

const BINARY: &str = env!("CARGO_BIN_EXE_tautline");

/// Both ways, with the payload compared by both ends: ping says "wrong data byte" and `request`s that differ are
/// not answered.
fn exchange(machine: &Machine, inner: &Inner, path: NetworkPath) {
    let ping = |to: &str| format!("ping -c 3 -i 0.05 -W 2 -s 200 -p c0ffee {to}");
    let from_guest = inner.must(&ping(&path.machine_address()));
    let to_guest = machine.must(&ping(&path.guest_address()));
    for said in [from_guest, to_guest] {
        assert!(said.contains(" 0% packet loss") && !said.contains("wrong"), "{}: {said}", path.name());
    }
}

/// Until the last of the trace's events is switched on.
const STARTED: &str = "until grep -qs 1 /sys/kernel/tracing/instances/*/events/exceptions/page_fault_kernel/enable; do sleep 0.05; done";

/// Steps of one direction on one path, while that direction alone has traffic: nobody answers these pings.
fn steps(machine: &Machine, inner: &Inner, path: NetworkPath, followed: &str) -> serde_json::Value {
    let qemu = inner.id().unwrap();
    let (network, _) = path.machine_address().rsplit_once('.').map(|(n, _)| (n.to_owned(), ())).unwrap();
    let nobody = format!("{network}.9");
    let ping = format!("ping -c 30 -i 0.02 -W 0.1 {nobody} >/dev/null; true");
    let prepare = |mac: &str| {
        format!(
            "dev=$(ip -o route get {nobody} | sed 's/.* dev \\([^ ]*\\).*/\\1/'); ip neigh replace {nobody} lladdr {mac} dev $dev"
        )
    };
    let command = format!(
        "tautline kvm path {followed} --pid {qemu} --time 1500ms --format json --output /path.json >/path.txt 2>&1"
    );
    if followed == "net-rx" {
        machine.must(&prepare(&path.mac()));
        machine.must(&format!("{command} & trace=$!; {STARTED}; {ping}; wait $trace"));
    } else {
        inner.must(&prepare("52:54:00:00:0f:0f"));
        // Seconds on a machine of its own; what else runs on the host may make an emulated one many times slower.
        let trace = machine.begin(&command, std::time::Duration::from_secs(200)).unwrap();
        machine.must(STARTED);
        inner.must(&ping);
        trace.wait().unwrap().expect_success();
    }
    println!("=== {} {followed}\n{}", path.name(), machine.must("cat /path.txt"));
    serde_json::from_slice(&machine.pull(Path::new("/path.json")).unwrap()).unwrap()
}

/// On a host that is busy with more than this, the nested machine has been seen to stand still for over a minute, for a
/// reason that is not known. That is no answer to what is asked here, so that it is asked once more, and said.
#[test]
fn packets_take_every_path() {
    let Err(panic) = std::panic::catch_unwind(every_path) else { return };
    let said = panic.downcast_ref::<String>().map_or("", String::as_str);
    if !said.contains("TimedOut") && !said.contains("nothing within") {
        std::panic::resume_unwind(panic);
    }
    println!("The nested machine stood still; once more. It said: {said}");
    every_path();
}

fn every_path() {
    let start = Instant::now();
    let machine = Settings::default().program(Path::new(BINARY)).card_to_hand_on().start().unwrap();
    println!("up after {:?}", start.elapsed());
    let mut settings = InnerSettings::default().size(1, 384);
    for path in NetworkPath::ALL {
        machine.prepare(path).unwrap();
        settings = settings.network(path);
    }
    let inner = machine.guest(&settings).unwrap();
    println!("guest up after {:?}", start.elapsed());
    for path in NetworkPath::ALL {
        inner.bring_up(path).unwrap();
        exchange(&machine, &inner, path);
        println!("{} after {:?}", path.name(), start.elapsed());
    }
    let page = documented();
    for path in NetworkPath::ALL {
        for followed in ["net-rx", "net-tx"] {
            let report = steps(&machine, &inner, path, followed);
            println!("{} {followed} after {:?}", path.name(), start.elapsed());
            let steps = page.iter().find(|row| row.0 == path.name() && row.1 == followed);
            check(path, followed, &report, &steps.expect("docs/paths.md has a row for each").2);
        }
    }
    // What the command wrote is drawn again.
    let text = machine.must("tautline report /path.json --html /path.html");
    assert!(text.contains("net-tx"), "{text}");
    assert!(machine.must("cat /path.html").contains("<svg") || text.contains("0 steps"));
    let qemu = inner.id().unwrap();
    let worst = machine.must(&format!("tautline kvm worst --pid {qemu} --time 1s"));
    assert!(worst.contains("latencies") && worst.contains("The worst"), "{worst}");
    machine.must("printf '[[stage]]\\nname = \"wake-up\"\\nmax_us = 0.001\\n' >/budget.toml");
    let missed =
        machine.run(&format!("tautline kvm worst --pid {qemu} --time 1s --budget /budget.toml")).unwrap();
    assert_eq!(missed.status, 3, "{}{}", missed.stdout, missed.stderr);
    machine.must(&format!(
        "tautline kvm worst --pid {qemu} --time 1s --budget /budget.toml --format json --output /worst.json >/dev/null; \
         tautline report /worst.json --html /worst.html && grep -q missed /worst.html"
    ));
}

/// The rows of the page: path, direction, steps as written.
fn documented() -> Vec<(String, String, String)> {
    let page = include_str!("../../../docs/paths.md");
    let cells = page.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells.len() > 4 && cells[2].starts_with('`'));
    let word = |text: &str| text.trim_matches('`').to_owned();
    rows.map(|cells| (word(cells[1]), word(cells[2]), word(cells[3]))).collect()
}

/// Some packets took the number of steps that the page says, and nobody is on the path who cannot be.
fn check(path: NetworkPath, followed: &str, report: &serde_json::Value, documented: &str) {
    let what = format!("{} {followed}: {report}", path.name());
    let packets = report["packets"].as_u64().unwrap_or(0);
    if documented == "0" {
        // Thirty were sent. A stray one of another card may be among what was traced.
        assert!(packets < 4, "{what}");
        return;
    }
    let steps = report["steps"].as_array().unwrap();
    let variants = report["variants"].as_array().unwrap().iter().map(|variant| &variant["steps"]);
    let mut counts: Vec<u64> = variants.map(|count| count.as_u64().unwrap()).collect();
    counts.push(steps.len() as u64);
    let fits = |count: u64| match documented.strip_suffix('+') {
        Some(least) => count >= least.parse().unwrap(),
        None => count == documented.parse::<u64>().unwrap(),
    };
    assert!(packets > 2 && counts.into_iter().any(fits), "the page says {documented}; {what}");
    let is_on = |is: &dyn Fn(&serde_json::Value) -> bool| {
        steps.iter().any(|step| is(&step["from"]) || is(&step["to"]))
    };
    let qemu = is_on(&|place| place["who"] == "QEMU") || is_on(&|place| place["mode"] == "user");
    match path {
        NetworkPath::E1000 | NetworkPath::VirtioQemu | NetworkPath::VhostUser => assert!(qemu, "{what}"),
        NetworkPath::VhostNet | NetworkPath::Macvtap => {
            assert!(is_on(&|place| place["who"] == "vhost"), "{what}");
            assert!(!qemu, "{what}");
        }
        NetworkPath::Direct => assert!(!qemu, "{what}"),
    }
}
