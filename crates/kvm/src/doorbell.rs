//! An ioeventfd that a host thread waits for, even after the guest has stopped writing to it.

use std::sync::atomic::{AtomicBool, Ordering};

use measure::Failure;
use vmm_sys_util::eventfd::EventFd;

use crate::failed::SEE_LOG;

/// An ioeventfd, and whether the guest that writes to it has ended.
pub struct Doorbell {
    event: EventFd,
    has_ended: AtomicBool,
}

impl Doorbell {
    /// A doorbell of an eventfd that nothing else reads.
    pub fn new(event: EventFd) -> Self {
        Doorbell { event, has_ended: AtomicBool::new(false) }
    }

    /// The eventfd, for KVM.
    pub fn event(&self) -> &EventFd {
        &self.event
    }

    /// Starts a new run: discards earlier writes, and notes that the guest has not ended.
    pub fn begin(&self) {
        self.has_ended.store(false, Ordering::Relaxed);
        // A write of its own, so that the read does not wait.
        let _ = self.event.write(1).and_then(|()| self.event.read());
    }

    /// Blocks until the guest has written. Returns false if the guest ended before it wrote.
    ///
    /// # Errors
    /// The eventfd cannot be read.
    pub fn wait(&self) -> Result<bool, Failure> {
        let count =
            self.event.read().map_err(|error| Failure::new("reading an ioeventfd", error, SEE_LOG))?;
        // One read may return the last write and the end together. Acquire: pairs with the store in `end`, whose write
        // to the eventfd this read has returned.
        Ok(count > 1 || !self.has_ended.load(Ordering::Acquire))
    }

    /// Notes that the guest has ended and writes no more, so that [`Doorbell::wait`] returns.
    pub fn end(&self) {
        // Release: pairs with the load in `wait`.
        self.has_ended.store(true, Ordering::Release);
        let _ = self.event.write(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_hears_each_write_and_the_end() {
        let bell = Doorbell::new(EventFd::new(0).unwrap());
        bell.event().write(1).unwrap();
        bell.begin();
        std::thread::scope(|scope| {
            let heard = scope.spawn(|| bell.wait().unwrap());
            bell.event().write(1).unwrap();
            assert!(heard.join().unwrap());
            let heard = scope.spawn(|| bell.wait().unwrap());
            bell.end();
            assert!(!heard.join().unwrap());
        });
        bell.begin();
        bell.event().write(1).unwrap();
        bell.end();
        assert!(bell.wait().unwrap(), "the last write came before the end");
    }
}
