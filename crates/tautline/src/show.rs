//! Results as they are shown after a run and when they are redrawn.

use std::path::Path;

use anyhow::Context;
use measure::Results;
use measure::compare::analyse;
use report::gate::{Gate, GateOutcome};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::Done;
use crate::output::{self, Sink};

/// How much of a `compare` run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The summary, in one screen.
    Screen,
    /// All figures.
    Tables,
}

/// Writes the results of `compare` and the page, and evaluates the gate. A text file has all figures.
pub fn results(
    results: &Results,
    shown: Shown,
    sink: &Sink,
    html: Option<&Path>,
    gate: Option<&Gate>,
) -> anyhow::Result<Vec<GateOutcome>> {
    let analysis = analyse(results);
    let outcomes = gate.map(|gate| gate.evaluate(results, &analysis)).unwrap_or_default();
    sink.put_short(
        |width, color| match shown {
            Shown::Screen => report::screen::render(results, &analysis, width, color),
            Shown::Tables => report::terminal::render(results, &analysis, width, color),
        },
        |width| report::terminal::render(results, &analysis, width, false),
        || Ok(serde_json::to_string(results)?),
    )?;
    if let Some(page) = html {
        output::write_page(page, std::slice::from_ref(results), &outcomes)?;
    }
    Ok(outcomes)
}

/// Whether a file is of this schema, of any version; `kind` is the schema that it names.
pub fn is_of(kind: &Option<String>, known: &str) -> bool {
    kind.as_deref().is_some_and(|kind| kind.split('/').next() == known.split('/').next())
}

/// Renders a results file that `command` wrote: as text, and as a page.
pub fn redraw<R: Serialize + DeserializeOwned>(
    file: &Path,
    command: &str,
    sink: &Sink,
    html: Option<&Path>,
    text: impl Fn(&R, usize) -> String,
    page: impl Fn(&R) -> String,
) -> anyhow::Result<Done> {
    let bytes = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let found: R = serde_json::from_slice(&bytes)
        .with_context(|| format!("{}: not a file that this version's `{command}` wrote", file.display()))?;
    sink.put(|width, _| text(&found, width), || Ok(serde_json::to_string(&found)?))?;
    if let Some(to) = html {
        output::write_html(to, &page(&found))?;
    }
    Ok(Done::Whole)
}
