//! The device half of a queue: what it can do, whatever its layout and features.

mod log;
mod parts;
mod rare;
mod ring;
mod shell;

use std::ops::Range;
use std::sync::Arc;

use memory::AddressSpace;

use crate::error::{PopError, RingError};
use crate::{Burst, Position, QueueSize};
pub use log::{RingPlaces, UsedLog};
pub use parts::DeviceParts;
pub(crate) use ring::{DeviceRing, Popped};
pub use shell::Device;

/// The device half of a running queue.
///
/// One virtual call per burst; below it everything is compiled for the ring's layout and features.
pub trait DeviceQueue: Send {
    /// Number of descriptors.
    fn size(&self) -> QueueSize;

    /// Pops up to `max` available chains and appends them to `burst`, as far as it has room; returns how many.
    ///
    /// Returns fewer, but at least one, if these chains are much work: the others come with the next call.
    ///
    /// A malformed chain ends the burst before it; the next call, where it comes first, reports it. A burst whose
    /// chains are all used, or that came from another queue, is cleared first.
    ///
    /// # Errors
    /// The first chain to be popped is malformed; the ring then stays stopped until it is reset. Or the IOTLB lacks
    /// a translation for it; call again when the front-end has sent one.
    fn pop(&mut self, burst: &mut Burst, max: usize) -> Result<usize, PopError>;

    /// Rewinds the queue to the chain `from`, as if it and those behind it had not been popped; returns how many.
    /// Only the chains that this queue handed out last can go back, and none of them used; otherwise it is 0.
    fn rewind(&mut self, burst: &mut Burst, from: usize) -> usize;

    /// Gives chains of `burst` back to the driver as used, with the lengths that were set, and publishes once.
    ///
    /// Chains that are used already are skipped. Ranges may come in any order, except that a queue with
    /// IN_ORDER wants the order in which the chains were popped. Chains of a queue that was reset are dropped.
    fn add_used(&mut self, burst: &mut Burst, chains: Range<usize>);

    /// Gives all chains of `burst` back.
    fn add_used_all(&mut self, burst: &mut Burst) {
        self.add_used(burst, 0..burst.len());
    }

    /// Whether the driver wants to be called for what was used since this was last asked.
    fn needs_call(&mut self) -> bool;

    /// Asks the driver for a kick when more becomes available. True if something is there already: then
    /// pop again, no kick will come for it.
    #[must_use]
    fn enable_kicks(&mut self) -> bool;

    /// Tells the driver that no kick is needed.
    fn disable_kicks(&mut self);

    /// Whether it can demote the lines of descriptors when it gives chains back (see
    /// [`Burst::set_descriptor_demotion`]): there are lines that hold nothing else, and that this side only reads.
    fn demotes_descriptors(&self) -> bool;

    /// The number of chains that the driver has made available and that are not popped, for reports: at most the
    /// number of descriptors.
    fn available(&self) -> u16;

    /// Where the ring stands.
    fn position(&self) -> Position;

    /// Why the ring is stopped, if it is.
    fn broken(&self) -> Option<RingError>;

    /// Goes over to another snapshot of the guest's memory. Chains in bursts stay valid.
    fn set_space(&mut self, space: Arc<AddressSpace>);

    /// Starts or ends the logging of writes.
    fn set_log(&mut self, log: Option<UsedLog>);
}
