//! The interface of programs, which decide about the frames of one port.
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use frame::{DropReason, FrameBatch, HeadEdit, Metadata, OwnFrames};
use virtio::net::MacAddress;

use crate::{PortId, Refused, TablesId, WorkerFlows};

/// Reads the clock for a program, which calls it only if a limit needs the time.
pub type Now<'a> = &'a dyn Fn() -> Instant;

/// Decides about the destinations of the frames of one port.
pub trait Program: Debug + Send + Sync {
    /// Decides for each frame of the burst where it goes, or why it is dropped.
    fn run(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded;

    /// Fills a batch with frames that the program has held and that go on now. Returns false if there are none. Called
    /// after a burst in which the program called [`Output::again`], until it returns false.
    fn take_held(&self, _into: &mut OwnFrames, _output: &mut dyn Output) -> bool {
        false
    }

    /// Decides about the frames of [`Program::take_held`].
    fn run_held(&self, batch: &FrameBatch, now: Now<'_>, output: &mut dyn Output) -> Flooded {
        self.run(batch, now, output)
    }

    /// The ports to which frames may go.
    fn reach(&self) -> Reach<'_>;

    /// Handles a station's announcement that it is behind the port now (RARP, from a guest that has migrated).
    fn announce(&self, address: MacAddress) -> Announced;
}

/// Takes the decisions about the frames of one burst. Frames are identified by their index in the burst, from 0.
pub trait Output {
    /// Gives frames to a port. Returns false and does nothing if the port has no running queue.
    fn send(&mut self, to: PortId, frames: Range<u16>) -> bool;

    /// Gives the whole burst to a port at once. Returns false and does nothing if the port has no running queue,
    /// or several.
    fn send_all(&mut self, to: PortId) -> bool;

    /// The first bytes of a frame: at least `bytes`, but not more than the frame has or [`frame::WINDOW_BYTES`].
    /// Bytes behind the snapshot are read once. The receivers get what was read.
    fn window(&mut self, frame: u16, bytes: usize) -> &[u8];

    /// Edits frames for the calls of [`Output::send_edited`] that follow, until the next edit. Frames that cannot be edited
    /// are dropped. Frames that are sent unedited, before or after, are not affected.
    fn edit(&mut self, frames: Range<u16>, edit: &HeadEdit<'_>);

    /// Gives the frames of the last [`Output::edit`] metadata.
    fn attach(&mut self, metadata: &Metadata);

    /// Gives the frames of the last [`Output::edit`] to a port, edited. Returns false and does nothing if the port
    /// has no running queue. A port receives the unedited frames of a burst first, then the edited ones, in order
    /// for each edit.
    fn send_edited(&mut self, to: PortId) -> bool;

    /// The worker's flow tables of this number, to be taken for the time of one burst; none if there are none.
    fn flows(&mut self, tables: TablesId) -> &mut Option<Box<WorkerFlows>>;

    /// Says that the program has held frames that go on after this burst.
    fn again(&mut self) {}

    /// Counts frames that go nowhere.
    fn drop(&mut self, reason: DropReason, frames: u64);
}

/// Frames of a burst that went to several ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flooded {
    /// Frames.
    pub frames: u64,
    /// How often these frames were given to a port.
    pub copies: u64,
}

impl Flooded {
    /// Counts a frame that was given to ports so many times.
    #[inline]
    pub fn count(&mut self, copies: u64) {
        if copies > 1 {
            self.frames += 1;
            self.copies += copies;
        }
    }
}

/// Where the frames of a port may go.
#[derive(Clone, Copy, Debug)]
pub enum Reach<'a> {
    /// To no port.
    Nowhere,
    /// To one.
    Port(PortId),
    /// To each of these ports except the port itself. Ports that reach each other share one list.
    Others(&'a Arc<[PortId]>),
    /// To each of these and back to the port itself. Ports that reach each other share one list.
    All(&'a Arc<[PortId]>),
}

/// The result of an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announced {
    /// The station is behind the port now; other bridges can be informed.
    Accepted,
    /// The port must not use this address.
    NotAllowed,
    /// The address stays at its present port.
    Refused(Refused),
}
