//! The state of a device that is handed over to another process.
use serde_json::Value;
use vhost_user::SharedFd;

/// The state for the other process: a JSON document, and the descriptors that it names by their index in `files`.
///
/// Processes one version apart understand each other: the reader ignores unknown fields, and has a default for each
/// field that may be missing.
#[derive(Debug, Default)]
pub struct HandOverState {
    /// The document, in the format of the kind of device that wrote it.
    pub words: Value,
    /// The descriptors, which the device holds too.
    pub files: Vec<SharedFd>,
}
