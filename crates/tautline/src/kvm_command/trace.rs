//! `tautline kvm trace`.

use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::Context;
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use environment::Janitor;
use environment::janitor::Leftover;
use kvm::trace::{self, Counter, Exits};
use linux::interrupt;
use serde::Serialize;

use crate::cli::KvmTrace;
use crate::exit::Done;
use crate::output::{self, Sink};

/// The schema of this version's files.
const SCHEMA: &str = "tautline-kvm-trace/1";
/// Between two looks at the guest's threads.
const LOOK: Duration = Duration::from_millis(50);

/// What is written.
#[derive(Serialize)]
struct Trace {
    schema: &'static str,
    tautline: &'static str,
    started: String,
    host: measure::host_facts::HostFacts,
    accelerator: String,
    pid: u32,
    /// How it was counted.
    method: &'static str,
    seconds: f64,
    #[serde(flatten)]
    exits: Exits,
}

/// Runs the command.
pub fn run(arguments: &KvmTrace) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    output::catch_interrupts()?;
    let started = time::OffsetDateTime::now_utc().format(&time::format_description::well_known::Rfc3339)?;
    let tracefs = trace::tracefs()?;
    let binary = std::env::current_exe().context("finding the own binary; is /proc mounted?")?;
    let janitor = Janitor::start(&binary)?;
    let instance = tracefs.join("instances").join(format!("tautline-{}", std::process::id()));
    let leftover = Leftover::TracingInstance(instance.clone());
    janitor.made(&leftover);
    std::fs::create_dir(&instance)
        .with_context(|| format!("making the tracing instance {}; run as root", instance.display()))?;
    let counted = count(&instance, arguments.pid, arguments.time);
    janitor.remove(&leftover);
    let (exits, elapsed) = counted?;
    let trace = Trace {
        schema: SCHEMA,
        tautline: env!("CARGO_PKG_VERSION"),
        started,
        host: measure::host_facts::HostFacts::gather(),
        accelerator: environment::vm::kvm_name(),
        pid: arguments.pid,
        method: "histogram trigger on kvm:kvm_exit in tracefs",
        seconds: elapsed.as_secs_f64(),
        exits,
    };
    sink.put(|_, _| text(&trace), || Ok(serde_json::to_string(&trace)?))?;
    Ok(Done::Whole)
}

fn count(instance: &std::path::Path, pid: u32, limit: Duration) -> anyhow::Result<(Exits, Duration)> {
    let mut counter = Counter::start(instance, pid)?;
    let start = Instant::now();
    let progress = output::progress();
    progress.doing(format!("counting the exits of process {pid}; Ctrl-C ends it"));
    while start.elapsed() < limit && !interrupt::is_set() && counter.see_threads() {
        std::thread::sleep(LOOK.min(limit.saturating_sub(start.elapsed())));
    }
    let elapsed = start.elapsed();
    progress.finish();
    Ok((counter.read()?, elapsed))
}

fn text(trace: &Trace) -> String {
    let mut text = format!(
        "Process {}, {}: exits in {:.2} s, counted by a {}\n\n",
        trace.pid, trace.accelerator, trace.seconds, trace.method
    );
    let counts = &trace.exits.counts;
    let whole: u64 = counts.iter().map(|count| count.count).sum();
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_header(["vCPU", "reason", "exits", "1/s", "share"]);
    for count in counts {
        table.add_row([
            count.vcpu.to_string(),
            count.reason.clone(),
            count.count.to_string(),
            format!("{:.0}", count.count as f64 / trace.seconds),
            format!("{:.1} %", 100.0 * count.count as f64 / whole as f64),
        ]);
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{table}");
    let _ = writeln!(text, "{whole} exits; {} events lost", trace.exits.dropped);
    text
}
