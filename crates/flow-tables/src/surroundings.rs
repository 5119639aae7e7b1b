//! The services that execution requires from its caller: the time, ports, connections, controllers, and space for learned
//! flows.
use std::sync::Arc;

use flow::{Controller, Key, Learn};

use crate::{Connection, HeaderWindow, Track};

/// The services that execution requires from its caller.
pub trait Surroundings {
    /// The time in ms.
    fn now_ms(&mut self) -> u64;

    /// The ports that receive a flooded frame.
    fn ports(&self) -> &[u16];

    /// Whether a port is up.
    fn is_live(&self, port: u16) -> bool;

    /// Whether a port needs the tunnel fields of the frames that it sends ([`crate::Delivery::tunnel`]).
    fn is_tunnel(&self, _port: u16) -> bool {
        false
    }

    /// Looks up the frame's connection. An address translation is written to the header window.
    fn track(&mut self, track: &Track, window: &mut HeaderWindow) -> Connection;

    /// Whether the frame that was tracked last is a fragment that waits for the rest of its datagram: the frame is executed
    /// again later, and [`crate::Tables::execute_once`] does not count it before.
    fn waits(&self) -> bool {
        false
    }

    /// Adds the flow that a frame with these fields learns: [`crate::Tables::learn`]. Returns false if there is no
    /// space.
    fn learn(&mut self, learn: &Arc<Learn>, key: &Key) -> bool;

    /// Whether a frame can be given to controllers by this action. If not, the outcome does not have the frame.
    fn has_room_for_packet_in(&mut self, controller: &Controller) -> bool;
}
