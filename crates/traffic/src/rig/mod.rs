//! Ports without a switch: what a generator and receiver are plugged into.
mod board;
mod end;
mod responder;

pub use board::{RigError, TestRig};
pub use end::{End, Pair};
pub use responder::{Failure, Responder};
