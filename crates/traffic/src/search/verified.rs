use super::bisection::VerifiedBisection;
use super::drive::{Cost, Strategy};
use super::{Bounds, Cut, Finding, Load, TrialInput, TrialResult};

/// A trial of a bisection: its parameters, among them the point that is searched for.
pub trait Asks: Cost {
    type Point;

    fn point(self) -> Self::Point;

    /// Returns these parameters with another point.
    fn at(self, point: Self::Point) -> Self;
}

impl Asks for TrialInput {
    type Point = Load;

    fn point(self) -> Load {
        self.load
    }

    fn at(self, load: Load) -> Self {
        TrialInput { load, ..self }
    }
}

/// [`VerifiedBisection`] as a search.
pub struct Verified<I: Asks> {
    input: I,
    bisection: VerifiedBisection<I::Point>,
}

impl<I: Asks> Verified<I>
where
    I::Point: Copy + Ord + From<std::num::NonZeroU64> + Into<std::num::NonZeroU64>,
{
    /// Each trial has the parameters of `input`, except for its point.
    pub(super) fn new(input: I, bisection: VerifiedBisection<I::Point>) -> Self {
        Verified { input, bisection }
    }

    pub fn finding(&self, cut: Option<Cut>) -> Finding<I::Point> {
        self.bisection.finding(cut)
    }
}

impl<I: Asks> Strategy for Verified<I>
where
    I::Point: Copy + Ord + From<std::num::NonZeroU64> + Into<std::num::NonZeroU64>,
{
    type Input = I;
    type Output = TrialResult;
    type Point = I::Point;

    fn next(&mut self) -> Option<I> {
        self.bisection.next().map(|point| self.input.at(point))
    }

    fn take(&mut self, input: I, result: &TrialResult) {
        self.bisection.take(input.point(), result);
    }

    fn bounds(&self) -> Vec<Bounds<I::Point>> {
        vec![self.bisection.bounds()]
    }
}
