//! A path with frames on it, at which all searches measure.
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

/// Trials that are repeated at one load before the search gives up on a disturbed machine.
pub(super) const ATTEMPTS: NonZeroU32 = NonZeroU32::new(8).unwrap();

/// A path with frames on it, and what is to be done with it.
pub(super) struct Bench<'a, 'p> {
    pub loaded: Loaded<'p>,
    pub job: &'a Job,
    pub mix: &'a SizeMix,
    pub say: &'a dyn Fn(&str),
    /// Every trial is saved.
    pub recorder: &'a RefCell<Recorder>,
}

impl Bench<'_, '_> {
    /// What a search may cost.
    pub fn budget() -> Budget {
        Budget { attempts: ATTEMPTS, ..Budget::default() }
    }

    /// One trial, as searches ask for it.
    pub fn trial(&mut self, load: Load, duration: Duration) -> Result<Measured, RunError> {
        unless_interrupted()?;
        Ok(self.loaded.trial(load, duration)?.0)
    }
}

pub(super) fn unless_interrupted() -> Result<(), RunError> {
    Ok(interrupt::check()?)
}
