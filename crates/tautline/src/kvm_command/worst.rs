//! `tautline kvm worst`.

use std::path::Path;

use anyhow::Context;
use kvm::events::Target;
use kvm::worst::{Budget, Checked, Watched};
use lab::traced::Heading;
use lab::traced::worst::{self, Report, SCHEMA, Watch};
use tables::kvm::worst::{page, text};

use crate::cli::{KvmWorst, WatchedLatency};
use crate::exit::{self, Done, Usage};
use crate::output::{self, Sink};

/// Runs the command.
pub fn run(arguments: &KvmWorst) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let budget = arguments.budget.as_deref().map(read).transpose()?;
    output::catch_interrupts()?;
    let heading = Heading::now(SCHEMA, arguments.pid)?;
    let target = Target::find(arguments.pid)?;
    let watched = match arguments.watch {
        WatchedLatency::WakeUp => Watched::WakeUp,
        WatchedLatency::Interrupt => Watched::Interrupt,
        WatchedLatency::UserSpace => Watched::UserSpace,
    };
    let guest = arguments.guest.as_deref();
    if watched == Watched::UserSpace && guest.is_none() {
        let remedy = "name its agent's socket by --guest";
        return Err(
            Usage(format!("--watch user-space: the guest alone knows its user space; {remedy}")).into()
        );
    }
    let found = worst::follow(&Watch {
        target: &target,
        watched,
        time: arguments.time,
        guest,
        progress: &output::progress(),
        remark: &output::remark,
    })?;
    let limits: Vec<Checked> = budget.map_or_else(Vec::new, |budget| {
        let check = |stage: &Watched| budget.check(*stage, found.of(*stage).histogram());
        Watched::ALL.iter().flat_map(check).collect()
    });
    let report = Report::new(heading, watched, &found, limits);
    sink.put(|_, _| text(&report), || Ok(serde_json::to_string(&report)?))?;
    exit::unless_interrupted(if report.holds() { Done::Whole } else { Done::ThresholdExceeded })
}

fn read(file: &Path) -> anyhow::Result<Budget> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("reading the budget {}", file.display()))?;
    toml::from_str(&text).map_err(|error| Usage(format!("{}: {error}", file.display())).into())
}

/// Renders a results file again, as text and as a page.
pub fn show(file: &Path, sink: &Sink, html: Option<&Path>) -> anyhow::Result<Done> {
    crate::show::redraw(file, "kvm worst", sink, html, |report, _| text(report), page)
}
