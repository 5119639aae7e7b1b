//! What a trace has in tracefs, and its end.

use std::path::{Path, PathBuf};

use environment::Janitor;
use environment::janitor::{Leftover, append};
use kvm::trace::Step;
use measure::Failure;

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
    ///
    /// # Errors
    /// The kernel refuses the folder.
    pub fn instance(&mut self, tracefs: &Path) -> Result<PathBuf, Failure> {
        let name = format!("tautline-{}-{}", std::process::id(), self.leftovers.len());
        let path = tracefs.join("instances").join(name);
        self.announce(Leftover::TracingInstance(path.clone()));
        std::fs::create_dir(&path).map_err(|error| {
            Failure::new(format!("making the tracing instance {}", path.display()), error, "run as root")
        })?;
        Ok(path)
    }

    /// Writes one line; one that is not needed may be refused.
    ///
    /// # Errors
    /// The kernel refuses a line that is needed.
    pub fn step(&mut self, step: Step) -> Result<(), Failure> {
        self.announce(Leftover::TracingLine { file: step.file.clone(), undo: step.undo });
        match append(&step.file, &step.line) {
            Err(error) if !step.optional => Err(Failure::new(
                format!("writing '{}' to {}", step.line, step.file.display()),
                error,
                "use a kernel with CONFIG_HIST_TRIGGERS and CONFIG_SYNTH_EVENTS, as distributions have it",
            )),
            _ => Ok(()),
        }
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
