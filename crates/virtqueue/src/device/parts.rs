//! The parts from which the device half of a ring is made.

use memory::Translator;

use super::UsedLog;
use crate::{Position, QueueSize};

/// A ring whose memory has been found, with the state that belongs to it. Nothing in the ring is trusted yet. `I` is
/// the type that records chains in flight.
#[derive(Debug)]
pub struct DeviceParts<R, I> {
    /// The ring.
    pub ring: R,
    /// Its size.
    pub size: QueueSize,
    /// The position at which the queue continues.
    pub position: Position,
    /// Translates the addresses of buffers.
    pub translator: Translator,
    /// The dirty log, while a guest migrates.
    pub log: Option<UsedLog>,
    /// The in-flight region, where there is one.
    pub in_flight: Option<I>,
}
