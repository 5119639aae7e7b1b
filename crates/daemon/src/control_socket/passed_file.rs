//! A file that came with a request. Its file system may be a server that does not answer.
use std::os::fd::OwnedFd;
use std::sync::Arc;

use memory::DropQueue;

/// A passed descriptor. Another thread closes it, unless it is taken out.
pub struct PassedFile {
    fd: Option<OwnedFd>,
    closer: Arc<DropQueue>,
}

impl PassedFile {
    pub fn new(fd: OwnedFd, closer: &Arc<DropQueue>) -> Self {
        PassedFile { fd: Some(fd), closer: Arc::clone(closer) }
    }

    /// The caller closes it, on a thread that may wait.
    pub fn into_fd(mut self) -> OwnedFd {
        self.fd.take().expect("it is taken once")
    }
}

impl Drop for PassedFile {
    fn drop(&mut self) {
        if let Some(fd) = self.fd.take() {
            self.closer.put(fd);
        }
    }
}
