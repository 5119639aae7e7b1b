use std::marker::PhantomData;
use std::num::NonZeroU32;

use super::drive::Strategy;
use super::{Bounds, Load, TrialInput};

/// A plan that repeats one trial a number of times, without a search.
pub struct Repeats<R> {
    input: TrialInput,
    left: u32,
    result: PhantomData<fn(&R)>,
}

impl<R> Repeats<R> {
    pub fn new(input: TrialInput, repeats: NonZeroU32) -> Self {
        Repeats { input, left: repeats.get(), result: PhantomData }
    }
}

impl<R> Strategy for Repeats<R> {
    type Input = TrialInput;
    type Output = R;
    type Point = Load;

    fn next(&mut self) -> Option<TrialInput> {
        (self.left > 0).then_some(self.input)
    }

    fn take(&mut self, _: TrialInput, _: &R) {
        self.left -= 1;
    }

    fn bounds(&self) -> Vec<Bounds<Load>> {
        Vec::new()
    }
}
