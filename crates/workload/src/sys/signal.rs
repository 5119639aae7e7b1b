//! A signal handler that counts.

use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

static COUNTED: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_signal: libc::c_int) {
    // Relaxed: the thread that reads it is the one that was interrupted.
    COUNTED.fetch_add(1, Ordering::Relaxed);
}

/// Installs the counting handler.
pub(crate) fn install_counter(signal: Signal) -> nix::Result<()> {
    let action = SigAction::new(SigHandler::Handler(count), SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: the handler touches nothing but an atomic counter.
    unsafe { sigaction(signal, &action) }.map(drop)
}

/// Signals that the handler has seen since the start.
pub(crate) fn signals_counted() -> u64 {
    COUNTED.load(Ordering::Relaxed)
}
