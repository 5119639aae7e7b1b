//! `tautline host interrupts`: which of a guest's interrupts reach it past the host.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use environment::Janitor;
use host::{Audit, HostTree, Survey, Wishes};
use kvm::interrupts::{GuestInterrupts, HostCounter, Judged, Path as InterruptPath, judge};
use kvm::trace::{self, Times, Tracer};
use linux::interrupt;
use measure::Failure;
use measure::host_facts::HostFacts;
use serde::Serialize;

use crate::cli::host::Interrupts;
use crate::exit::Done;
use crate::output::{self, Sink};
use lab::tracing::Made;

/// The schema of this version's files.
const SCHEMA: &str = "tautline-host-interrupts/1";
/// Between two looks at the guest's threads.
const LOOK: Duration = Duration::from_millis(50);
/// Rules that say which of these paths the host has; what is in use is counted.
const FEATURES: [&str; 3] = ["posted-interrupts", "posted-timers", "gicv4"];

/// What is written.
#[derive(Serialize)]
struct Proof {
    schema: &'static str,
    tautline: &'static str,
    started: String,
    host: HostFacts,
    accelerator: String,
    pid: u32,
    seconds: f64,
    /// What the host has, by its own word; no proof that it is in use.
    features: Vec<Feature>,
    /// Other processes with a guest: their deliveries cannot be told from this one's.
    other_guests: Vec<u32>,
    lines: Vec<Judged>,
    exits: Times,
    /// Events that a histogram had no room for.
    dropped: u64,
}

#[derive(Serialize)]
struct Feature {
    rule: String,
    title: String,
    found: String,
}

/// Runs the command.
pub fn run(arguments: &Interrupts) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    output::catch_interrupts()?;
    let started = time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339)?;
    let tracefs = trace::tracefs()?;
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let janitor = Janitor::start(&binary)?;
    let mut made = Made::by(&janitor);
    let proof = count(&mut made, &tracefs, arguments, started)?;
    drop(made);
    sink.put(|width, _| text(&proof, width), || Ok(serde_json::to_string(&proof)?))?;
    interrupt::check()?;
    Ok(Done::Whole)
}

fn count(made: &mut Made, tracefs: &Path, arguments: &Interrupts, started: String) -> anyhow::Result<Proof> {
    let instance = made.instance(tracefs)?;
    let mut exits = Tracer::new(tracefs, &instance, arguments.pid)?;
    exits.steps().into_iter().try_for_each(|step| made.step(step))?;
    // The host counts a little longer than the guest: what it did not deliver then, it did not deliver.
    let host = HostCounter::start(&made.instance(tracefs)?)?;
    let before = ask_guest(&arguments.guest)?;
    let start = Instant::now();
    let progress = output::progress();
    progress.doing(format!("counting the interrupts of process {}; let its devices work", arguments.pid));
    while start.elapsed() < arguments.time && !interrupt::is_set() && exits.see_threads() {
        std::thread::sleep(LOOK.min(arguments.time.saturating_sub(start.elapsed())));
    }
    let seconds = start.elapsed().as_secs_f64();
    progress.finish();
    let taken = ask_guest(&arguments.guest)?.since(&before);
    let deliveries = host.read()?;
    let exits = exits.read()?;
    let other_guests = other_guests(arguments.pid)?;
    Ok(Proof {
        schema: SCHEMA,
        tautline: env!("CARGO_PKG_VERSION"),
        started,
        host: HostFacts::gather(),
        accelerator: environment::vm::kvm_name(),
        pid: arguments.pid,
        seconds,
        features: features()?,
        lines: judge(&taken, &deliveries, !other_guests.is_empty()),
        other_guests,
        dropped: deliveries.dropped + exits.lost,
        exits,
    })
}

fn ask_guest(command: &str) -> anyhow::Result<GuestInterrupts> {
    let tried = format!("asking the guest: {command}");
    let remedy =
        "give a command that prints the guest's /proc/interrupts, such as ssh GUEST cat /proc/interrupts";
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::new(&tried, error, remedy))?;
    if !output.status.success() {
        return Err(Failure::new(tried, output.status, remedy).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    GuestInterrupts::parse(&text)
        .ok_or_else(|| Failure::new(tried, "that is no /proc/interrupts", remedy).into())
}

/// Processes but one that have a virtual machine open.
fn other_guests(own: u32) -> anyhow::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").context("reading /proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let descriptors = std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let is_guest = descriptors
            .filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok())
            .any(|target| target.to_string_lossy() == "anon_inode:kvm-vm");
        if is_guest && pid != own {
            found.push(pid);
        }
    }
    if !Path::new("/proc").join(own.to_string()).exists() {
        bail!("the guest's process {own} has ended while it was watched; name one that runs");
    }
    Ok(found)
}

fn features() -> anyhow::Result<Vec<Feature>> {
    let tree = HostTree::live();
    let wishes = Wishes {
        profile: host::Profile::RealtimeHost,
        isolate: None,
        guest_memory_mib: None,
        timer_migration: 0,
        watch: Duration::ZERO,
    };
    let findings = Audit::of(&Survey::of(&tree, &wishes)?).findings;
    let wanted = findings.into_iter().filter(|finding| FEATURES.contains(&finding.rule.as_str()));
    Ok(wanted
        .map(|finding| Feature { rule: finding.rule, title: finding.title, found: finding.found })
        .collect())
}

fn text(proof: &Proof, width: usize) -> String {
    let mut text = format!("Process {}, {}: {:.2} s\n\n", proof.pid, proof.accelerator, proof.seconds);
    let _ = writeln!(text, "What the host has, by its own word");
    for feature in &proof.features {
        let _ = writeln!(text, "  {} ({}): {}", feature.title, feature.rule, feature.found);
    }
    let _ = writeln!(text, "\nWhat was counted");
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.clamp(40, 1000) as u16);
    table.set_header(["line", "device", "guest took", "host delivered", "injected", "vector", "path"]);
    let number = |count: Option<u64>| count.map_or("–".to_owned(), |count| count.to_string());
    for line in &proof.lines {
        let vectors: Vec<String> = line.vectors.iter().map(|vector| format!("{vector:#x}")).collect();
        let path = match &line.path {
            InterruptPath::Direct => "direct".to_owned(),
            InterruptPath::Forwarded => "forwarded".into(),
            InterruptPath::Unknown(why) => format!("unknown: {why}"),
        };
        table.add_row([
            report::units::text(&line.line),
            report::units::text(&line.about),
            line.taken.to_string(),
            number(line.delivered),
            number(line.injected),
            vectors.join(" "),
            report::units::text(&path),
        ]);
    }
    for column in table.column_iter_mut().skip(2).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{table}\n");
    let all: u64 = proof.exits.reasons.iter().map(|count| count.count).sum();
    let mut by_reason: Vec<(String, u64)> = Vec::new();
    for count in &proof.exits.reasons {
        match by_reason.iter_mut().find(|(reason, _)| *reason == count.reason) {
            Some((_, sum)) => *sum += count.count,
            None => by_reason.push((count.reason.clone(), count.count)),
        }
    }
    by_reason.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let reasons: Vec<String> =
        by_reason.iter().take(6).map(|(reason, count)| format!("{reason} {count}")).collect();
    let _ = writeln!(text, "{all} exits: {}", reasons.join(", "));
    if !proof.other_guests.is_empty() {
        let others: Vec<String> = proof.other_guests.iter().map(u32::to_string).collect();
        let _ = writeln!(text, "Other guests run (processes {}): end them for a proof", others.join(", "));
    }
    if proof.dropped > 0 {
        let _ = writeln!(text, "{} events were lost", proof.dropped);
    }
    text
}
