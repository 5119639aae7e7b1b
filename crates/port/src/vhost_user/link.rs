//! How a port comes to its connections: by listening or by connecting again and again.
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use vhost_user::socket::{Connection, Listener, SocketError};

/// Time between two attempts to connect or, if the system refuses it, to accept.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// Who waits for whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// This end listens; the path is made and removed with the port.
    #[default]
    Server,
    /// This end connects, and tries again for as long as nobody listens.
    Client,
}

/// The socket that waits for peers.
#[derive(Debug)]
pub(super) enum Link {
    /// Listening.
    Server(Listener),
    /// Not connected; `told` once it was said why.
    Client { told: bool },
}

/// Connects if somebody listens; never waits, not even for a server whose queue of peers is full.
pub(super) fn try_connect(path: &Path) -> Result<Connection, SocketError> {
    let failed = |errno: Errno| SocketError::System {
        what: format!("connect to the vhost-user socket {}", path.display()),
        source: errno.into(),
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed)?;
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    connect(&socket, &address).map_err(failed)?;
    Ok(socket.into())
}
