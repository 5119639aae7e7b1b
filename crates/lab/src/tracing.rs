//! The instances and files that a trace makes in tracefs, and their removal.

use std::path::{Path, PathBuf};

use environment::Janitor;
use environment::janitor::{Leftover, append};
use kvm::trace::Step;
use measure::Failure;

/// The instances and files that this trace has made in tracefs. The newest is removed first.
pub struct Made<'a> {
    janitor: &'a Janitor,
    leftovers: Vec<Leftover>,
}

impl<'a> Made<'a> {
    /// Nothing yet.
    pub fn by(janitor: &'a Janitor) -> Self {
        Made { janitor, leftovers: Vec::new() }
    }

    /// Makes one more tracing instance for this process and returns its folder. Two triggers on the same event
    /// need two instances.
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

    /// Writes one line to tracefs. A line that is not required may be refused.
    ///
    /// # Errors
    /// The kernel refuses a required line.
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
