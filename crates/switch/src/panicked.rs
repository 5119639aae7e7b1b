//! What a port's control side said when it panicked.
use port::PortError;

use crate::RunError;

/// The port is gone.
#[derive(Debug, thiserror::Error)]
#[error(
    "panicked: {0}; this is a mistake of Tautline, please report it; the port is ended, all others go on"
)]
pub(crate) struct Panicked(pub String);

impl Panicked {
    /// The error of a switch that must end because the port `name` panicked.
    pub fn port(self, name: String) -> RunError {
        RunError::PortPanicked { name, message: self.0 }
    }
}

impl From<Panicked> for PortError {
    fn from(Panicked(message): Panicked) -> Self {
        PortError::new(
            "starting it",
            format!("panicked: {message}"),
            "this is a mistake of Tautline, please report it",
        )
    }
}
