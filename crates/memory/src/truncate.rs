//! What happens when a peer shortens a file under our mapping.
//!
//! Touching a page past the end of a shared file raises SIGBUS, which by default ends the process: one
//! hostile guest could take the switch and all other guests with it. Sealed memfds (`F_SEAL_SHRINK`)
//! cannot do that; plain files, hugetlbfs and unsealed memfds can. While a [`TruncationGuard`] is
//! installed, such a fault inside one of our mappings puts an anonymous page of zeros in its place, as large
//! as the file's pages are, and the access continues; the peer reads its own loss as zeros, and everybody else
//! goes on. SIGBUS anywhere else keeps its old meaning.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

/// Mappings that the handler knows. More than this stay unguarded (their SIGBUS ends the process).
const SLOTS: usize = 4096;

/// A registered mapping: `len` and `page` are written before `start`, and 0 in `start` marks a free slot.
struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
    /// Bytes of a page of its file. A huge page cannot be replaced in part.
    page: AtomicUsize,
}

static MAPPINGS: [Slot; SLOTS] =
    [const { Slot { start: AtomicUsize::new(0), len: AtomicUsize::new(0), page: AtomicUsize::new(0) } };
        SLOTS];
static REPLACED: AtomicU64 = AtomicU64::new(0);
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// A slot being filled: not free, and matched by no address.
const CLAIMED: usize = 1;

pub(crate) fn register(start: usize, len: usize, page: usize) {
    for slot in &MAPPINGS {
        if slot.start.compare_exchange(0, CLAIMED, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            // Whoever sees one of these sees that the former mapping has gone.
            slot.len.store(len, Ordering::Release);
            slot.page.store(page, Ordering::Release);
            // Pairs with the handler's acquire load: whoever sees the start sees the rest.
            slot.start.store(start, Ordering::Release);
            return;
        }
    }
}

pub(crate) fn unregister(start: usize) {
    if let Some(slot) = MAPPINGS.iter().find(|slot| slot.start.load(Ordering::Relaxed) == start) {
        slot.start.store(0, Ordering::Release);
    }
}

/// How many pages have been replaced by zeros since the process started: not 0 means that some peer
/// shortened a file that it shares.
pub fn truncated_pages() -> u64 {
    REPLACED.load(Ordering::Relaxed)
}

/// Installed once by the program (not by the library: signal handlers belong to the process).
#[derive(Debug)]
pub struct TruncationGuard(());

impl TruncationGuard {
    /// Installs the SIGBUS handler for the life of the process.
    pub fn install() -> Result<Self, Errno> {
        let action = SigAction::new(
            SigHandler::SigAction(on_sigbus),
            SaFlags::SA_SIGINFO | SaFlags::SA_NODEFER,
            SigSet::empty(),
        );
        if PREVIOUS.load(Ordering::Acquire).is_null() {
            // SAFETY: `on_sigbus` touches only atomics and makes async-signal-safe system calls.
            let old = unsafe { sigaction(Signal::SIGBUS, &action) }?;
            let raw: libc::sigaction = old.into();
            // Leaked on purpose: the handler may read it until the process ends.
            PREVIOUS.store(Box::into_raw(Box::new(raw)), Ordering::Release);
        }
        Ok(TruncationGuard(()))
    }
}

extern "C" fn on_sigbus(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo; `si_addr` is defined for SIGBUS.
    let address = unsafe { (*info).si_addr() } as usize;
    let ours = MAPPINGS.iter().find_map(|slot| {
        let start = slot.start.load(Ordering::Acquire);
        let (len, page) = (slot.len.load(Ordering::Acquire), slot.page.load(Ordering::Acquire));
        // The slot may have gone to another mapping in between.
        let is_one = start > CLAIMED && start == slot.start.load(Ordering::Relaxed);
        (is_one && address.wrapping_sub(start) < len).then_some(page)
    });
    // SAFETY: async-signal-safe calls only. The replaced page lies inside a mapping that this process
    // owns and that the faulting thread was using, so nothing else can live there: mappings begin and end with
    // pages of their file.
    unsafe {
        if let Some(page) = ours {
            let at = (address & !(page - 1)) as *mut libc::c_void;
            let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let replaced = libc::mmap(at, page, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            if replaced == at {
                REPLACED.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        // Not ours: put the previous action back; the access faults again and meets it.
        let previous = PREVIOUS.load(Ordering::Acquire);
        if previous.is_null() {
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(libc::SIGBUS, &default, std::ptr::null_mut());
        } else {
            libc::sigaction(libc::SIGBUS, previous, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Mapping, SharedSlice};
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use std::fs::File;

    pub(crate) fn memfd(bytes: u64) -> File {
        let file = File::from(memfd_create(c"test", MFdFlags::MFD_ALLOW_SEALING).unwrap());
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn a_shortened_file_reads_as_zeros_and_the_process_lives() {
        let _guard = TruncationGuard::install().unwrap();
        let file = memfd(3 * 4096);
        let mapping = Mapping::shared(&file, 0, 3 * 4096).unwrap();
        let whole = SharedSlice::of_mapping(&mapping);
        whole.slice(8192, 4).write(b"gone");
        file.set_len(4096).unwrap();
        let before = truncated_pages();
        let mut bytes = [1; 4];
        whole.slice(8192, 4).read(&mut bytes);
        assert_eq!(bytes, [0; 4]);
        whole.slice(4096, 4).write(b"late");
        assert_eq!(truncated_pages(), before + 2);
    }
}
