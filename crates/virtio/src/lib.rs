//! Feature bits, device types, the net header and its offloads.
#![deny(unsafe_code)]

mod features;
pub mod net;

pub use features::{Feature, Features};
