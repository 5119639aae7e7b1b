//! Ports without a switch, to which generator and receiver are connected.
mod board;
mod end;
mod responder;

pub use board::{RigError, TestRig};
pub use end::{End, Pair};
pub use responder::{Failure, Responder};
