//! Results of `compare`, as they are shown after a run and when they are redrawn.

use std::path::Path;

use measure::Results;
use measure::compare::analyse;
use report::gate::{Gate, GateOutcome};

use crate::output::{self, Sink};

/// Puts out the results, writes the page, evaluates the gate.
pub fn results(
    results: &Results,
    sink: &Sink,
    html: Option<&Path>,
    gate: Option<&Gate>,
) -> anyhow::Result<Vec<GateOutcome>> {
    let analysis = analyse(results);
    let outcomes = gate.map(|gate| gate.evaluate(results, &analysis)).unwrap_or_default();
    sink.put(
        |width, color| report::terminal::render(results, &analysis, width, color),
        || Ok(serde_json::to_string(results)?),
    )?;
    if let Some(page) = html {
        output::write_page(page, std::slice::from_ref(results), &outcomes)?;
    }
    Ok(outcomes)
}
