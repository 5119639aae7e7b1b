//! Errors of the client, with their exit codes.
use control::ClientError;
use linux::interrupt::Interrupted;

/// An error of the client; an interrupt has its own exit code.
pub fn failed(error: ClientError) -> anyhow::Error {
    match error {
        ClientError::Interrupted => Interrupted.into(),
        error => error.into(),
    }
}
