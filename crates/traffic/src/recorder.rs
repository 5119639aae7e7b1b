//! A results file that is kept up to date: what an interrupted run found stays.
use std::path::PathBuf;
use std::time::Instant;

use measure::SaveError;

use crate::results::{Run, SizeResult, Unfinished};

/// Writes the run's file anew after each trial, whole or not at all.
#[derive(Debug)]
pub struct Recorder {
    run: Run,
    file: Option<PathBuf>,
    begin: Instant,
    /// The error of writing after the last trial. [`Recorder::end_size`] returns it, because the trial itself was
    /// good.
    failed: Option<SaveError>,
}

impl Recorder {
    /// For a run that begins now; without a file nothing is written.
    pub fn new(run: Run, file: Option<PathBuf>) -> Self {
        Recorder { run, file, begin: Instant::now(), failed: None }
    }

    /// A size or mix begins.
    pub fn begin_size(&mut self, frame_bytes_with_fcs: String) {
        self.run.unfinished = Some(Unfinished { frame_bytes_with_fcs, ..Unfinished::default() });
    }

    /// After a trial: notes what it showed.
    pub fn trial(&mut self, note: impl FnOnce(&mut Unfinished)) {
        self.run.unfinished.as_mut().map(note);
        self.failed = self.save().err();
    }

    /// All of a size or mix is found: adds it to the run and writes the file.
    ///
    /// # Errors
    /// The file cannot be written, now or after the last trial. In the second case it is not written again.
    pub fn end_size(&mut self, size: SizeResult) -> Result<(), SaveError> {
        self.run.unfinished = None;
        self.run.sizes.push(size);
        self.failed.take().map_or_else(|| self.save(), Err)
    }

    /// The run ended early: what was found stays in the file, which is not complete.
    pub fn abandon(self) -> Run {
        self.run
    }

    /// The run came to its end: marks it complete and writes the file.
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
