//! The interface in which the layouts of a device half differ.

use memory::{Demotion, SgBuilder, Translator};

use super::UsedLog;
use crate::atomics::Atomics;
use crate::chain::Chain;
use crate::error::{PopError, RingError};
use crate::work::Work;
use crate::{Burst, Position, QueueSize};

/// A running ring as the device sees it, in one of the layouts. The ring reports what it finds;
/// [`Device`](super::Device) keeps the errors, the log and the state of the burst.
pub trait DeviceRing: Send {
    /// The ring's atomics.
    type Atomics: Atomics;
    /// The type of the used side's position.
    type Used: Copy + Send;

    /// Number of descriptors.
    fn size(&self) -> QueueSize;

    /// The position of the ring.
    fn position(&self) -> Position;

    /// The position of the next used entry.
    fn next_used(&self) -> Self::Used;

    /// Pops up to `max` chains to the end of `burst`.
    fn pop(&mut self, translator: &mut Translator, burst: &mut Burst, max: usize) -> Popped;

    /// Whether chains are left that a previous process had popped and not used.
    fn has_resubmit(&self) -> bool;

    /// Pops the next of these chains, in their old order.
    fn pop_resubmitted(
        &mut self,
        builder: &mut SgBuilder<'_>,
        work: &mut Work,
    ) -> Option<Result<Chain, PopError>>;

    /// Takes chains back as if they had not been popped. Returns false and changes nothing, unless the last of them
    /// is the one that was popped last.
    fn rewind(&mut self, chains: &[Chain]) -> bool;

    /// Writes used entries for the chains and publishes them together. Demotes the lines of their descriptors if it
    /// can.
    fn add_used(&mut self, chains: &mut [Chain], demotion: Option<Demotion>);

    /// Whether [`DeviceRing::add_used`] can demote lines.
    fn demotes_descriptors(&self) -> bool;

    /// Entries (split) or slots (packed) used since `from`, after which at most one lap was used.
    fn used_since(&self, from: Self::Used) -> u16;

    /// Whether the driver must be called for the `uncalled` entries (split) or slots (packed) that were used last. The
    /// caller has executed a full barrier.
    fn wants_call(&self, uncalled: u32) -> bool;

    /// Asks for kicks. The caller executes a full barrier afterwards.
    fn arm_kicks(&self);

    /// Asks for no kicks.
    fn disarm_kicks(&self);

    /// How many chains the driver says are available, at most the queue's size.
    fn available_chains(&self) -> u16;

    /// Whether a chain is available.
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

/// The number of chains popped, and why no more were, if there was an error.
pub type Popped = (usize, Option<PopError>);
