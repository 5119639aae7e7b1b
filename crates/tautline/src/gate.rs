//! Reading a gate file.

use std::path::Path;

use anyhow::Context;
use report::gate::{Gate, GateOutcome};

use crate::exit::{Done, Usage};

/// Reads limits.
pub fn load(path: &Path) -> anyhow::Result<Gate> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading the gate {}", path.display()))?;
    Gate::parse(&text).map_err(|error| Usage(format!("{}: {error}", path.display())).into())
}

/// How a command ends that was given these limits.
pub fn done(outcomes: &[GateOutcome]) -> Done {
    if outcomes.iter().all(GateOutcome::held) { Done::Whole } else { Done::GateMissed }
}
