//! Handling of a peer's memory that disappears while it is mapped.
//!
//! Accessing a page past the end of a shared file raises SIGBUS, which by default ends the process. One hostile guest
//! could thus end the switch and disconnect all other guests. Sealed memfds (`F_SEAL_SHRINK`) cannot be shortened;
//! plain files, hugetlbfs and unsealed memfds can. While a [`TruncationGuard`] is installed, the first such fault in
//! a peer's mapping replaces the *whole* mapping by anonymous memory that reads as zeros, and the access continues.
//! Replacing single pages would not suffice: each replaced page in the middle adds a mapping, and the system allows
//! 65 530 of them for all peers together. The handler then notifies the mapping's [`PeerMemory`], because writes to
//! such memory are lost to the peer until it is disconnected.
//!
//! How a SIGBUS is handled, by `si_code`:
//!
//! | code | in a peer's mapping | elsewhere |
//! |---|---|---|
//! | `BUS_ADRERR`: no page in the file | replaced: the file was shortened, or its file system is full | previous action |
//! | `BUS_MCEERR_AR`: the page is poisoned | replaced: that memory is lost for this peer only | previous action |
//! | `BUS_MCEERR_AO`: poison that no thread touched | nothing: an access raises the signal above | previous action |
//! | sent by a process (`kill -BUS`), and all others | previous action | previous action |
//!
//! A signal that another process sent is passed to the previous action. By default that ends the process.
#![allow(unsafe_code)]

use std::io;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::peer::{LossCause, PeerMemory};

/// The most mappings that the handler knows; further ones are refused. The system's own limit (`vm.max_map_count`) is
/// about as high. Unused parts of this table take no memory.
pub(crate) const SLOTS: usize = 1 << 16;

/// A registered mapping. All other fields are written before `start`; 0 in `start` marks a free slot.
#[derive(Debug)]
pub(crate) struct Slot {
    start: AtomicUsize,
    len: AtomicUsize,
    /// Bytes of a page of the mapped file. A huge page cannot be replaced in part.
    page: AtomicUsize,
    /// The peer. Each holder of the mapping keeps the peer alive too.
    peer: AtomicPtr<PeerMemory>,
    lost: AtomicBool,
}

static MAPPINGS: [Slot; SLOTS] = [const {
    Slot {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        page: AtomicUsize::new(0),
        peer: AtomicPtr::new(null_mut()),
        lost: AtomicBool::new(false),
    }
}; SLOTS];
/// Slots from here on were never used.
static USED_SLOTS: AtomicUsize = AtomicUsize::new(0);
/// The start of the search for a free slot: usually all slots before it are taken.
static FREE_HINT: AtomicUsize = AtomicUsize::new(0);
static LOST: AtomicU64 = AtomicU64::new(0);
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

/// A slot being filled: not free, and matched by no address.
const CLAIMED: usize = 1;

/// Guards a mapping of this peer until [`Slot::release`]; `None` if all slots are taken.
pub(crate) fn register(
    start: usize,
    len: usize,
    page: usize,
    peer: &Arc<PeerMemory>,
) -> Option<&'static Slot> {
    let claim = |slot: &Slot| {
        slot.start.load(Ordering::Relaxed) == 0
            && slot.start.compare_exchange(0, CLAIMED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    let hint = FREE_HINT.load(Ordering::Relaxed);
    let from = |first: usize| MAPPINGS.iter().skip(first).position(claim).map(|index| first + index);
    let index = from(hint).or_else(|| from(0))?;
    FREE_HINT.store(index + 1, Ordering::Relaxed);
    let slot = &MAPPINGS[index];
    USED_SLOTS.fetch_max(index + 1, Ordering::Release);
    // A reader that sees one of these stores sees that the former mapping has gone.
    slot.len.store(len, Ordering::Release);
    slot.page.store(page, Ordering::Release);
    slot.peer.store(Arc::as_ptr(peer).cast_mut(), Ordering::Release);
    slot.lost.store(false, Ordering::Release);
    // Pairs with the handler's acquire load: a handler that sees the start sees the other fields.
    slot.start.store(start, Ordering::Release);
    Some(slot)
}

impl Slot {
    /// Unregisters the mapping.
    pub fn release(&'static self) {
        self.start.store(0, Ordering::Release);
        let offset = std::ptr::from_ref(self).addr() - MAPPINGS.as_ptr().addr();
        FREE_HINT.fetch_min(offset / size_of::<Slot>(), Ordering::Relaxed);
    }

    /// Whether the mapping's memory was replaced by zeros.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    fn of_address(address: usize) -> Option<&'static Slot> {
        MAPPINGS[..USED_SLOTS.load(Ordering::Acquire)].iter().find(|slot| {
            let start = slot.start.load(Ordering::Acquire);
            let len = slot.len.load(Ordering::Acquire);
            // The slot may have gone to another mapping in between.
            let is_one = start > CLAIMED && start == slot.start.load(Ordering::Relaxed);
            is_one && address.wrapping_sub(start) < len
        })
    }

    /// Replaces the mapping, or at least the page, by anonymous memory; false if the system refuses both.
    ///
    /// # Safety
    /// The calling thread must be using the mapping, so that it stays while this runs.
    unsafe fn replace(&self, address: usize) -> bool {
        let (start, len) = (self.start.load(Ordering::Relaxed), self.len.load(Ordering::Relaxed));
        let page = self.page.load(Ordering::Relaxed);
        let map = |at: usize, len: usize| {
            let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: both ranges lie in a mapping that this process owns and the caller uses, so nothing else can
            // live there: mappings begin and end with pages of their file.
            let replaced = unsafe { libc::mmap(at as *mut _, len, access, flags, -1, 0) };
            replaced as usize == at
        };
        if map(start, len) {
            // Later writes for this peer's rings must only cost small pages.
            // SAFETY: the range was mapped just now.
            unsafe { libc::madvise(start as *mut _, len, libc::MADV_NOHUGEPAGE) };
            return true;
        }
        // A system that counts every private page beforehand (vm.overcommit_memory=2) may refuse the whole.
        map(address & !(page - 1), page)
    }
}

/// How many mappings have been replaced by zeros since the process started. A value above 0 means that a peer
/// shortened a file that it shares, or that memory has failed.
pub fn lost_mappings() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// The action for a SIGBUS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Replace(LossCause),
    /// No page was accessed yet.
    Ignore,
    PassOn,
}

fn decide(code: i32, in_peer_memory: bool) -> Decision {
    match code {
        libc::BUS_ADRERR if in_peer_memory => Decision::Replace(LossCause::Shortened),
        libc::BUS_MCEERR_AR if in_peer_memory => Decision::Replace(LossCause::HardwareError),
        libc::BUS_MCEERR_AO if in_peer_memory => Decision::Ignore,
        _ => Decision::PassOn,
    }
}

/// Proof that the SIGBUS handler is installed. The program installs it and not the library, because signal handlers
/// belong to the process.
#[derive(Debug)]
pub struct TruncationGuard(());

impl TruncationGuard {
    /// Installs the SIGBUS handler for the life of the process. Later calls change nothing.
    ///
    /// # Errors
    /// `sigaction` refuses the handler.
    pub fn install() -> io::Result<Self> {
        if PREVIOUS.load(Ordering::Acquire).is_null() {
            let flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            // SAFETY: `on_sigbus` has the type that SA_SIGINFO asks for, touches only atomics and makes
            // async-signal-safe system calls.
            let previous = unsafe { set_action(on_sigbus as *const () as usize, flags) }?;
            // Leaked on purpose: the handler may read it until the process ends.
            PREVIOUS.store(Box::into_raw(Box::new(previous)), Ordering::Release);
        }
        Ok(TruncationGuard(()))
    }
}

/// Sets the action of SIGBUS, and returns the former action.
///
/// # Safety
/// `handler` is `SIG_DFL`, `SIG_IGN` or an async-signal-safe function of the type that the flags ask for.
unsafe fn set_action(handler: libc::sighandler_t, flags: i32) -> io::Result<libc::sigaction> {
    // SAFETY: all zeros is the default action with no flags and no signals blocked; the system reads one local and
    // writes the other, and the caller vouches for the handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (action.sa_sigaction, action.sa_flags) = (handler, flags);
        let mut previous: libc::sigaction = std::mem::zeroed();
        match libc::sigaction(libc::SIGBUS, &action, &mut previous) {
            0 => Ok(previous),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

extern "C" fn on_sigbus(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // The interrupted code may be about to read errno.
    // SAFETY: the address of this thread's own errno, which lives as long as the thread.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes a valid siginfo.
    let code = unsafe { (*info).si_code };
    // SAFETY: as above. If a process sent the signal, this field is no address, and `decide` does not look at the slot.
    let address = unsafe { (*info).si_addr() } as usize;
    let slot = Slot::of_address(address);
    let handled = match (decide(code, slot.is_some()), slot) {
        // SAFETY: both causes are raised by an access of this very thread, which holds what it accesses.
        (Decision::Replace(cause), Some(slot)) => unsafe {
            let replaced = slot.replace(address);
            if replaced && !slot.lost.swap(true, Ordering::AcqRel) {
                LOST.fetch_add(1, Ordering::Relaxed);
                // SAFETY: the mapping, which is in use, holds its peer.
                (*slot.peer.load(Ordering::Acquire)).report(slot.len.load(Ordering::Relaxed) as u64, cause);
            }
            replaced
        },
        (Decision::Ignore, _) => true,
        _ => false,
    };
    if !handled {
        // SAFETY: what the kernel passed is passed on.
        unsafe { pass_on(signal, info, context) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Does what would have been done without the guard.
///
/// # Safety
/// Called by a handler with the handler's arguments.
unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let previous = PREVIOUS.load(Ordering::Acquire);
    // SAFETY: all zeros is the default action with no flags; PREVIOUS was leaked and is never written again.
    let previous = unsafe { if previous.is_null() { std::mem::zeroed() } else { *previous } };
    // SAFETY: as the caller promised; `code` is there for every signal.
    let sent = unsafe { (*info).si_code } <= 0;
    match previous.sa_sigaction {
        // The system itself does not let a fault be ignored.
        libc::SIG_IGN if sent => return,
        libc::SIG_DFL | libc::SIG_IGN => end_by(signal, info),
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: a handler that was installed with this flag has this type.
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler that was installed without the flag has this type.
            let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
    // Rust's own handler, which looks for overflows of the stack, goes back to the default action and returns: a
    // fault would come again, a signal that was sent would not.
    // SAFETY: reads the current action into a local.
    let now = unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut now);
        now.sa_sigaction
    };
    if now == libc::SIG_DFL {
        end_by(signal, info);
    }
}

/// Ends the process by this signal, as its sender meant it.
fn end_by(signal: i32, info: *mut libc::siginfo_t) {
    // SAFETY: async-signal-safe calls only, with a live action and the handler's own siginfo. The signal is not
    // blocked (SA_NODEFER), so the process ends in the first call; the second is for a system that refuses it.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &default, null_mut());
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), signal, info);
        libc::raise(signal);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Backing, Loss, Mapping, SharedSlice};
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};

    pub(crate) fn memfd(bytes: u64) -> File {
        let file = File::from(memfd_create(c"test", MemfdFlags::ALLOW_SEALING).unwrap());
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn a_shortened_file_reads_as_zeros_as_a_whole_and_its_peer_is_told_once() {
        let _guard = TruncationGuard::install().unwrap();
        let peer = PeerMemory::new(1 << 30, Backing::Ram).unwrap();
        let file = memfd(3 * 4096);
        let mapping = Arc::new(peer.map(&file, 0, 3 * 4096).unwrap());
        let whole = SharedSlice::of_mapping(&mapping);
        whole.slice(0, 4).write(b"here");
        whole.slice(8192, 4).write(b"gone");
        file.set_len(4096).unwrap();
        assert!(!mapping.is_lost());
        assert_eq!(peer.take_loss(), None);
        for at in [8192, 0] {
            let mut bytes = [1; 4];
            whole.slice(at, 4).read(&mut bytes);
            assert_eq!(bytes, [0; 4], "{at}");
        }
        whole.slice(4096, 4).write(b"late");
        assert!(mapping.is_lost());
        assert_eq!(peer.take_loss(), Some(Loss { bytes: 3 * 4096, cause: LossCause::Shortened }));
        assert_eq!(peer.take_loss(), None);
    }

    /// A mapping of `bytes` bytes, all of which its file has lost.
    fn emptied(bytes: u64) -> (Arc<PeerMemory>, Arc<Mapping>) {
        let peer = PeerMemory::new(2 * bytes, Backing::Ram).unwrap();
        let file = memfd(bytes);
        let mapping = Arc::new(peer.map(&file, 0, bytes).unwrap());
        file.set_len(0).unwrap();
        (peer, mapping)
    }

    /// Each page that is replaced in the middle of a mapping makes one mapping more, and a process has 65 530.
    #[test]
    fn every_second_page_of_640_mib_costs_one_mapping() {
        let _guard = TruncationGuard::install().unwrap();
        let bytes = 640 << 20;
        let (_peer, mapping) = emptied(bytes);
        let whole = SharedSlice::of_mapping(&mapping);
        for at in (0..bytes as usize).step_by(8192) {
            whole.slice(at, 1).read(&mut [0]);
        }
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        assert!(maps < 10_000, "{maps} mappings");
    }

    #[test]
    fn only_a_missing_page_and_a_poisoned_one_are_replaced() {
        let all = [libc::BUS_ADRALN, libc::BUS_OBJERR, libc::SI_USER, libc::SI_QUEUE, libc::SI_TKILL, 0x80];
        assert_eq!(decide(libc::BUS_ADRERR, true), Decision::Replace(LossCause::Shortened));
        assert_eq!(decide(libc::BUS_MCEERR_AR, true), Decision::Replace(LossCause::HardwareError));
        assert_eq!(decide(libc::BUS_MCEERR_AO, true), Decision::Ignore);
        for code in all {
            assert_eq!(decide(code, true), Decision::PassOn, "{code}");
        }
        for code in all.into_iter().chain([libc::BUS_ADRERR, libc::BUS_MCEERR_AR, libc::BUS_MCEERR_AO]) {
            assert_eq!(decide(code, false), Decision::PassOn, "{code}");
        }
    }

    const CHILD: &str = "TAUTLINE_TEST_SIGBUS";

    /// Runs one test of this binary again, as a process that may die of it, and says whether it ended so. A foreign
    /// binary under user-mode emulation cannot start itself.
    fn ends(test: &str, previous: &str, so: impl FnOnce(ExitStatus) -> bool) -> bool {
        if std::env::var_os("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER").is_some() {
            println!("{test}: not run under user-mode emulation, where this binary cannot start itself");
            return true;
        }
        let this = std::env::current_exe().unwrap();
        let name = format!("truncate::tests::{test}");
        so(Command::new(this).args(["--exact", &name]).env(CHILD, previous).output().unwrap().status)
    }

    fn set_previous(handler: libc::sighandler_t) {
        // SAFETY: the handler takes a signal's number and touches one atomic.
        unsafe { set_action(handler, 0) }.unwrap();
    }

    static CALLED: AtomicBool = AtomicBool::new(false);
    extern "C" fn called(_signal: i32) {
        CALLED.store(true, Ordering::Relaxed);
    }

    /// `kill -BUS` ends the process, whether Rust's own handler was there before or none, and leaves a previous
    /// handler's choice alone.
    #[test]
    fn a_signal_that_was_sent_meets_the_previous_action() {
        let Some(previous) = std::env::var_os(CHILD) else {
            let test = "a_signal_that_was_sent_meets_the_previous_action";
            for previous in ["rust", "default"] {
                assert!(ends(test, previous, |status| status.signal() == Some(libc::SIGBUS)), "{previous}");
            }
            for previous in ["ignored", "handler"] {
                assert!(ends(test, previous, |status| status.success()), "{previous}");
            }
            return;
        };
        match previous.to_str().unwrap() {
            "default" => set_previous(libc::SIG_DFL),
            "ignored" => set_previous(libc::SIG_IGN),
            "handler" => set_previous(called as *const () as usize),
            _ => {}
        }
        let _guard = TruncationGuard::install().unwrap();
        // SAFETY: sends this thread a signal, and nothing else.
        assert_eq!(unsafe { libc::raise(libc::SIGBUS) }, 0);
        assert_eq!(CALLED.load(Ordering::Relaxed), previous == "handler");
        // The guard is still there.
        let peer = PeerMemory::new(1 << 30, Backing::Ram).unwrap();
        let file = memfd(4096);
        let mapping = Arc::new(peer.map(&file, 0, 4096).unwrap());
        file.set_len(0).unwrap();
        SharedSlice::of_mapping(&mapping).slice(0, 1).read(&mut [0]);
        assert!(peer.take_loss().is_some());
    }

    #[test]
    fn more_than_can_be_guarded_is_refused() {
        if std::env::var_os(CHILD).is_none() {
            // The table is the whole process's.
            assert!(ends("more_than_can_be_guarded_is_refused", "", |status| status.success()));
            return;
        }
        let peer = PeerMemory::new(1 << 30, Backing::Ram).unwrap();
        let file = memfd(4096);
        let all: Vec<_> = (0..SLOTS).map(|at| register((at + 1) << 12, 4096, 4096, &peer).unwrap()).collect();
        let error = peer.map(&file, 0, 4096).unwrap_err();
        assert!(error.to_string().starts_with("65536 mappings of all peers are there already"), "{error}");
        assert_eq!(peer.held_bytes(), 0);
        all[SLOTS / 2].release();
        peer.map(&file, 0, 4096).unwrap();
    }

    /// If the system counts private memory in advance, pages are replaced one by one.
    #[test]
    fn a_whole_that_is_refused_is_replaced_by_pages() {
        if std::env::var_os(CHILD).is_none() {
            assert!(ends("a_whole_that_is_refused_is_replaced_by_pages", "", |status| status.success()));
            return;
        }
        let _guard = TruncationGuard::install().unwrap();
        let bytes = 4 << 30;
        let (peer, mapping) = emptied(bytes);
        // The thread that unmaps allocates at its start, which the limit would refuse.
        while !peer.unmapper().is_idle() {
            std::thread::yield_now();
        }
        let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
        // SAFETY: reads one live struct.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) }, 0);
        let whole = SharedSlice::of_mapping(&mapping);
        for at in [0, 5 << 12, bytes as usize - 1] {
            whole.slice(at, 1).write(b"x");
        }
        assert_eq!(peer.take_loss().unwrap().bytes, bytes);
        // At once: what a process allocates on its way out would be refused too.
        std::process::exit(0);
    }
}
