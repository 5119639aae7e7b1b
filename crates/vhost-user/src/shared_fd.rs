//! A descriptor with several owners.
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A descriptor that all of its clones share. Cloning opens nothing, and dropping the last clone closes it.
///
/// The value that it is made from decides how it is closed. An [`OwnedFd`] is closed by the thread that drops the
/// last clone. Closing may wait for the peer that passed the descriptor. A
/// [`DescriptorFilter`](crate::socket::DescriptorFilter) therefore makes it from a value that another thread closes.
/// The descriptor cannot be taken out again, so it cannot be closed in another way.
#[derive(Clone)]
pub struct SharedFd(Arc<dyn AsFd + Send + Sync>);

impl SharedFd {
    /// Shares a value that holds a descriptor and closes it when it is dropped.
    pub fn new(fd: impl AsFd + Send + Sync + 'static) -> Self {
        SharedFd(Arc::new(fd))
    }

    /// Whether both are clones of the same descriptor.
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
