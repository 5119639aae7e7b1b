//! The device half of a queue, independent of layout and features.

mod log;
mod owner;
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
/// There is one virtual call for each burst. The code behind it is compiled for the ring's layout and features.
pub trait DeviceQueue: Send {
    /// Number of descriptors.
    fn size(&self) -> QueueSize;

    /// Pops up to `max` available chains and appends them to `burst`, as far as it has room; returns how many.
    ///
    /// Returns fewer, but at least one, if these chains are much work. The others come with the next call.
    ///
    /// A malformed chain ends the burst before it. The next call, for which this chain is the first, reports it. A
    /// burst whose chains are all used, or that came from another queue, is cleared first.
    ///
    /// # Errors
    /// The first chain to be popped is malformed. The ring then stays stopped until it is reset. Or the IOTLB lacks a
    /// translation for a descriptor; call again when the front-end has sent the translation.
    fn pop(&mut self, burst: &mut Burst, max: usize) -> Result<usize, PopError>;

    /// Rewinds the queue to the chain `from`, as if that chain and those behind it had not been popped. Returns how
    /// many. Only the chains that this queue popped last can be rewound, and only if none of them is used. Otherwise
    /// the result is 0.
    fn rewind(&mut self, burst: &mut Burst, from: usize) -> usize;

    /// Gives chains of `burst` back to the driver as used, with the lengths that were set, and publishes once.
    ///
    /// Chains that are used already are skipped. Ranges may come in any order, except for a queue with IN_ORDER,
    /// which needs the order in which the chains were popped. Chains of a queue that was reset are dropped.
    fn add_used(&mut self, burst: &mut Burst, chains: Range<usize>);

    /// Gives all chains of `burst` back.
    fn add_used_all(&mut self, burst: &mut Burst) {
        self.add_used(burst, 0..burst.len());
    }

    /// Whether the driver must be called for chains that were used since the last call of this function.
    fn needs_call(&mut self) -> bool;

    /// Asks the driver for a kick when more becomes available. Returns true if chains are available already. The
    /// caller must then pop again, because no kick will come for them.
    #[must_use]
    fn enable_kicks(&mut self) -> bool;

    /// Tells the driver that no kick is needed.
    fn disable_kicks(&mut self);

    /// Whether the queue can demote the cache lines of descriptors when it gives chains back (see
    /// [`Burst::set_descriptor_demotion`]). The lines must hold nothing else, and this side must only read them.
    fn demotes_descriptors(&self) -> bool;

    /// The number of chains that the driver has made available and that are not popped, for reports. At most the
    /// number of descriptors.
    fn available(&self) -> u16;

    /// The position of the ring.
    fn position(&self) -> Position;

    /// Why the ring is stopped, if it is.
    fn broken(&self) -> Option<RingError>;

    /// Replaces the snapshot of the guest's memory. Chains in bursts stay valid.
    fn set_space(&mut self, space: Arc<AddressSpace>);

    /// Starts or ends the logging of writes.
    fn set_log(&mut self, log: Option<UsedLog>);
}
