//! What the device half of a ring is made of.

use memory::Translator;

use super::UsedLog;
use crate::{Position, QueueSize};

/// A ring whose memory has been found, and what goes with it. Nothing in the ring is trusted yet. `I` is what records
/// chains that are in flight.
#[derive(Debug)]
pub struct DeviceParts<R, I> {
    /// The ring.
    pub ring: R,
    /// Its size.
    pub size: QueueSize,
    /// Where it goes on.
    pub position: Position,
    /// Finds the buffers.
    pub translator: Translator,
    /// The dirty log, while a guest migrates.
    pub log: Option<UsedLog>,
    /// The in-flight region, where there is one.
    pub in_flight: Option<I>,
}
