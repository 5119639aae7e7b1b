//! `tautline report`: redraw, or compare two runs.

use anyhow::Context;
use measure::Results;

use crate::cli;
use crate::exit::Done;
use crate::{gate, output};

/// Runs the command.
pub fn run(arguments: &cli::Report) -> anyhow::Result<Done> {
    let limits = arguments.gate.as_deref().map(gate::load).transpose()?;
    let runs = arguments.files.iter().map(|file| Results::load(file)).collect::<Result<Vec<_>, _>>()?;
    match &runs[..] {
        [before, after] => {
            output::print(&report::diff::render(before, after, output::width()))?;
            if let Some(path) = &arguments.html {
                std::fs::write(path, report::html::render(&runs))
                    .with_context(|| format!("writing the page to {}", path.display()))?;
            }
            let outcomes = limits.map(|gate| gate.evaluate(after, &measure::compare::analyse(after)));
            for outcome in outcomes.iter().flatten() {
                output::print(&format!("gate: {outcome}\n"))?;
            }
            Ok(if outcomes.iter().flatten().all(gate::held) { Done::Whole } else { Done::GateMissed })
        }
        [run] => {
            let outcomes = output::show(run, arguments.html.as_deref(), limits.as_ref())?;
            Ok(if outcomes.iter().all(gate::held) { Done::Whole } else { Done::GateMissed })
        }
        _ => unreachable!("clap takes one or two files"),
    }
}
