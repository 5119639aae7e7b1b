//! Descriptors that a peer passes: which are taken, and where they are closed.
//!
//! `close` may wait for somebody: a TCP socket lingers for unsent data, a file in user space asks its server. The
//! control thread serves all ports, so it closes nothing of that kind. See
//! `docs/decisions/descriptors-that-close-slowly.md`.
mod closer;
mod kind;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use vhost_user::socket::{Connection, DescriptorFilter};

use crate::PortError;
pub use closer::Closer;
use closer::{CLOSE_LIMIT, MAX_THREADS};

/// Looks at all descriptors that come to one port, whatever connection they come over.
#[derive(Debug, Default)]
pub(crate) struct DescriptorGuard {
    closer: Closer,
}

impl DescriptorGuard {
    /// Closes a connection elsewhere: descriptors that were sent over it and not read are closed with it. Its peer
    /// hears of the end at once.
    pub fn close(&self, connection: Connection) {
        let last = connection.as_fd().try_clone_to_owned();
        // In this order: the reference that is closed last is the other thread's. (Out of descriptors it is this one.)
        drop(connection);
        if let Ok(last) = last {
            self.closer.close(last);
        }
    }

    /// An error, which ends the port, once all threads that close hang, and more waits for them.
    pub fn check(&self, port: &str) -> Result<(), PortError> {
        if !self.closer.hangs() {
            return Ok(());
        }
        let why = format!(
            "{MAX_THREADS} of them do not close, another has waited for longer than {} s",
            CLOSE_LIMIT.as_secs()
        );
        let what = format!("close descriptors that were passed to {port}");
        Err(PortError::new(what, why, "find out who passes them, and start the switch again"))
    }
}

impl DescriptorFilter for DescriptorGuard {
    fn admit(&self, fd: OwnedFd, socket: BorrowedFd<'_>) -> Result<OwnedFd, String> {
        match kind::slow_to_close(fd.as_fd(), socket) {
            None => Ok(fd),
            Some(kind) => {
                self.closer.close(fd);
                Err(kind)
            }
        }
    }
}
