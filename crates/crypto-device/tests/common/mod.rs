//! A driver's buffers in plain memory, and sessions.
mod messages;

use std::cell::{Cell, RefCell};

use crypto_device::{Buffers, Executed, Executor, Limits, Sessions};
pub use messages::{bytes, setup};
use virtio::crypto::Status;

/// Readable bytes, and writable ones, which begin as 0xee.
pub struct Driver {
    pub readable: RefCell<Vec<u8>>,
    pub writable: RefCell<Vec<u8>>,
    pub reads: Cell<usize>,
}

impl Driver {
    pub fn new(readable: Vec<u8>, writable: usize) -> Self {
        let writable = RefCell::new(vec![0xee; writable]);
        Self { readable: RefCell::new(readable), writable, reads: Cell::new(0) }
    }
}

impl Buffers for Driver {
    fn readable_bytes(&self) -> usize {
        self.readable.borrow().len()
    }

    fn writable_bytes(&self) -> usize {
        self.writable.borrow().len()
    }

    /// Whatever was read once has changed when it is read again.
    fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        let mut readable = self.readable.borrow_mut();
        let part = &mut readable[offset..];
        let len = part.len().min(into.len());
        into[..len].copy_from_slice(&part[..len]);
        part[..len].fill(0xff);
        self.reads.set(self.reads.get() + 1);
        len
    }

    fn write(&self, offset: usize, from: &[u8]) -> usize {
        let mut writable = self.writable.borrow_mut();
        let part = &mut writable[offset..];
        let len = part.len().min(from.len());
        part[..len].copy_from_slice(&from[..len]);
        len
    }
}

pub fn sessions() -> Sessions {
    Sessions::new(Limits::default())
}

/// Runs one request with room for `result` bytes; gives the status and the result.
pub fn run(sessions: &Sessions, request: Vec<u8>, result: usize) -> (Status, Vec<u8>) {
    let driver = Driver::new(request, result + 1);
    let executed = Executor::new().execute(sessions, &driver);
    assert_eq!(driver.reads.get(), 1, "the request is read once");
    let mut writable = driver.writable.into_inner();
    let status = Status::from_code(writable.pop().unwrap()).unwrap();
    if status == Status::Ok {
        assert_eq!(executed, Executed { written: result as u32 + 1, status: Some(status) });
    } else {
        // The status counts where nothing lies before it.
        assert_eq!(executed, Executed { written: u32::from(result == 0), status: Some(status) });
        assert!(writable.iter().all(|byte| *byte == 0xee), "nothing but the status is written");
    }
    (status, writable)
}
