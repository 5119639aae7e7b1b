//! The values that `vm detach` has restored, as text and as JSON.

use std::path::Path;

use host::PutBack;
use host::journal::Entry;
use measure::Failure;
use serde::Serialize;

use crate::host_command::describe;
use crate::output::Sink;

/// The document that is written.
#[derive(Debug, Serialize)]
pub struct Detached<'a> {
    schema: &'static str,
    tautline: &'static str,
    process: u32,
    journal: &'a Path,
    values: Vec<PutBackValue>,
    #[serde(skip)]
    lines: String,
}

/// One value that was changed.
#[derive(Debug, Serialize)]
struct PutBackValue {
    rule: String,
    what: String,
    /// The value that attach found.
    found: Option<String>,
    outcome: &'static str,
    /// The value before it was restored, if another program had changed it.
    meanwhile: Option<String>,
    failure: Option<Failure>,
}

impl<'a> Detached<'a> {
    /// A record without values yet.
    pub fn new(process: u32, journal: &'a Path) -> Self {
        Detached {
            schema: "tautline-vm-detach/1",
            tautline: env!("CARGO_PKG_VERSION"),
            process,
            journal,
            values: Vec::new(),
            lines: String::new(),
        }
    }

    /// Adds one restored value.
    pub fn note(&mut self, entry: &Entry, outcome: &PutBack) {
        let (word, meanwhile, failure) = match outcome {
            PutBack::Restored { meanwhile } => ("restored", meanwhile.clone(), None),
            PutBack::Gone => ("gone", None, None),
            PutBack::Rebooted => ("rebooted", None, None),
            PutBack::Failed(failure) => ("failed", None, Some(failure.clone())),
        };
        self.lines.push_str(&describe(entry, outcome));
        self.values.push(PutBackValue {
            rule: entry.rule.clone(),
            what: entry.knob.to_string(),
            found: entry.found.clone(),
            outcome: word,
            meanwhile,
            failure,
        });
    }

    /// Writes the record where the user wants it.
    pub fn put(&self, sink: &Sink) -> anyhow::Result<()> {
        let nothing =
            || format!("{}: no journal, or nothing in it: nothing to put back\n", self.journal.display());
        let text = |_: usize, _: bool| if self.values.is_empty() { nothing() } else { self.lines.clone() };
        sink.put(text, || Ok(serde_json::to_string_pretty(self)?))
    }
}
