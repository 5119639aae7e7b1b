//! Flows in Open vSwitch's meaning: the fields of a frame, matches on them, and their text form.
//!
//! | type | what it is |
//! |---|---|
//! | [`Key`] | the fields of one frame, at fixed places in 64-bit words |
//! | [`Field`] | one field: its names, its place in a key, how its values are written |
//! | [`Match`] | wanted values under a mask of bits that count |
//!
//! [`extract`] reads a key from the headers of a frame. The crate opens nothing and reads no clock.
//!
//! # Where to change what
//!
//! - To add a field: its row in `field.rs`; its place is free in `Key`, or `Key::WORDS` grows. Extraction in
//!   `extract.rs`; its place in the order of printing in `text/print.rs`.
#![forbid(unsafe_code)]

mod extract;
mod field;
mod key;
mod matching;
mod text;

pub use extract::{Layers, WINDOW_BYTES, extract};
pub use field::{Field, Needs, Notation};
pub use key::Key;
pub use matching::{Match, protocol};
pub use text::ParseError;
