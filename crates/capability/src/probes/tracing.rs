use std::fs;
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use measure::Failure;

use super::performance_counters::count;
use super::tracefs;
use crate::files::text;
use crate::finding::Finding;
use crate::leftover::Folder;
use crate::sys::{Event, perf_event_open};

/// A tracepoint that this process can make happen.
const TRACEPOINT: &str = "events/sched/sched_switch";
const NAPS: usize = 8;

/// Counts and traces context switches of this process, and counts the kvm tracepoints.
///
/// # Errors
/// tracefs is not found, for the reasons of [`tracefs::find_or_mount`]; or context switches can neither be counted
/// with `perf_event_open` nor traced in an instance.
pub fn run() -> Result<Finding, Failure> {
    let tracefs = tracefs::find_or_mount()?;
    let kvm = kvm_events(&tracefs);
    let counted = perf_count(&tracefs);
    let traced = trace(&tracefs);
    let words = |what: &str, result: &io::Result<usize>| match result {
        Ok(number) => format!("{what}: {number} for {NAPS} naps"),
        Err(error) => format!("{what}: {error}"),
    };
    let detail = format!(
        "sched_switch {}; {}; {}",
        words("counted by perf_event_open", &counted),
        words("traced in an instance of its own", &traced),
        match kvm {
            Some(number) => format!("{number} kvm tracepoints"),
            None => "no kvm tracepoints".into(),
        }
    );
    Ok(match (traced, counted, kvm) {
        (Ok(_), Ok(_), Some(_)) => Finding::proven(detail),
        (Ok(_), Ok(_), None) => Finding::partial(detail, "load the kvm modules to see their tracepoints"),
        (Err(traced), Err(_), _) if text(tracefs.join("available_events")).is_empty() => {
            return Err(Failure::new(detail, traced, "run as root, and use a kernel with CONFIG_FTRACE"));
        }
        (Err(traced), Err(_), _) => {
            return Err(Failure::new(detail, traced, "run as root; a locked-down kernel forbids tracing"));
        }
        _ => Finding::partial(detail, "run as root; a locked-down kernel forbids tracing"),
    })
}

fn kvm_events(tracefs: &Path) -> Option<usize> {
    let events = fs::read_dir(tracefs.join("events/kvm")).ok()?;
    Some(events.flatten().filter(|entry| entry.path().is_dir()).count())
}

/// Makes context switches: every nap leaves the CPU.
fn nap() {
    for _ in 0..NAPS {
        sleep(Duration::from_micros(200));
    }
}

/// Counts with a counter that ends with its descriptor.
fn perf_count(tracefs: &Path) -> io::Result<usize> {
    const TYPE_TRACEPOINT: u32 = 2;
    let id = fs::read_to_string(tracefs.join(TRACEPOINT).join("id"))?;
    let id = id.trim().parse().map_err(io::Error::other)?;
    let counter = perf_event_open(Event { kind: TYPE_TRACEPOINT, config: id, exclude_kernel: false })?;
    nap();
    at_least_the_naps(count(&counter)? as usize)
}

/// Traces this process alone, into an instance that is removed afterwards.
fn trace(tracefs: &Path) -> io::Result<usize> {
    let instance = Folder::create_in(&tracefs.join("instances"))?;
    let file = |name: &str| instance.path().join(name);
    let own_id = std::process::id().to_string();
    fs::write(file("set_event_pid"), &own_id)?;
    fs::write(file(TRACEPOINT).join("enable"), "1")?;
    nap();
    fs::write(file(TRACEPOINT).join("enable"), "0")?;
    let trace = fs::read_to_string(file("trace"))?;
    let leaving = format!("prev_pid={own_id} ");
    let seen = trace.lines().filter(|line| line.contains(&leaving)).count();
    instance.remove()?;
    at_least_the_naps(seen)
}

fn at_least_the_naps(seen: usize) -> io::Result<usize> {
    if seen >= NAPS { Ok(seen) } else { Err(io::Error::other(format!("only {seen} events for {NAPS} naps"))) }
}
