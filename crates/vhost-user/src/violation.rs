//! Violations of the protocol by a peer.
use thiserror::Error;

/// A message that breaks the protocol: the message, the field, its value, and what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{message}: {field} is {value} ({value:#x}), expected {expected}")]
pub struct Violation {
    /// The message's name in the vhost-user text, without its prefix.
    pub message: &'static str,
    /// The field, or the rule, that is broken.
    pub field: &'static str,
    /// The value that the peer sent.
    pub value: u64,
    /// The valid values.
    pub expected: &'static str,
}

impl Violation {
    pub(crate) fn new(
        message: &'static str,
        field: &'static str,
        value: impl Into<u64>,
        expected: &'static str,
    ) -> Self {
        Self { message, field, value: value.into(), expected }
    }
}
