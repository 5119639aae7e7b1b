//! A device on its way from one process to another that goes on with it.
use serde_json::Value;
use vhost_user::SharedFd;

/// What the other process needs: words, and the descriptors that they name by their place in `files`.
///
/// Processes one version apart understand each other: the reader ignores fields that it does not know, and has a
/// default for each that may be missing.
#[derive(Debug, Default)]
pub struct HandOverState {
    /// Of the kind of device that wrote it.
    pub words: Value,
    /// Held by the device too.
    pub files: Vec<SharedFd>,
}
