//! A descriptor with several holders.
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A descriptor that all of its clones share: no clone opens anything, and the last one closes it.
///
/// What closing means is decided by the value that it is made of. An [`OwnedFd`] is closed by the thread that drops the
/// last clone. That may wait for the peer that passed the descriptor, so a
/// [`DescriptorFilter`](crate::socket::DescriptorFilter) makes it of a value that is closed elsewhere. No descriptor can
/// be taken out again, so none can be closed in another way.
#[derive(Clone)]
pub struct SharedFd(Arc<dyn AsFd + Send + Sync>);

impl SharedFd {
    /// Of a value that holds a descriptor, and closes it when it is dropped.
    pub fn new(fd: impl AsFd + Send + Sync + 'static) -> Self {
        SharedFd(Arc::new(fd))
    }

    /// Whether both are clones of one.
    pub fn is_same(&self, other: &SharedFd) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<OwnedFd> for SharedFd {
    fn from(fd: OwnedFd) -> Self {
        SharedFd::new(fd)
    }
}

impl AsFd for SharedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl fmt::Debug for SharedFd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedFd").field(&self.as_fd()).finish()
    }
}
