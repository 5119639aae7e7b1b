//! A trial and its attempts, as results files keep them.

use measure::{Noise, Verdict};
use serde::{Deserialize, Serialize};

/// One attempt of a trial, judged. In a results file, the judgement stands beside the fields of `measured`. A file
/// of a version that judged no trials is read as if each trial were accepted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt<T> {
    /// The number of the attempt, from 0.
    #[serde(rename = "attempt", default)]
    pub number: u32,
    /// The result of the attempt.
    #[serde(flatten)]
    pub measured: T,
    /// The noise during the attempt, measured on the host.
    #[serde(default)]
    pub host_noise: Noise,
    /// Whether the attempt counts.
    #[serde(default)]
    pub verdict: Verdict,
}

impl<T> Attempt<T> {
    /// The result, if the attempt counts.
    pub fn counted(&self) -> Option<&T> {
        self.verdict.counts().then_some(&self.measured)
    }
}

/// A trial with all its attempts.
#[derive(Clone, Debug)]
pub struct Tried<T, E> {
    /// The attempts that were over a noise limit, in order. Each was repeated.
    pub discarded: Vec<Attempt<T>>,
    /// The attempt that counts, or why there is none.
    pub counted: Result<Attempt<T>, E>,
}

impl<T, E> Tried<T, E> {
    /// All attempts that gave a figure, in order.
    pub fn attempts(&self) -> impl Iterator<Item = &Attempt<T>> {
        self.discarded.iter().chain(&self.counted)
    }
}

/// A first attempt that nothing disturbed, for tests.
#[cfg(any(test, feature = "example"))]
impl<T> From<T> for Attempt<T> {
    fn from(measured: T) -> Self {
        Attempt { number: 0, measured, host_noise: Noise::default(), verdict: Verdict::Accepted }
    }
}
