//! `tautline kvm`: what a running guest costs, by the host's traces.

pub mod costs;
pub mod exits;
pub mod interrupts;
pub mod path;
mod record;
pub mod worst;
mod written;

pub use record::Heading;
