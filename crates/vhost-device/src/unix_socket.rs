//! A vhost-user socket: checks its path before use, and connects to it.
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use vhost_user::socket::{Connection, DescriptorFilter};

use crate::DeviceError;
use crate::descriptors::DescriptorGuard;

/// Longest path of a socket in bytes: `sun_path` of `unix(7)` has 108, the last of which is 0.
const MOST_BYTES: usize = 107;

/// Checks that a socket can be bound to a path. `kind` is the word before the path in `kind:path`.
///
/// # Errors
/// The path is too long.
pub fn check(kind: &str, path: &Path) -> Result<(), DeviceError> {
    let bytes = path.as_os_str().as_bytes().len();
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let why = format!("a socket's path has at most {MOST_BYTES} bytes, this one {bytes}");
    Err(DeviceError::new(format!("use {kind}:{}", path.display()), why, "choose a shorter path"))
}

/// Connects if a server listens. Never waits, even if the server's queue of connections is full.
///
/// # Errors
/// No server listens there, its queue of connections is full, or the system has no socket left.
pub fn connect_now(path: &Path, guard: &Arc<DescriptorGuard>) -> io::Result<Connection> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let mut connection = Connection::from(guard.hold(socket));
    connection.set_filter(Arc::clone(guard) as _);
    Ok(connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_path_that_the_system_takes_is_taken() {
        let path = |bytes: usize| format!("/{}", "x".repeat(bytes - 1));
        assert!(check("vhost-user", Path::new(&path(107))).is_ok());
        let error = check("vhost-user", Path::new(&path(108))).unwrap_err().to_string();
        assert!(error.contains("107") && error.contains("108") && error.contains("shorter"), "{error}");
    }
}
