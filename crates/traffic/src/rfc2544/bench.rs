//! The path with its frames, on which all searches measure.
use std::cell::RefCell;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::frames::SizeMix;
use crate::path::Loaded;
use crate::recorder::Recorder;
use crate::search::{Budget, Load, Measured};
use linux::interrupt;

use super::job::Job;
use super::run_error::RunError;

/// How often a trial is repeated at one load before the search gives up because of disturbances.
pub(super) const ATTEMPTS: NonZeroU32 = NonZeroU32::new(8).unwrap();

/// A path with frames, and the job to do on it.
pub(super) struct Bench<'a, 'p> {
    pub loaded: Loaded<'p>,
    pub job: &'a Job,
    pub mix: &'a SizeMix,
    pub say: &'a dyn Fn(&str),
    /// Saves every trial.
    pub recorder: &'a RefCell<Recorder>,
}

impl Bench<'_, '_> {
    /// The limits of a search.
    pub fn budget() -> Budget {
        Budget { attempts: ATTEMPTS, ..Budget::default() }
    }

    /// Runs one trial for a search.
    pub fn trial(&mut self, load: Load, duration: Duration) -> Result<Measured, RunError> {
        unless_interrupted()?;
        Ok(self.loaded.trial(load, duration)?.0)
    }
}

pub(super) fn unless_interrupted() -> Result<(), RunError> {
    Ok(interrupt::check()?)
}
