//! A results file that is updated during the run, so that an interrupted run keeps its results.
use std::path::PathBuf;
use std::time::Instant;

use measure::SaveError;

use crate::results::{Run, SizeResult, Unfinished};

/// Writes the run's file after each trial, as a whole or not at all.
#[derive(Debug)]
pub struct Recorder {
    run: Run,
    file: Option<PathBuf>,
    begin: Instant,
}

impl Recorder {
    /// A recorder for a run that begins now. Without a file nothing is written.
    pub fn new(run: Run, file: Option<PathBuf>) -> Self {
        Recorder { run, file, begin: Instant::now() }
    }

    /// Begins a size or mix.
    pub fn begin_size(&mut self, frame_bytes_with_fcs: String) {
        self.run.unfinished = Some(Unfinished { frame_bytes_with_fcs, ..Unfinished::default() });
    }

    /// Must be called after each trial. `note` records its result. A trial stays valid if the file cannot be written:
    /// the next write contains everything.
    pub fn trial(&mut self, note: impl FnOnce(&mut Unfinished)) {
        self.run.unfinished.as_mut().map(note);
        let _ = self.save();
    }

    /// Adds the complete results of a size or mix to the run and writes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end_size(&mut self, size: SizeResult) -> Result<(), SaveError> {
        self.run.unfinished = None;
        self.run.sizes.push(size);
        self.save()
    }

    /// Ends a run early. The file keeps what was found, marked incomplete.
    pub fn abandon(self) -> Run {
        self.run
    }

    /// Ends a complete run: marks it complete and writes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self) -> Result<Run, SaveError> {
        self.run.complete = true;
        self.save()?;
        Ok(self.run)
    }

    fn save(&mut self) -> Result<(), SaveError> {
        self.run.elapsed_s = self.begin.elapsed().as_secs_f64();
        self.file.as_ref().map_or(Ok(()), |file| measure::save_json(&self.run, file))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_write_that_failed_after_a_trial_is_made_up_for_by_the_next() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rfc2544.json");
        let mut run = Run::load(&example).unwrap();
        let size = run.sizes.pop().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("later/results.json");
        let mut recorder = Recorder::new(run, Some(file.clone()));
        recorder.begin_size(size.frame_bytes_with_fcs.clone());
        recorder.trial(|_| {});
        std::fs::create_dir(file.parent().unwrap()).unwrap();
        recorder.end_size(size.clone()).unwrap();
        assert_eq!(Run::load(&file).unwrap().sizes.last(), Some(&size));
    }
}
