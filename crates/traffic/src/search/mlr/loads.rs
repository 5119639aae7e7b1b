use std::collections::BTreeMap;

use super::{Class, Goal, LoadTrial, classify};
use crate::search::{Bounds, Load};

/// All trials so far, by load. Each counts for every goal and for every target of a goal.
#[derive(Debug, Default)]
pub(super) struct Loads {
    trials: BTreeMap<Load, Vec<LoadTrial>>,
}

impl Loads {
    pub fn add(&mut self, load: Load, trial: LoadTrial) {
        self.trials.entry(load).or_default().push(trial);
    }

    pub fn at(&self, load: Load) -> &[LoadTrial] {
        self.trials.get(&load).map_or(&[], Vec::as_slice)
    }

    pub fn class(&self, goal: &Goal, load: Load) -> Class {
        classify(goal, self.at(load))
    }

    /// The relevant bounds (RFC 9971): the smallest load that is an upper bound, and the largest lower bound
    /// below it. A lower bound above the smallest upper bound is ignored as an outlier.
    pub fn relevant(&self, goal: &Goal) -> Bounds<Load> {
        let mut lower = None;
        for (&load, trials) in &self.trials {
            match classify(goal, trials) {
                Class::Upper => return Bounds { lower, upper: Some(load) },
                Class::Lower => lower = Some(load),
                Class::Undecided => {}
            }
        }
        Bounds { lower, upper: None }
    }
}
