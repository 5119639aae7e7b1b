//! `tautline kvm path`.

use std::path::Path;

use anyhow::Context;
use kvm::path::Traffic;
use lab::traced::path;
use tables::kvm::path::{page, text};

use crate::cli::{Followed, KvmPath};
use crate::exit::{self, Done, Usage};
use crate::output::{self, Sink};

/// Runs the command.
pub fn run(arguments: &KvmPath) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let costs = arguments.costs.as_deref().map(read_costs).transpose()?;
    output::catch_interrupts()?;
    let followed = match arguments.followed {
        Followed::NetRx => Traffic::NetRx,
        Followed::NetTx => Traffic::NetTx,
        Followed::Interrupt => Traffic::Interrupt,
        Followed::Block => Traffic::Block,
    };
    let costs = costs.as_ref().filter(|_| arguments.explain);
    let explain = costs.map(|costs| (costs, arguments.bytes as usize));
    let report = path::measure((arguments.pid, arguments.time), followed, explain, &output::progress())?;
    sink.put(|_, _| text(&report), || Ok(serde_json::to_string(&report)?))?;
    exit::unless_interrupted(Done::Whole)
}

fn read_costs(file: &Path) -> anyhow::Result<kvm::costs::Costs> {
    let text = std::fs::read(file).with_context(|| {
        format!("reading {}; give a file that `kvm costs --output FILE.json` wrote", file.display())
    })?;
    serde_json::from_slice(&text)
        .map_err(|error| Usage(format!("{}: not a file of `kvm costs`: {error}", file.display())).into())
}

/// Renders a results file again, as text and as a page.
pub fn show(file: &Path, sink: &Sink, html: Option<&Path>) -> anyhow::Result<Done> {
    crate::show::redraw(file, "kvm path", sink, html, |report, _| text(report), page)
}
