//! `tautline host interrupts`: finds which of a guest's interrupts reach it without the host's software.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use host::{Audit, HostTree, Survey, Wishes};
use kvm::interrupts::{GuestInterrupts, HostCounter, Judged, judge};
use kvm::trace::{self, Times, Tracer};
use linux::interrupt;
use linux::progress::Progress;
use measure::Failure;
use serde::Serialize;

use super::record::Heading;
use crate::Launcher;
use crate::tracing::Made;

/// The schema of this version's files.
const SCHEMA: &str = "tautline-host-interrupts/1";
/// The time between two checks of the guest's threads.
const LOOK: Duration = Duration::from_millis(50);
/// The rules about the paths that the host supports; the paths in use are counted.
const FEATURES: [&str; 3] = ["posted-interrupts", "posted-timers", "gicv4"];

/// The watched guest, and the duration.
pub struct Ask<'a> {
    /// The process that runs the guest.
    pub pid: u32,
    /// How long to count.
    pub time: Duration,
    /// A shell command that prints the guest's `/proc/interrupts`.
    pub guest: &'a str,
    /// Shows the user what is being done.
    pub progress: &'a Progress,
}

/// The results file of `tautline host interrupts`.
#[derive(Serialize)]
pub struct Proof {
    /// Version, start and machine of the run, and the process whose guest was watched.
    #[serde(flatten)]
    pub heading: Heading,
    /// How long was counted, in seconds.
    pub seconds: f64,
    /// Features that the host reports. A reported feature is no proof that it is in use.
    pub features: Vec<Feature>,
    /// Other processes with a guest. Their deliveries cannot be distinguished from those of the watched guest.
    pub other_guests: Vec<u32>,
    /// The guest's interrupts, and the path of each.
    pub lines: Vec<Judged>,
    /// The guest's exits during the count.
    pub exits: Times,
    /// Events that a histogram had no room for.
    pub dropped: u64,
}

/// The result of the audit for one feature.
#[derive(Serialize)]
pub struct Feature {
    /// The rule's id.
    pub rule: String,
    /// The rule's title.
    pub title: String,
    /// The value found.
    pub found: String,
}

/// Counts a guest's interrupts and the host's deliveries of them, and judges the path of each. SIGINT ends it
/// early.
///
/// # Errors
/// The kernel refuses the trace, the guest cannot be asked, its process has ended, or the host's rules cannot be read.
pub fn prove(ask: &Ask<'_>) -> Result<Proof, Failure> {
    let heading = Heading::now(SCHEMA, ask.pid)?;
    let tracefs = trace::tracefs()?;
    let Launcher { janitor, .. } = Launcher::new(Vec::new())?;
    let mut made = Made::by(&janitor);
    count(&mut made, &tracefs, heading, ask)
}

fn count(made: &mut Made, tracefs: &Path, heading: Heading, ask: &Ask<'_>) -> Result<Proof, Failure> {
    let instance = made.instance(tracefs)?;
    let mut exits = Tracer::new(tracefs, &instance, ask.pid)?;
    exits.steps().into_iter().try_for_each(|step| made.step(step))?;
    // The host counts for slightly longer than the guest: interrupts that it did not deliver in that time were never
    // delivered.
    let host = HostCounter::start(&made.instance(tracefs)?)?;
    let before = ask_guest(ask.guest)?;
    let start = Instant::now();
    ask.progress.doing(format!("counting the interrupts of process {}; let its devices work", ask.pid));
    while start.elapsed() < ask.time && !interrupt::is_set() && exits.see_threads() {
        std::thread::sleep(LOOK.min(ask.time.saturating_sub(start.elapsed())));
    }
    let seconds = start.elapsed().as_secs_f64();
    ask.progress.finish();
    let taken = ask_guest(ask.guest)?.since(&before);
    let deliveries = host.read()?;
    let exits = exits.read()?;
    let other_guests = other_guests(ask.pid)?;
    Ok(Proof {
        heading,
        seconds,
        features: features()?,
        lines: judge(&taken, &deliveries, !other_guests.is_empty()),
        other_guests,
        dropped: deliveries.dropped + exits.lost,
        exits,
    })
}

fn ask_guest(command: &str) -> Result<GuestInterrupts, Failure> {
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
        return Err(Failure::new(tried, output.status, remedy));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    GuestInterrupts::parse(&text).ok_or_else(|| Failure::new(tried, "that is no /proc/interrupts", remedy))
}

/// Processes but one that have a virtual machine open.
fn other_guests(own: u32) -> Result<Vec<u32>, Failure> {
    let tried = "looking for other guests";
    let mut found = Vec::new();
    let processes = std::fs::read_dir("/proc").map_err(|error| Failure::new(tried, error, "mount /proc"))?;
    for entry in processes.flatten() {
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
        let answer = format!("the guest's process {own} has ended while it was watched");
        return Err(Failure::new(tried, answer, "name a process that runs"));
    }
    Ok(found)
}

fn features() -> Result<Vec<Feature>, Failure> {
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
