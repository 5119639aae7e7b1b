//! `tautline report`: redraw, or compare two runs.

use measure::Results;
use measure::compare::analyse;
use report::diff::Diff;

use crate::cli;
use crate::exit::Done;
use crate::output::{self, Sink};
use crate::{gate, show};

/// Runs the command.
pub fn run(arguments: &cli::Report) -> anyhow::Result<Done> {
    let gate = gate::load(arguments.gate.as_deref())?;
    let sink = Sink::open(&arguments.results_to)?;
    output::require_writable(arguments.html.as_deref())?;
    let runs = arguments.files.iter().map(|file| Results::load(file)).collect::<Result<Vec<_>, _>>()?;
    let outcomes = match &runs[..] {
        [before, after] => {
            let diff = Diff::new(before, after);
            sink.put(
                |width, color| diff.render(width, color),
                || Ok(serde_json::to_string(&diff.document())?),
            )?;
            let outcomes = gate.map(|gate| gate.evaluate(after, &analyse(after))).unwrap_or_default();
            if let Some(page) = &arguments.html {
                output::write_page(page, &runs, &outcomes)?;
            }
            outcomes
        }
        [run] => show::results(run, &sink, arguments.html.as_deref(), gate.as_ref())?,
        _ => unreachable!("clap takes one or two files"),
    };
    output::print_gate(&sink, &outcomes)?;
    Ok(gate::done(&outcomes))
}
