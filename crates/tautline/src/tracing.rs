//! What a trace has in tracefs, and its end.

use std::path::{Path, PathBuf};

use anyhow::Context;
use environment::Janitor;
use environment::janitor::{Leftover, append};
use kvm::trace::Step;

/// What is in tracefs for this trace; the latest goes first.
pub struct Made<'a> {
    janitor: &'a Janitor,
    leftovers: Vec<Leftover>,
}

impl<'a> Made<'a> {
    /// Nothing yet.
    pub fn by(janitor: &'a Janitor) -> Self {
        Made { janitor, leftovers: Vec::new() }
    }

    /// Makes one more instance of this process's own: its folder. Triggers of two purposes on one event need two.
    pub fn instance(&mut self, tracefs: &Path) -> anyhow::Result<PathBuf> {
        let name = format!("tautline-{}-{}", std::process::id(), self.leftovers.len());
        let path = tracefs.join("instances").join(name);
        self.announce(Leftover::TracingInstance(path.clone()));
        std::fs::create_dir(&path)
            .with_context(|| format!("making the tracing instance {}; run as root", path.display()))?;
        Ok(path)
    }

    /// Writes one line; one that is not needed may be refused.
    pub fn step(&mut self, step: Step) -> anyhow::Result<()> {
        self.announce(Leftover::TracingLine { file: step.file.clone(), undo: step.undo });
        match append(&step.file, &step.line) {
            Err(error) if !step.optional => {
                let remedy = "use a kernel with CONFIG_HIST_TRIGGERS and CONFIG_SYNTH_EVENTS, as distributions have it";
                return Err(error).with_context(|| {
                    format!("writing '{}' to {}; {remedy}", step.line, step.file.display())
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn announce(&mut self, leftover: Leftover) {
        self.janitor.made(&leftover);
        self.leftovers.push(leftover);
    }
}

impl Drop for Made<'_> {
    fn drop(&mut self) {
        for leftover in self.leftovers.iter().rev() {
            self.janitor.remove(leftover);
        }
    }
}
