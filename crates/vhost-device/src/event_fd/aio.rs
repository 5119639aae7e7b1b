//! Signals by the kernel: `io_submit(2)` of a read that completes at once, with an eventfd for the completion.
//!
//! On completion the kernel adds 1 to the eventfd by `eventfd_signal`, which never waits: a full counter stays full,
//! whatever `O_NONBLOCK` is.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use memory::sealed_memfd;
use rustix::io::Errno;

/// Completions that the context holds, unread.
const CAPACITY: u32 = 64;

/// `IOCB_CMD_PREAD`, `IOCB_CMD_PWRITE` and `IOCB_FLAG_RESFD` (linux/aio_abi.h).
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const TELL_EVENTFD: u32 = 1;

/// `struct iocb` (linux/aio_abi.h).
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    /// Two fields whose order depends on the byte order. Both are 0.
    key_and_flags: u64,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// `struct io_event` (linux/aio_abi.h).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Completion {
    data: u64,
    request: u64,
    result: [i64; 2],
}

/// An AIO context. One thread uses it.
#[derive(Debug)]
pub(super) struct Aio {
    context: libc::c_ulong,
    file: BorrowedFd<'static>,
    /// The number of completions that are not fetched yet.
    unread: u32,
}

/// A readable file on which a read of 0 bytes completes at once. All threads share it, so that a thread's first
/// signal opens no file.
pub(super) fn file() -> Result<BorrowedFd<'static>, Errno> {
    static FILE: OnceLock<OwnedFd> = OnceLock::new();
    if let Some(file) = FILE.get() {
        return Ok(file.as_fd());
    }
    let null = File::open("/dev/null").map(OwnedFd::from);
    // A folder tree without devices has memory still.
    let file = null.or_else(|_| sealed_memfd(c"tautline-signal", 1).map(OwnedFd::from));
    let file = file.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(FILE.get_or_init(|| file).as_fd())
}

fn result(returned: libc::c_long) -> Result<libc::c_long, Errno> {
    match returned {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        count => Ok(count),
    }
}

impl Aio {
    /// An AIO context for one thread.
    ///
    /// # Errors
    /// The kernel has no AIO, a sandbox forbids `io_setup`, or `fs.aio-max-nr` contexts are in use. Or neither
    /// `/dev/null` nor a memory file can be opened.
    pub fn new() -> Result<Self, Errno> {
        let file = file()?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: io_setup writes one `aio_context_t`, which is live and 0, as it must be.
        result(unsafe { libc::syscall(libc::SYS_io_setup, CAPACITY, &mut context) })?;
        Ok(Aio { context, file, unread: 0 })
    }

    /// Adds 1 to the counter without waiting.
    ///
    /// # Errors
    /// `io_submit` is refused: the descriptor is no eventfd.
    #[inline]
    pub fn signal(&mut self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.unread == CAPACITY {
            self.fetch();
        }
        self.submit(PREAD, fd)?;
        self.unread += 1;
        Ok(())
    }

    /// Whether this is an eventfd. The descriptor is not signalled.
    ///
    /// # Errors
    /// `io_submit` is refused for another reason than the descriptor's kind.
    pub fn is_event_fd(&self, fd: BorrowedFd<'_>) -> Result<bool, Errno> {
        // The eventfd is looked at before the file turns out not to be open for writing (fs/aio.c,
        // `io_submit_one`, then `aio_write`).
        match self.submit(PWRITE, fd) {
            Err(Errno::BADF) => Ok(true),
            Err(Errno::INVAL) | Ok(()) => Ok(false),
            Err(other) => Err(other),
        }
    }

    fn submit(&self, opcode: u16, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut request = Request {
            opcode,
            file: self.file.as_raw_fd() as u32,
            flags: TELL_EVENTFD,
            event_fd: fd.as_raw_fd() as u32,
            ..Request::default()
        };
        let mut list = [&raw mut request];
        // SAFETY: the list has one live request, which the kernel reads and whose key it writes. It asks for no
        // bytes, so no buffer is touched, and it is over when the call returns.
        result(unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1_i64, list.as_mut_ptr()) })
            .map(drop)
    }

    /// Makes room for completions.
    #[cold]
    fn fetch(&mut self) {
        let mut completions = [Completion::default(); CAPACITY as usize];
        let mut at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let (least, most) = (0_i64, i64::from(CAPACITY));
        let into = completions.as_mut_ptr();
        // SAFETY: the kernel writes up to `most` completions, for which there is room, and reads the time.
        let fetched = unsafe {
            libc::syscall(libc::SYS_io_getevents, self.context, least, most, into, &raw mut at_once)
        };
        self.unread = self.unread.saturating_sub(u32::try_from(fetched).unwrap_or(0));
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: nothing is under way in the context, and it is not used any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
