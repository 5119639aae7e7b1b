//! Feature bits and the network device's formats: values and pure functions, no I/O, no shared memory.
#![deny(unsafe_code)]

mod features;
pub mod net;

pub use features::{Feature, Features};
