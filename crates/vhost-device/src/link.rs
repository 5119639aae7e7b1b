//! How a device gets its connections: it listens, or connects repeatedly.
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use vhost_user::socket::{Connection, Listener, SocketError};

use crate::descriptors::DescriptorGuard;
use crate::unix_socket::connect_now;

/// The time between two attempts to connect or, if the system refuses it, to accept.
pub(crate) const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Which end listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// This end listens; the path is made and removed with the device.
    #[default]
    Server,
    /// This end connects, and tries again while no server listens.
    Client,
}

/// The socket that waits for peers, or the attempts to connect.
#[derive(Debug)]
pub(crate) enum Link {
    /// Listening.
    Server(Listener),
    /// Not connected; `told` is set after the reason was logged.
    Client { told: bool },
}

/// Connects if a server listens.
pub(crate) fn try_connect(path: &Path, guard: &Arc<DescriptorGuard>) -> Result<Connection, SocketError> {
    connect_now(path, guard).map_err(|source| SocketError::System {
        what: format!("connect to the vhost-user socket {}", path.display()),
        source,
    })
}
