//! Network paths into a guest under real KVM, and what `tautline kvm path` says of them. One machine for all.
#![cfg(target_arch = "x86_64")] // as the nested machine's CPU

use std::path::Path;
use std::time::{Duration, Instant};

use kvm::events::Selection;
use peers::nested::{Direction, Inner, InnerSettings, Machine, NetworkPath, Settings};

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
const STARTED: &str = "until grep -qs 1 /sys/kernel/tracing/instances/tautline-*/events/exceptions/page_fault_kernel/enable; do sleep 0.05; done";

/// The machine's costs, by which steps are explained.
const COSTS: &str = "--explain --costs /costs.json --bytes 228";

/// What `kvm path` says of what is done meanwhile, explained by these costs, or with no explanation.
fn follow(
    machine: &Machine,
    qemu: u32,
    (followed, costs): (&str, Option<&str>),
    what: &str,
    work: &dyn Fn(),
) -> serde_json::Value {
    let command = format!(
        "tautline kvm path {followed} --pid {qemu} --time 1500ms {} \
         --format json --output /path.json >/path.txt 2>&1",
        costs.unwrap_or_default()
    );
    // Seconds on a machine of its own; what else runs on the host may make an emulated one many times slower.
    let trace = machine.begin(&command, Duration::from_secs(200)).unwrap();
    machine.must(STARTED);
    work();
    trace.wait().unwrap().expect_success();
    let text = machine.must("cat /path.txt");
    let report = serde_json::from_slice(&machine.pull(Path::new("/path.json")).unwrap()).unwrap();
    peers::schema::fits(&report);
    println!("{what} {followed}: {}", in_short(&report));
    match costs {
        Some(_) => is_explained(&report, &text),
        None => assert!(report["explanation"].is_null(), "{report}"),
    }
    report
}

/// The packets, and how many of them took how many steps: what a failure is judged by first.
fn in_short(report: &serde_json::Value) -> String {
    let steps = report["steps"].as_array().map_or(0, Vec::len);
    let variants = report["variants"].as_array().into_iter().flatten();
    let variants: Vec<String> =
        variants.map(|one| format!("{} x {}", one["packets"], one["steps"])).collect();
    format!("{} packets; {} x {steps}; {}", report["packets"], report["alike"], variants.join(", "))
}

/// The parts and the rest are the packet's time; a rest above a fifth is said first.
fn is_explained(report: &serde_json::Value, text: &str) {
    let explanation = &report["explanation"];
    assert_eq!(explanation.is_null(), report["packets"].is_null(), "{report}");
    let Some(parts) = explanation["parts"].as_array() else { return };
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let known: f64 = parts.iter().map(|part| number(&part["count"]) * number(&part["unit_ns"])).sum();
    let (total, rest) = (number(&explanation["total_ns"]), number(&explanation["rest_ns"]));
    assert!((known + rest - total).abs() < 1.0 && total == number(&report["median_ns"]), "{explanation}");
    assert!(parts.len() > 1, "nothing but the copy is known: {explanation}");
    assert_eq!(text.starts_with("Not explained: "), rest.abs() > 0.2 * total, "{explanation}\n{text}");
    assert!(text.contains("the rest: in none of these"), "{text}");
}

/// A path between the machine and a guest in it.
pub struct Followed<'a> {
    pub machine: &'a Machine,
    pub inner: &'a Inner<'a>,
    /// The process id of the guest's QEMU.
    pub qemu: u32,
    pub path: NetworkPath,
    /// The path's name on the page.
    pub name: &'a str,
    pub costs: Option<&'a str>,
}

impl Followed<'_> {
    /// Steps of one direction, while only that direction has traffic: no host answers these pings.
    fn steps(&self, direction: Direction) -> serde_json::Value {
        let Self { machine, inner, qemu, path, name, costs } = *self;
        let pings = path.pings(direction);
        let (prepare, send) = (pings.prepare(), pings.send(30));
        let run = |line: &str| match direction {
            Direction::NetRx => machine.must(line),
            Direction::NetTx => inner.must(line),
        };
        run(&prepare);
        follow(machine, qemu, (direction.name(), costs), name, &|| {
            run(&send);
        })
    }

    /// Packets of both directions take the steps that the page says.
    pub fn is_documented(&self) {
        let page = rows();
        for direction in Direction::BOTH {
            let followed = direction.name();
            let report = self.steps(direction);
            check(self.path, followed, &report, &documented(&page, self.name, followed));
        }
    }
}

/// A path whose back-end is another process, and one that no process is on. [`packets_take_every_path`] follows those
/// whose back-end is QEMU or the kernel.
#[test]
fn packets_take_the_paths_of_another_process_and_of_none() {
    const KINDS: [NetworkPath; 2] = [NetworkPath::VhostUser, NetworkPath::Direct];
    peers::standstill::once_more(|| follow_all(&KINDS));
}

#[test]
#[ignore = "half a minute more: make test-nested-long"]
fn packets_take_every_path() {
    peers::standstill::once_more(|| follow_all(&NetworkPath::ALL));
}

fn follow_all(paths: &[NetworkPath]) {
    let start = Instant::now();
    let machine = Settings::default().program(Path::new(BINARY)).card_to_hand_on().start().unwrap();
    println!("up after {:?}", start.elapsed());
    // Both before there is a guest: an emulated CPU that runs one stands still more often.
    let costs = "tautline kvm costs --samples 20 --format json --output /costs.json";
    machine.run_within(costs, Duration::from_secs(120)).unwrap().expect_success();
    println!("costs after {:?}", start.elapsed());
    crate::nested_events::hold(&machine, Selection::PATHS.events());
    // A disk that takes 3 ms for a request, longer than QEMU needs to go to sleep, and says by an interrupt that it is
    // done.
    machine.must("modprobe null_blk nr_devices=1 gb=1 irqmode=2 completion_nsec=3000000");
    let disk = "-drive file=/dev/nullb0,if=none,id=disk,format=raw,cache=none,aio=native -device virtio-blk-pci,drive=disk";
    let settings = InnerSettings::default().size(1, 384).arguments(disk);
    let inner = machine.guest_on(&NetworkPath::ALL, settings).unwrap();
    println!("guest up after {:?}", start.elapsed());
    for path in NetworkPath::ALL {
        exchange(&machine, &inner, path);
        println!("{} after {:?}", path.name(), start.elapsed());
    }
    let page = rows();
    let qemu = inner.id().unwrap();
    for &path in paths {
        let (name, costs) = (path.name(), Some(COSTS));
        Followed { machine: &machine, inner: &inner, qemu, path, name, costs }.is_documented();
        println!("{} after {:?}", path.name(), start.elapsed());
    }
    let block = follow(&machine, qemu, ("block", Some(COSTS)), "virtio-blk", &|| {
        inner.must("for i in $(seq 20); do dd if=/dev/vda of=/dev/null bs=4k count=1 skip=$i iflag=direct 2>&1 || exit 1; sleep 0.02; done");
    });
    is_documented(&block, "virtio-blk block", &documented(&page, "virtio-blk", "block"));
    assert!(arrows(&block).contains(&"device".into()), "the disk's own time is a step: {block}");
    let interrupt = follow(&machine, qemu, ("interrupt", Some(COSTS)), "timer", &|| {
        inner.must("for i in $(seq 20); do sleep 0.02; done");
    });
    is_documented(&interrupt, "timer interrupt", &documented(&page, "timer", "interrupt"));
    println!("block and interrupt after {:?}", start.elapsed());
    // What the command wrote is drawn again.
    let text = machine.must("tautline report /path.json --html /path.html");
    assert!(text.contains("interrupt"), "{text}");
    assert!(machine.must("cat /path.html").contains("<svg"));
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
fn rows() -> Vec<[String; 3]> {
    let page = include_str!("../../../../docs/paths.md");
    let cells = page.lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells.len() > 4 && cells[2].starts_with('`'));
    let word = |text: &str| text.trim_matches('`').to_owned();
    rows.map(|cells| [word(cells[1]), word(cells[2]), word(cells[3])]).collect()
}

fn documented(rows: &[[String; 3]], path: &str, followed: &str) -> String {
    let row = rows.iter().find(|[of, way, _]| of == path && way == followed);
    row.unwrap_or_else(|| panic!("docs/paths.md has no row for {path} {followed}"))[2].clone()
}

/// How control passes from step to step.
fn arrows(report: &serde_json::Value) -> Vec<String> {
    let steps = report["steps"].as_array().unwrap().iter();
    steps.map(|step| step["arrow"].as_str().unwrap().to_owned()).collect()
}

/// Some of them took the number of steps that the page says.
fn is_documented(report: &serde_json::Value, what: &str, documented: &str) {
    let variants = report["variants"].as_array().unwrap_or_else(|| panic!("{what}: {report}")).iter();
    let mut counts: Vec<u64> = variants.map(|variant| variant["steps"].as_u64().unwrap()).collect();
    counts.push(report["steps"].as_array().unwrap().len() as u64);
    let fits = |count: u64| match documented.strip_suffix('+') {
        Some(least) => count >= least.parse().unwrap(),
        None => count == documented.parse::<u64>().unwrap(),
    };
    assert!(
        report["packets"].as_u64() > Some(2) && counts.into_iter().any(fits),
        "{what}: the page says {documented}; {report}"
    );
}

/// Some packets took the number of steps on the page, and no impossible program is on the path.
fn check(path: NetworkPath, followed: &str, report: &serde_json::Value, documented: &str) {
    let what = format!("{} {followed}: {report}", path.name());
    let packets = report["packets"].as_u64().unwrap_or(0);
    if documented == "0" {
        // Thirty were sent. A stray one of another card may be among what was traced.
        assert!(packets < 4, "{what}");
        return;
    }
    is_documented(report, &what, documented);
    let steps = report["steps"].as_array().unwrap();
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
