//! A signal handler that counts.

use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::Signal;

static COUNTED: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_signal: libc::c_int) {
    // Relaxed: the thread that reads it is the one that was interrupted.
    COUNTED.fetch_add(1, Ordering::Relaxed);
}

/// Installs the counting handler.
pub(crate) fn install_counter(signal: Signal) -> std::io::Result<()> {
    let handler: extern "C" fn(libc::c_int) = count;
    // SAFETY: all zeros is a valid `sigaction`: integers, and an empty set of signals.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler touches nothing but an atomic counter; the call only reads `action`.
    match unsafe { libc::sigaction(signal.as_raw(), &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Signals that the handler has seen since the start.
pub(crate) fn signals_counted() -> u64 {
    COUNTED.load(Ordering::Relaxed)
}
