//! The data that is kept of a long watch, in limited memory: the durations of all latencies, and the paths of two of
//! them.

use measure::Histogram;
use serde::{Deserialize, Serialize};

use super::blame::{in_short, stretches, sum};
use super::cause::Blame;
use super::guest::{GuestFollower, joined};
use super::latency::{Latency, Watched, latencies};
use super::latest::Span;
use crate::events::{Target, Trace};

/// One latency, and the causes of its duration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Which.
    pub latency: Latency,
    /// The time by cause, the longest first.
    pub parts: Vec<Blame>,
    /// The parts in the order of time; if there are many, only the longest.
    pub stretches: Vec<Blame>,
}

/// The traces of a freeze, both sides on one clock.
#[derive(Clone, Copy, Debug)]
pub struct Frozen<'a> {
    /// The host's trace.
    pub host: &'a Trace,
    /// The guest's trace, if it was queried.
    pub guest: Option<GuestSide<'a>>,
}

/// A guest's trace for some spans of time.
#[derive(Clone, Copy, Debug)]
pub struct GuestSide<'a> {
    /// The guest's trace, on the host's clock.
    pub trace: &'a Trace,
    /// The most by which the guest's trace may put an event before its cause in the host, ns.
    pub early_ns: u64,
    /// The spans that the guest's trace covers.
    pub spans: &'a [Span],
}

impl Frozen<'_> {
    /// Its latencies of which there is all, in whatever order.
    fn latencies(&self, target: &Target, watched: Watched) -> Vec<Latency> {
        let mut found = latencies(self.host, target, watched);
        let Some(guest) = self.guest else {
            return if watched == Watched::UserSpace { Vec::new() } else { found };
        };
        if watched == Watched::UserSpace {
            found.sort_by_key(|latency| latency.ended);
            let mut follower = GuestFollower::default();
            let arrivals: Vec<_> =
                guest.trace.events.iter().filter_map(|event| follower.follow(event)).collect();
            found = joined(&found, &arrivals, guest.early_ns);
        }
        // From one stretch to the next the guest's side is not known.
        found.retain(|latency| guest.spans.iter().any(|span| span.holds(latency)));
        found
    }
}

impl Path {
    fn of(frozen: &Frozen<'_>, latency: Latency) -> Option<Self> {
        let all = stretches(frozen.host, frozen.guest.map(|guest| guest.trace), &latency);
        let path = Self { latency, parts: sum(&all), stretches: in_short(&all) };
        (!all.is_empty()).then_some(path)
    }
}

/// Keeps latencies as they are found. Each new maximum is a reason to freeze a flight recorder.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    histogram: Histogram,
    worst: Option<Latency>,
    worst_path: Option<Path>,
    median_path: Option<Path>,
    /// Whether the path of the longest latency is still to be looked up in a frozen trace.
    is_new: bool,
}

impl Kept {
    /// Counts one.
    pub fn count(&mut self, latency: Latency) {
        self.histogram.record_ns(latency.ns());
        if self.worst.is_none_or(|worst| worst.ns() < latency.ns()) {
            self.worst = Some(latency);
            self.is_new = true;
        }
    }

    /// Whether there is a latency longer than any whose path was looked up.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Looks up two paths in a frozen trace: the path of the longest latency, if it is new, and the path of a latency
    /// close to the median.
    pub fn look(&mut self, frozen: &Frozen<'_>, target: &Target, watched: Watched) {
        let found = frozen.latencies(target, watched);
        if let Some(worst) = self.worst.filter(|_| std::mem::take(&mut self.is_new)) {
            // An older path does not belong to this latency.
            let seen =
                found.iter().filter(|latency| latency.is_same(&worst)).max_by_key(|latency| latency.ns());
            self.worst_path = seen.and_then(|latency| Path::of(frozen, *latency));
        }
        let median_ns = self.histogram.median_ns();
        let off = |latency: &Latency| latency.ns().abs_diff(median_ns);
        // Further latencies have been seen since the last call, so the median may have changed.
        let nearest = found.iter().min_by_key(|latency| off(latency));
        let before = self.median_path.as_ref().map(|path| off(&path.latency));
        if let Some(nearest) = nearest.filter(|nearest| before.is_none_or(|before| off(nearest) < before)) {
            self.median_path = Path::of(frozen, *nearest).or_else(|| self.median_path.take());
        }
    }

    /// The durations of all latencies.
    pub fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// The longest latency.
    pub fn worst(&self) -> Option<Latency> {
        self.worst
    }

    /// The path of the longest latency. `None` if newer events have overwritten it, or it was not looked up.
    pub fn worst_path(&self) -> Option<&Path> {
        self.worst_path.as_ref().filter(|_| !self.is_new)
    }

    /// The path of a latency about as long as the median.
    pub fn median_path(&self) -> Option<&Path> {
        self.median_path.as_ref()
    }
}
