//! What decides about the frames of one port, and what it has to say.
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use frame::{DropReason, FrameBatch, HeadEdit};
use virtio::net::MacAddress;

use crate::{PortId, Refused, WorkerFlows};

/// Tells the time to a program, which asks only where a limit needs it.
pub type Now<'a> = &'a dyn Fn() -> Instant;

/// What decides where the frames of one port go.
pub trait Program: Debug + Send + Sync {
    /// Says of each frame of the burst where it goes, or why it goes nowhere.
    fn run(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded;

    /// Where frames may go.
    fn reach(&self) -> Reach<'_>;

    /// A station says that it is behind the port now (RARP, of a guest that has moved).
    fn announce(&self, address: MacAddress) -> Announced;
}

/// What takes the decisions on the frames of one burst. Frames are counted from 0 in the burst.
pub trait Output {
    /// Gives frames to a port. False, and nothing done, if the port has no queue running.
    fn send(&mut self, to: PortId, frames: Range<u16>) -> bool;

    /// Gives the whole burst to a port at once. False, and nothing done, if the port has no queue running or several.
    fn send_all(&mut self, to: PortId) -> bool;

    /// At least the first `bytes` of a frame, as far as it has them, up to [`frame::WINDOW_BYTES`]. What lies behind its
    /// snapshot is read once, and is what the receivers get.
    fn window(&mut self, frame: u16, bytes: usize) -> &[u8];

    /// Edits frames for the calls of [`Output::send_edited`] that follow, until the next edit. Frames that cannot be edited
    /// so are dropped. What is sent as it is, before or after, stays as it is.
    fn edit(&mut self, frames: Range<u16>, edit: &HeadEdit<'_>);

    /// Gives the frames of the last [`Output::edit`] to a port, edited. False, and nothing done, if the port has no queue
    /// running. A port gets a burst's edited frames behind those that were sent as they are, in their order for each edit.
    fn send_edited(&mut self, to: PortId) -> bool;

    /// The worker's flow tables, to be taken for the time of one burst; none if the switch has none.
    fn flows(&mut self) -> &mut Option<Box<WorkerFlows>>;

    /// Counts so many frames that go nowhere.
    fn drop(&mut self, reason: DropReason, frames: u64);
}

/// Frames of a burst that went to several ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flooded {
    /// Frames.
    pub frames: u64,
    /// How often they were given to a port.
    pub copies: u64,
}

/// Where the frames of a port may go.
#[derive(Clone, Copy, Debug)]
pub enum Reach<'a> {
    /// To no port.
    Nowhere,
    /// To one.
    Port(PortId),
    /// To each of these but the port itself. Ports that reach each other share one list.
    Others(&'a Arc<[PortId]>),
    /// To each of these and back to the port itself. Ports that reach each other share one list.
    All(&'a Arc<[PortId]>),
}

/// What came of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// The station is there; other bridges can be told.
    Accepted,
    /// The port may not have this address.
    NotAllowed,
    /// The address stays where it is.
    Refused(Refused),
}
