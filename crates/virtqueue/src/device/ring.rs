//! What differs between the layouts of a device half.

use memory::{Demotion, SgBuilder, Translator};

use super::UsedLog;
use crate::atomics::Atomics;
use crate::chain::Chain;
use crate::error::{PopError, RingError};
use crate::work::Work;
use crate::{Burst, Position, QueueSize};

/// A running ring as the device sees it: what differs between the layouts. It says what it found; [`Device`](super::Device)
/// keeps the errors, the log and the burst's books.
pub trait DeviceRing: Send {
    /// The atomics it is made of.
    type Atomics: Atomics;
    /// How far the used side is.
    type Used: Copy + PartialEq + Send;

    /// Number of descriptors.
    fn size(&self) -> QueueSize;

    /// Where the ring stands.
    fn position(&self) -> Position;

    /// Where the next used entry goes.
    fn next_used(&self) -> Self::Used;

    /// Pops up to `max` chains to the end of `burst`.
    fn pop(&mut self, translator: &mut Translator, burst: &mut Burst, max: usize) -> Popped;

    /// Whether chains are left that a previous process had popped and not used.
    fn has_resubmit(&self) -> bool;

    /// The next of those, in their old order.
    fn pop_resubmitted(
        &mut self,
        builder: &mut SgBuilder<'_>,
        work: &mut Work,
    ) -> Option<Result<Chain, PopError>>;

    /// Takes chains back as if they had not been popped; false, and nothing is changed, unless the last of them
    /// is the one that was popped last.
    fn rewind(&mut self, chains: &[Chain]) -> bool;

    /// Writes used entries for the chains and publishes them at once; demotes the lines of their descriptors if
    /// it can.
    fn add_used(&mut self, chains: &mut [Chain], demotion: Option<Demotion>);

    /// Whether [`DeviceRing::add_used`] can demote lines.
    fn demotes_descriptors(&self) -> bool;

    /// Whether the driver wants a call for what was used since `old`; a full barrier has been.
    fn wants_call(&self, old: Self::Used) -> bool;

    /// Asks for kicks; a full barrier follows.
    fn arm_kicks(&self);

    /// Asks for no kicks.
    fn disarm_kicks(&self);

    /// How many chains the driver says are available, at most the queue's size.
    fn available_chains(&self) -> u16;

    /// Whether something is available.
    fn is_available(&self) -> bool;

    /// Marks in the log the used entries that have been stored since `from`.
    ///
    /// # Errors
    /// The used ring reaches past the pages of the log.
    fn mark_used(&self, log: &UsedLog, from: Self::Used) -> Result<(), RingError>;

    /// Marks in the log the field that asks for kicks, which has been stored.
    ///
    /// # Errors
    /// The area that asks for kicks reaches past the pages of the log.
    fn mark_events(&self, log: &UsedLog) -> Result<(), RingError>;
}

/// Chains that were popped, and why no more were, if something is wrong.
pub type Popped = (usize, Option<PopError>);
