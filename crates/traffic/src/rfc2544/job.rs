//! What is to be done: everything decided before anything is plugged in.
use std::num::NonZeroU32;
use std::time::Duration;

use port::spec::PortSpec;

use crate::frames::SizeMix;
use crate::path::Profile;
use crate::search::rfc2544::Step;
use crate::search::{Fraction, Load, Verification};

/// One run.
pub struct Job {
    /// Where frames are sent.
    pub from: PortSpec,
    /// Where they come back; None where they come back on the same port.
    pub to: Option<PortSpec>,
    /// Which frames they are.
    pub profile: Profile,
    /// Their sizes, in the order in which they are measured.
    pub mixes: Vec<SizeMix>,
    /// How the rate is searched for.
    pub method: Method,
    /// The length of a search's last trials.
    pub trial: Duration,
    /// Before each trial's end, for frames that are late.
    pub residual: Duration,
    /// How close the bounds of the answer are to each other.
    pub width: Fraction,
    /// The most that is offered; None is as much as the device takes.
    pub max_rate: Option<Load>,
    /// How often a lossy trial is repeated before it counts.
    pub verification: Verification,
    /// By how much the load falls from one trial of the loss at each load to the next, if that is measured.
    pub frame_loss: Option<Step>,
    /// How the longest burst is searched for, if it is.
    pub back_to_back: Option<BurstJob>,
    /// How long a peer, and the first frame, may take.
    pub timeout: Duration,
}

/// How a rate is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// RFC 2544 section 26.1: no frame lost, binary search.
    Rfc2544,
    /// ETSI NFV-TST 009: binary search in which a lossy trial is repeated before it counts.
    Tst009,
    /// RFC 9971: several goals in one search, no loss and 0.5 % loss.
    Mlr,
    /// No search: the maximum, whatever is lost.
    Maximum,
}

/// How the longest burst is searched for.
#[derive(Clone, Copy, Debug)]
pub struct BurstJob {
    /// Searches, over which mean and deviation are.
    pub searches: NonZeroU32,
    /// What the longest burst takes.
    pub longest: Duration,
}

/// The label of a path with a TAP in it.
pub const SOFTWARE_TAP: &str = "software: TAP";

/// RFC 2544 section 24.
pub const FULL_TRIAL: Duration = Duration::from_secs(60);

/// The lowest rate that is looked for, frames per second.
pub const LEAST_FPS: u64 = 100;

/// Undisturbed trials for the maximum.
pub(super) const MAXIMUM_TRIALS: NonZeroU32 = NonZeroU32::new(3).unwrap();

impl Job {
    /// What stands beside every figure: through a TAP frames go one system call each, and what forwards them
    /// is this machine's kernel.
    pub fn labels(&self) -> Vec<String> {
        let mut ports = std::iter::once(&self.from).chain(&self.to);
        let tap = ports.any(|spec| matches!(spec, PortSpec::Tap(_)));
        tap.then(|| SOFTWARE_TAP.to_owned()).into_iter().collect()
    }

    /// How long each trial for the maximum is: all together as long as one for latencies, but each long
    /// enough for a device that was asleep.
    pub fn maximum_trial(&self) -> Duration {
        (self.latency_trial() / MAXIMUM_TRIALS.get()).max(Duration::from_millis(100))
    }

    /// How long latencies are watched at each load.
    pub fn latency_trial(&self) -> Duration {
        self.trial.min(Duration::from_secs(1))
    }

    /// Whether trials are shorter than RFC 2544 asks for.
    pub fn is_quick(&self) -> bool {
        self.trial < FULL_TRIAL
    }
}
