//! `tautline kvm costs`.

use std::path::Path;

use kvm::costs::Settings;
use lab::traced::costs;
use tables::kvm::costs::{page, text};

use crate::cli::KvmCosts;
use crate::cpu_list;
use crate::exit::{self, Done, Usage};
use crate::output::{self, Sink};

/// Runs the command.
pub fn run(arguments: &KvmCosts) -> anyhow::Result<Done> {
    let sink = Sink::open(&arguments.results_to)?;
    let settings = Settings { samples: arguments.samples as usize, cpus: cpus(arguments)? };
    output::catch_interrupts()?;
    let costs = costs::measure(&settings, &output::progress()).map_err(exit::early)?;
    sink.put(|width, _| text(&costs, width), || Ok(serde_json::to_string(&costs)?))?;
    exit::unless_interrupted(Done::Whole)
}

/// The CPUs that the user named, or the first two. One that works for both sides would measure its scheduler.
fn cpus(arguments: &KvmCosts) -> anyhow::Result<[usize; 2]> {
    let cpus = cpu_list::read("--cpus", arguments.cpus.as_deref())?;
    match cpus[..] {
        [first, second, ..] if arguments.cpus.is_none() || cpus.len() == 2 => Ok([first, second]),
        _ => Err(Usage(format!("two CPUs are needed, not {}; name them with --cpus", cpus.len())).into()),
    }
}

/// Renders a results file again, as text and as a page.
pub fn show(file: &Path, sink: &Sink, html: Option<&Path>) -> anyhow::Result<Done> {
    crate::show::redraw(file, "kvm costs", sink, html, text, page)
}
