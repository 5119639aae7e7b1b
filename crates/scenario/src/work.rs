//! The interface of a member's work.

use crate::description::{Load, Work};
use crate::{control, radio};

/// Called with each result to pass on: the number of a user, and bytes for that user.
pub(crate) type Out<'a> = dyn FnMut(u32, &[u8]) + 'a;

/// The work of the first member.
pub(crate) trait First {
    /// Makes the first data of a tick. It is called before the tick is due.
    fn prepare(&mut self, tick: u64, out: &mut Out<'_>);
}

/// The work of a member in the middle.
pub(crate) trait Middle {
    /// Takes data for a user.
    fn take(&mut self, user: u32, bytes: &[u8], out: &mut Out<'_>);

    /// Called when no more data comes for this tick.
    fn finish(&mut self, out: &mut Out<'_>);

    /// How much data the member could not process so far.
    fn refused(&self) -> u64;
}

/// The work of the last member.
pub(crate) trait Last {
    /// Takes data for a user.
    fn take(&mut self, user: u32, bytes: &[u8]);

    /// Called when no more data comes for this tick. Returns for how many users its work is complete and correct.
    fn finish(&mut self, tick: u64) -> u32;

    /// How much data was altered or could not be processed so far.
    fn refused(&self) -> u64;
}

/// A member's work, by its place in the chain.
pub(crate) enum Place {
    First(Box<dyn First>),
    Middle(Box<dyn Middle>),
    Last(Box<dyn Last>),
}

/// Makes the work of a member under this load.
///
/// # Errors
/// The threads cannot be started.
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
