//! `tautline report`: redraw, or compare two runs.

use std::io::IsTerminal;

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
            let color = std::io::stdout().is_terminal();
            output::print(&report::diff::Diff::new(before, after).render(output::width(), color))?;
            let gated = limits.map(|gate| gate.evaluate(after, &measure::compare::analyse(after)));
            let outcomes = gated.unwrap_or_default();
            if let Some(path) = &arguments.html {
                output::write_page(path, &runs, &outcomes)?;
            }
            output::print_gate(&outcomes)?;
            Ok(gate::done(&outcomes))
        }
        [run] => {
            let outcomes = output::show(run, arguments.html.as_deref(), limits.as_ref())?;
            Ok(gate::done(&outcomes))
        }
        _ => unreachable!("clap takes one or two files"),
    }
}
