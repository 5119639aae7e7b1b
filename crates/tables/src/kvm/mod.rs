//! `tautline kvm`: what a virtual machine costs, exit by exit.

pub mod costs;
pub mod exits;
pub mod path;
pub mod worst;
