//! The kernel's side of a device, as a session uses it. Tests have a kernel of their own.
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use linux::vduse::{Device, MemoryEntry, Queue, Reply, Request};
use vhost_user::SharedFd;

use crate::EventFd;

/// An open VDUSE device. The functions are those of [`Device`].
pub(super) trait Kernel: Send + Sync {
    /// The file, which is readable when a request waits.
    fn file(&self) -> SharedFd;

    fn features(&self) -> io::Result<u64>;

    fn queue(&self, index: u32, is_packed: bool) -> io::Result<Queue>;

    fn set_kick(&self, index: u32, kick: &EventFd) -> io::Result<()>;

    fn inject(&self, index: u32) -> io::Result<()>;

    fn memory(&self, start: u64) -> io::Result<Option<(MemoryEntry, OwnedFd)>>;

    fn request(&self) -> io::Result<Option<Request>>;

    fn reply(&self, request: Request, reply: Reply) -> io::Result<()>;
}

impl Kernel for Arc<Device> {
    fn file(&self) -> SharedFd {
        SharedFd::new(Arc::clone(self))
    }

    fn features(&self) -> io::Result<u64> {
        Device::features(self)
    }

    fn queue(&self, index: u32, is_packed: bool) -> io::Result<Queue> {
        Device::queue(self, index, is_packed)
    }

    fn set_kick(&self, index: u32, kick: &EventFd) -> io::Result<()> {
        Device::set_kick(self, index, kick.as_fd())
    }

    fn inject(&self, index: u32) -> io::Result<()> {
        Device::inject(self, index)
    }

    fn memory(&self, start: u64) -> io::Result<Option<(MemoryEntry, OwnedFd)>> {
        Device::memory(self, start)
    }

    fn request(&self) -> io::Result<Option<Request>> {
        Device::request(self)
    }

    fn reply(&self, request: Request, reply: Reply) -> io::Result<()> {
        Device::reply(self, request, reply)
    }
}
