//! A port on its way from one process to another that goes on with it.
use std::os::fd::OwnedFd;

use serde_json::Value;

/// What the other process needs: words, and the descriptors that they name by their place in `files`.
///
/// Processes one version apart understand each other: whoever reads leaves fields aside that it does not know, and has
/// a default for each that may be missing.
#[derive(Debug, Default)]
pub struct PortState {
    /// Of the kind of port that wrote it.
    pub words: Value,
    /// Duplicates of its own.
    pub files: Vec<OwnedFd>,
}
