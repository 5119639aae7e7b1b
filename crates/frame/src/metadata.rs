//! Data that travel beside a frame.

/// The number of words in [`Metadata`].
pub const METADATA_WORDS: usize = 15;

/// The tunnel that a frame comes from or goes to, as words whose meaning the crate `flow` gives them.
pub type Metadata = [u64; METADATA_WORDS];
