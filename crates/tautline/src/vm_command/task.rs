//! `tautline vm task`.

use std::fmt::Write;

use anyhow::Context;
use linux::ivshmem;
use pv_sched::task::{self, Done as TaskDone, Plan};
use pv_sched::{Page, SLOTS};
use serde::Serialize;

use crate::cli::vm::VmTask;
use crate::exit::{self, Done};
use crate::output::{self, Sink};
use linux::duration;

/// The schema of this version's documents.
const SCHEMA: &str = "tautline-vm-task/1";
const _: () = assert!(SLOTS == 32, "as --vcpu has it");

#[derive(Serialize)]
struct Results<'a> {
    schema: &'static str,
    tautline: &'static str,
    interval_ns: u64,
    /// Whether the task told the host.
    says: bool,
    #[serde(flatten)]
    done: &'a TaskDone,
}

/// Runs the task, and reports how late it was.
pub fn run(arguments: &VmTask) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let memory = ivshmem::open().context(
        "opening the page that this guest shares with its host; start it with `tautline vm run --pv-sched`, and this as root",
    )?;
    let page = Page::map(&memory)?;
    output::catch_interrupts()?;
    let plan = Plan {
        interval: arguments.interval,
        runs: (arguments.time.as_nanos() / arguments.interval.as_nanos()).max(1) as u64,
        work: arguments.work,
        vcpu: arguments.vcpu.into(),
        priority: Some(arguments.priority.into()),
        says: !arguments.silent,
    };
    let done = task::run(&page, &plan)?;
    let results = Results {
        schema: SCHEMA,
        tautline: env!("CARGO_PKG_VERSION"),
        interval_ns: plan.interval.as_nanos() as u64,
        says: plan.says,
        done: &done,
    };
    sink.put(|_, _| text(&plan, &done), || Ok(serde_json::to_string(&results)?))?;
    exit::unless_interrupted(Done::Whole)
}

fn text(plan: &Plan, done: &TaskDone) -> String {
    let us = |ns: u64| ns as f64 / 1e3;
    let quantile = |at: f64| us(done.late.quantile_ns(at));
    let mut text = format!(
        "A task due every {}, which {}: from due to running, µs\n\np50 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}, of {} runs\n",
        duration::show(plan.interval),
        if plan.says { "says so to the host" } else { "says nothing" },
        quantile(0.5),
        quantile(0.99),
        quantile(0.999),
        us(done.late.max_ns()),
        done.runs,
    );
    if plan.says {
        let _ = writeln!(text, "the host's clock was known within {:.1} µs", us(done.clock_error_ns));
    }
    if done.skipped > 0 {
        let _ = writeln!(text, "late by whole intervals: it did not run {} times", done.skipped);
    }
    done.remarks.iter().for_each(|remark| _ = writeln!(text, "{remark}"));
    text
}
