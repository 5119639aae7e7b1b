//! A client of the server that is no guest: a receiver on the host or in a container.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use measure::Failure;

use super::message::{MEMORY, VERSION, receive};

/// Connects to the server at `socket`. Returns the shared memory, and the eventfds of the first `vectors` interrupts.
///
/// # Errors
/// No server of this protocol listens there.
pub fn connect(socket: &Path, vectors: usize, limit: Duration) -> Result<(OwnedFd, Vec<OwnedFd>), Failure> {
    let failed = |error: io::Error| {
        let tried = format!("connecting to the ivshmem server at {}", socket.display());
        Failure::new(tried, error, "see whether the source of the ticks still runs")
    };
    let odd = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let connected = || -> io::Result<(OwnedFd, Vec<OwnedFd>)> {
        let connection = UnixStream::connect(socket)?;
        connection.set_read_timeout(Some(limit))?;
        if receive(&connection)?.0 != VERSION {
            return Err(odd("another version of the protocol"));
        }
        let (own, _) = receive(&connection)?;
        let (MEMORY, Some(memory)) = receive(&connection)? else {
            return Err(odd("no shared memory where it belongs"));
        };
        let mut interrupts = Vec::new();
        while interrupts.len() < vectors {
            // Vectors of other peers, to ring them, may come before one's own.
            match receive(&connection)? {
                (peer, Some(vector)) if peer == own => interrupts.push(vector),
                _ => {}
            }
        }
        Ok((memory, interrupts))
    };
    connected().map_err(failed)
}
