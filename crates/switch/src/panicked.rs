//! The error of a port whose control side panicked.
use port::PortError;

use crate::error::{RunError, WHERE};

/// The port is ended.
#[derive(Debug, thiserror::Error)]
#[error(
    "its control code panicked: {0}; {WHERE}; the port is ended, all others continue; \
     'tautline ctl SOCKET remove' and 'add' start it anew"
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
            format!("its control code panicked: {message}"),
            format!("{WHERE}; the switch goes on without this port"),
        )
    }
}
