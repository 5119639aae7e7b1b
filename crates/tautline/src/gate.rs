//! Limits that a user sets: one grammar for all commands, [`report::gate`].

use std::path::Path;

use anyhow::Context;
use report::gate::{Gate, GateOutcome};

use crate::exit::{Done, Usage};

/// Reads limits, if there are any.
pub fn load(path: Option<&Path>) -> anyhow::Result<Option<Gate>> {
    let Some(path) = path else { return Ok(None) };
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading the gate {}", path.display()))?;
    Ok(Some(Gate::parse(&text).map_err(|error| Usage(format!("{}: {error}", path.display())))?))
}

/// How a command ends that was given these limits.
pub fn done(outcomes: &[GateOutcome]) -> Done {
    if outcomes.iter().all(GateOutcome::held) { Done::Whole } else { Done::ThresholdExceeded }
}
