//! The job of a run: everything that is decided before anything is connected.
use std::num::NonZeroU32;
use std::time::Duration;

use port::spec::PortSpec;

use crate::frames::SizeMix;
use crate::path::Profile;
use crate::search::rfc2544::Step;
use crate::search::{Fraction, Load, Verification};

/// One run.
pub struct Job {
    /// The port where frames are sent.
    pub from: PortSpec,
    /// The port where frames are received; `None` if it is the same.
    pub to: Option<PortSpec>,
    /// The properties of the frames.
    pub profile: Profile,
    /// The frame sizes, in the order in which they are measured.
    pub mixes: Vec<SizeMix>,
    /// How the rate is searched for.
    pub method: Method,
    /// The length of the deciding trials.
    pub trial: Duration,
    /// How long to wait for late frames after each trial.
    pub residual: Duration,
    /// The distance of the bounds at which a search ends.
    pub width: Fraction,
    /// The highest offered rate; `None` for as much as the device takes.
    pub max_rate: Option<Load>,
    /// How often a lossy trial is repeated before it counts.
    pub verification: Verification,
    /// The step in load from one trial of the frame loss measurement to the next; `None` if it is not measured.
    pub frame_loss: Option<Step>,
    /// How the longest burst is searched for; `None` if it is not.
    pub back_to_back: Option<BurstJob>,
    /// The longest wait for a peer, and for the first frame.
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
    /// No search: the maximum rate, at any loss.
    Maximum,
}

/// How the longest burst is searched for.
#[derive(Clone, Copy, Debug)]
pub struct BurstJob {
    /// The number of searches, of which mean and deviation are computed.
    pub searches: NonZeroU32,
    /// The duration of the longest burst.
    pub longest: Duration,
}

/// The label of a path with a TAP.
pub const SOFTWARE_TAP: &str = "software: TAP";

/// RFC 2544 section 24.
pub const FULL_TRIAL: Duration = Duration::from_secs(60);

/// The lowest rate that is searched for, frames per second.
pub const LEAST_FPS: u64 = 100;

/// The number of undisturbed trials for the maximum.
pub(super) const MAXIMUM_TRIALS: NonZeroU32 = NonZeroU32::new(3).unwrap();

impl Job {
    /// The labels of all figures. Through a TAP each frame costs a system call, and this machine's kernel forwards
    /// the frames.
    pub fn labels(&self) -> Vec<String> {
        let mut ports = std::iter::once(&self.from).chain(&self.to);
        let tap = ports.any(|spec| matches!(spec, PortSpec::Tap(_)));
        tap.then(|| SOFTWARE_TAP.to_owned()).into_iter().collect()
    }

    /// The length of each trial for the maximum. All of them together are as long as one trial for latencies, but
    /// each is long enough to wake a sleeping device.
    pub fn maximum_trial(&self) -> Duration {
        (self.latency_trial() / MAXIMUM_TRIALS.get()).max(Duration::from_millis(100))
    }

    /// How long latencies are measured at each load.
    pub fn latency_trial(&self) -> Duration {
        self.trial.min(Duration::from_secs(1))
    }

    /// Whether trials are shorter than RFC 2544 requires.
    pub fn is_quick(&self) -> bool {
        self.trial < FULL_TRIAL
    }
}
