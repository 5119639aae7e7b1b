use std::num::{NonZeroU32, NonZeroU64};

use serde::{Deserialize, Serialize};

use super::{Bounds, Cut, Finding, Fraction, Load, TrialResult};

/// The range in which a search may choose, including both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Ends<P>", bound(deserialize = "P: Copy + Ord + Deserialize<'de>"))]
pub struct SearchRange<P = Load> {
    min: P,
    max: P,
}

/// The serialised form of [`SearchRange`].
#[derive(Deserialize)]
struct Ends<P> {
    min: P,
    max: P,
}

impl<P: Copy + Ord> TryFrom<Ends<P>> for SearchRange<P> {
    type Error = &'static str;

    fn try_from(ends: Ends<P>) -> Result<Self, Self::Error> {
        SearchRange::new(ends.min, ends.max).ok_or("a range has its smallest first")
    }
}

impl<P: Copy + Ord> SearchRange<P> {
    /// A range from the smallest to the largest value; `None` if `min` is above `max`.
    ///
    /// The smallest load should offer at least one frame in the shortest trial (RFC 9971 "Min Load"). The largest
    /// should be a load that the generator sustained in a loopback.
    pub fn new(min: P, max: P) -> Option<SearchRange<P>> {
        (min <= max).then_some(SearchRange { min, max })
    }

    /// The smallest.
    pub fn min(&self) -> P {
        self.min
    }

    /// The largest.
    pub fn max(&self) -> P {
        self.max
    }
}

/// How often a lossy trial is repeated before it counts (ETSI NFV-TST 009 section 12.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verification {
    /// max(r): the most trials at one load, including the first. RFC 9971 interprets max(r) = 2 as a duration sum of
    /// two trials.
    pub max_trials: NonZeroU32,
    /// z: a trial that loses more frames fails at once, without a repeat. `None` stands for z = infinity.
    pub max_frames_lost: Option<u64>,
}

impl Verification {
    /// No repeats: every lossy trial counts.
    pub const NONE: Verification = Verification { max_trials: NonZeroU32::MIN, max_frames_lost: None };
}

/// Whether two points are as close as `width` requires, relative to the upper one, or cannot be closer.
pub(super) fn narrow(lower: NonZeroU64, upper: NonZeroU64, width: Fraction) -> bool {
    let gap = upper.get().saturating_sub(lower.get());
    gap <= 1 || !width.is_exceeded_by(gap, upper.get())
}

/// Binary search for the border between passing and failing points. It starts at the maximum, so one trial suffices
/// for a device that passes there. Alternatively it starts from below, by doubling.
#[derive(Clone, Debug)]
pub(super) struct Bisection<P> {
    range: SearchRange<P>,
    width: Fraction,
    first: Option<P>,
    lower: Option<P>,
    upper: Option<P>,
}

impl<P: Copy + Ord + From<NonZeroU64> + Into<NonZeroU64>> Bisection<P> {
    pub fn new(range: SearchRange<P>, width: Fraction) -> Self {
        Bisection { range, width, first: None, lower: None, upper: None }
    }

    /// The point to try next; `None` when the bounds are close enough, or at the ends of the range.
    pub fn next(&self) -> Option<P> {
        let min = self.range.min;
        match (self.lower, self.upper) {
            (None, None) => Some(self.first.unwrap_or(self.range.max)),
            (Some(lower), None) => (lower < self.range.max).then(|| self.above(lower)),
            (None, Some(upper)) if upper == min => None,
            (None, Some(upper)) if self.narrow(min, upper) => Some(min),
            (None, Some(upper)) => Some(middle(min, upper)),
            (Some(lower), Some(upper)) if self.narrow(lower, upper) => None,
            (Some(lower), Some(upper)) => Some(middle(lower, upper)),
        }
    }

    /// The next point while no point has failed.
    fn above(&self, lower: P) -> P {
        let max = self.range.max;
        if self.first.is_none() {
            return max;
        }
        P::from(lower.into().saturating_mul(TWO)).min(max)
    }

    fn narrow(&self, lower: P, upper: P) -> bool {
        narrow(lower.into(), upper.into(), self.width)
    }

    /// Notes that `point` passed. It must lie between the bounds, as [`Bisection::next`] returns it.
    pub fn carried(&mut self, point: P) {
        debug_assert!(self.is_between(point));
        self.lower = Some(point);
    }

    /// Notes that `point` failed. It must lie between the bounds, as [`Bisection::next`] returns it.
    pub fn not_carried(&mut self, point: P) {
        debug_assert!(self.is_between(point));
        self.upper = Some(point);
    }

    fn is_between(&self, point: P) -> bool {
        self.lower.is_none_or(|lower| lower < point) && self.upper.is_none_or(|upper| point < upper)
    }

    pub fn bounds(&self) -> Bounds<P> {
        Bounds { lower: self.lower, upper: self.upper }
    }

    /// The result. `cut` is the reason if the search ended before [`Bisection::next`] returned `None`.
    pub fn finding(&self, cut: Option<Cut>) -> Finding<P> {
        match (cut, self.lower, self.upper) {
            (Some(cut), lower, upper) => Finding::Undecided { lower, upper, cut },
            (None, Some(lower), Some(upper)) => Finding::Bracketed { lower, upper },
            (None, Some(lower), None) => Finding::AtMaximum { lower },
            // Without a lower bound the search goes on until the minimum itself was not carried.
            (None, None, _) => Finding::BelowMinimum { upper: self.range.min },
        }
    }
}

const TWO: NonZeroU64 = NonZeroU64::new(2).expect("not zero");

fn middle<P: From<NonZeroU64> + Into<NonZeroU64>>(lower: P, upper: P) -> P {
    P::from(lower.into().midpoint(upper.into()))
}

/// [`Bisection`] in which a lossy trial is repeated as [`Verification`] says.
#[derive(Clone, Debug)]
pub(super) struct VerifiedBisection<P> {
    bisection: Bisection<P>,
    verification: Verification,
    lossy: u32,
}

impl<P: Copy + Ord + From<NonZeroU64> + Into<NonZeroU64>> VerifiedBisection<P> {
    pub fn new(range: SearchRange<P>, width: Fraction, verification: Verification) -> Self {
        VerifiedBisection { bisection: Bisection::new(range, width), verification, lossy: 0 }
    }

    /// Starts at `first` and doubles until a point fails.
    pub fn beginning_at(mut self, first: P) -> Self {
        let range = self.bisection.range;
        self.bisection.first = Some(first.clamp(range.min, range.max));
        self
    }

    pub fn next(&self) -> Option<P> {
        self.bisection.next()
    }

    pub fn bounds(&self) -> Bounds<P> {
        self.bisection.bounds()
    }

    pub fn finding(&self, cut: Option<Cut>) -> Finding<P> {
        self.bisection.finding(cut)
    }

    /// Takes a trial by ETSI NFV-TST 009 section 12.3.3: a trial without loss passes, more than z lost frames fail at
    /// once, and otherwise the same point is tried again up to max(r) times.
    pub fn take(&mut self, point: P, result: &TrialResult) {
        let lost = result.frames_lost();
        if lost == 0 {
            self.lossy = 0;
            return self.bisection.carried(point);
        }
        self.lossy += 1;
        let too_many = self.verification.max_frames_lost.is_some_and(|limit| lost > limit);
        if too_many || self.lossy >= self.verification.max_trials.get() {
            self.lossy = 0;
            self.bisection.not_carried(point);
        }
    }
}
