//! What a member does with the frames of a tick.

use crate::description::{Load, Work};
use crate::{control, radio};

/// Takes what is to be passed on: the number of a user, and bytes for it.
pub(crate) type Out<'a> = dyn FnMut(u32, &[u8]) + 'a;

/// The first of a chain.
pub(crate) trait First {
    /// Makes what a tick begins with. It is called before the tick is due.
    fn prepare(&mut self, tick: u64, out: &mut Out<'_>);
}

/// One in the middle.
pub(crate) trait Middle {
    /// Takes what came for a user.
    fn take(&mut self, user: u32, bytes: &[u8], out: &mut Out<'_>);

    /// Nothing more comes for this tick.
    fn finish(&mut self, out: &mut Out<'_>);

    /// What it could make no sense of so far.
    fn refused(&self) -> u64;
}

/// The last of a chain.
pub(crate) trait Last {
    /// Takes what came for a user.
    fn take(&mut self, user: u32, bytes: &[u8]);

    /// Nothing more comes for this tick: how many users' work of it is done and right.
    fn finish(&mut self, tick: u64) -> u32;

    /// What was altered, or could not be made sense of, so far.
    fn refused(&self) -> u64;
}

/// A member's work, by its place in the chain.
pub(crate) enum Place {
    First(Box<dyn First>),
    Middle(Box<dyn Middle>),
    Last(Box<dyn Last>),
}

/// What does this work under this load.
///
/// # Errors
/// The threads cannot be had.
pub(crate) fn of(work: Work, load: &Load) -> Result<Place, measure::Failure> {
    Ok(match work {
        Work::RadioUnit => Place::First(Box::new(radio::RadioUnit::new(load))),
        Work::Layer1 => Place::Middle(Box::new(radio::Layer1::new(load))),
        Work::Layer2 => Place::Middle(Box::new(radio::Layer2::new(load)?)),
        Work::Core => Place::Last(Box::new(radio::CoreEnd::new(load))),
        Work::Sensor => Place::First(Box::new(control::Sensor::new(load))),
        Work::Controller => Place::Middle(Box::new(control::Controller::new(load))),
        Work::Actuator => Place::Last(Box::new(control::Actuator::new(load))),
    })
}
