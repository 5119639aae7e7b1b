//! The process at the other end of a UNIX socket (SO_PEERCRED, unix(7)). `rustix` assumes that the process id is
//! never 0. It is 0 for a process of a PID namespace that this process cannot see.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::process::{Pid, Uid};

/// The process that connected, or that listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The user of the process, as this process sees it.
    pub user: Uid,
    /// The process id, if this process can see the other's PID namespace.
    pub process: Option<Pid>,
}

/// The credentials of the process at the other end of a socket.
///
/// # Errors
/// The descriptor is no socket.
pub fn peer(socket: impl AsFd) -> io::Result<Peer> {
    // SAFETY: all zeros is a valid `ucred`: integers.
    let mut found: libc::ucred = unsafe { std::mem::zeroed() };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most so many bytes to the one structure, and the count; both live through the call.
    let asked = unsafe {
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut found).cast(), &raw mut bytes)
    };
    if asked != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { user: Uid::from_raw(found.uid), process: Pid::from_raw(found.pid) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use rustix::process::{getpid, getuid};

    use super::*;

    #[test]
    fn this_process_knows_itself() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer(&one).unwrap(), Peer { user: getuid(), process: Some(getpid()) });
    }

    #[test]
    fn what_is_no_socket_has_no_peer() {
        assert!(peer(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
