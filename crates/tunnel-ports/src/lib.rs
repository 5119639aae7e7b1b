//! Tunnels as ports of a switch.
//!
//! A tunnel port (`geneve:`, `vxlan:`, `gre:`) has no wire. Frames to it get outer headers and leave through an *underlay*:
//! a port (`underlay:NAME`) that is a TAP, whose addresses and routes, set with `ip` as for any interface, say where
//! tunnels end. Both are ports of one switch, usually in different networks:
//!
//! ```text
//!   network of guests         network of the host's links
//!   guest ──► tunnel          ┌─► underlay ──► kernel (all frames that are for no tunnel)
//!               │ Encapsulator│     │ Terminator
//!               ▼             │     ▼
//!             queue of the underlay: its frames enter that network as frames of the kernel do
//!                                   queue of the tunnel: its frames enter the network of guests
//! ```
//!
//! A frame is copied into the queue, and once more by its receiver. A frame that is still to be segmented is segmented by
//! that first copy: its segments get their headers, and the payload stays where the sender put it. Checksums that a sender
//! left partial stay so as long as possible: if the inner one is partial, the outer one follows from headers alone.
//!
//! # State of the process
//!
//! Underlays, tunnels and neighbours are known to the whole process (`registry.rs`). Workers read a view of them that is
//! replaced when something changes. Locks on the packet path:
//!
//! - that of a queue, which several workers may fill: once for each burst;
//! - that of an underlay's list of answers (`heard.rs`), which is never waited for: for each answer;
//! - that of the fragments that wait at an underlay: for each fragment, while it is kept or its packet put together;
//! - that of the registry: when the next hop of a frame is unknown, about once a second and tunnel, and when the view was
//!   replaced.
//!
//! # Where to change what
//!
//! - Frames to a tunnel: `encapsulator.rs`; frames from the network: `terminator.rs`, `source.rs`; their fragments:
//!   `fragments.rs`.
//! - Addresses, routes and requests for neighbours: `underlay.rs`, `registry.rs`.
//! - Sessions that check the path to the other end (BFD): `monitor.rs`, `inbox.rs`, and the protocol in `tunnels::bfd`.
//! - Options of ports: `spec.rs`.
#![forbid(unsafe_code)]

mod bytes;
mod context;
mod encapsulator;
mod fragments;
mod heard;
mod inbox;
mod monitor;
mod queue;
mod registry;
mod report;
mod source;
mod spec;
mod terminator;
#[cfg(test)]
mod tests;
mod tunnel;
mod underlay;
mod view;

pub use registry::set_options;
pub use report::{HopReport, NeighbourReport, Report, RouteReport, TunnelReport, UnderlayReport, report};
pub use spec::{BRIDGE_OPTION, KINDS, is_tunnel};
