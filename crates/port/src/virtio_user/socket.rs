//! Getting a connection without ever waiting for one.
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use vhost_user::socket::Connection;

/// Connects at once, or says why not: nobody there, or a server that does not accept fast enough.
pub(super) fn dial(path: &Path) -> io::Result<Connection> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket).into())
}
