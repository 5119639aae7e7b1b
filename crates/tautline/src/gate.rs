//! Limits that a user sets: one grammar for all commands, [`report::gate`].

use anyhow::Context;
use report::gate::{Gate, GateOutcome};

use crate::cli::Limits;
use crate::exit::{Done, Usage};

/// Reads limits, if there are any.
pub fn load(limits: &Limits) -> anyhow::Result<Option<Gate>> {
    let Some(path) = &limits.gate else {
        return Ok((!limits.limit.is_empty()).then(|| Gate::default().and(&limits.limit)));
    };
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading the gate {}", path.display()))?;
    let gate = Gate::parse(&text).map_err(|error| Usage(format!("{}: {error}", path.display())))?;
    Ok(Some(gate.and(&limits.limit)))
}

/// How a command ends after these limits were checked.
pub fn done(outcomes: &[GateOutcome]) -> Done {
    if outcomes.iter().all(GateOutcome::held) { Done::Whole } else { Done::ThresholdExceeded }
}
