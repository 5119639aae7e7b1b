//! What execution asks of its caller: ports, meters, connections, room for learned flows.
use flow::{Flow, Key, Learn};

use crate::{Connection, HeaderWindow, Track};

/// What execution asks of its caller.
pub trait Surroundings {
    /// The ports that a flood goes to.
    fn ports(&self) -> &[u16];

    /// Whether a port is up.
    fn is_live(&self, port: u16) -> bool;

    /// Whether a meter lets a frame of this length pass.
    fn meter(&mut self, meter: u32, frame_bytes: usize) -> bool;

    /// Looks up the frame's connection. Address translation is written into the header window.
    fn track(&mut self, track: &Track<'_>, window: &mut HeaderWindow, key: &Key) -> Connection;

    /// Adds a flow that a frame of this input port has learned: [`crate::Tables::learn`]. False if there is no room.
    fn learn(&mut self, flow: &Flow, learn: &Learn, input: u16) -> bool;
}
