//! The services that execution requires from its caller: ports, meters, connections, and space for learned flows.
use flow::{Flow, Key, Learn};

use crate::{Connection, HeaderWindow, Track};

/// The services that execution requires from its caller.
pub trait Surroundings {
    /// The ports that receive a flooded frame.
    fn ports(&self) -> &[u16];

    /// Whether a port is up.
    fn is_live(&self, port: u16) -> bool;

    /// Whether a meter lets a frame of this length pass.
    fn meter(&mut self, meter: u32, frame_bytes: usize) -> bool;

    /// Looks up the frame's connection. An address translation is written to the header window.
    fn track(&mut self, track: &Track<'_>, window: &mut HeaderWindow, key: &Key) -> Connection;

    /// Adds a flow that a frame of this input port has learned: [`crate::Tables::learn`]. Returns false if there is
    /// no space.
    fn learn(&mut self, flow: &Flow, learn: &Learn, input: u16) -> bool;
}
