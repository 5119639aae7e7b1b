//! System calls that `rustix` does not wrap, or wraps as unsafe: the only raw calls of this crate.

mod area;
mod fork;
mod select;
mod signal;

pub(crate) use area::{Area, Pages, map_touch_unmap};
pub(crate) use fork::{Child, fork_and_exec, fork_and_exit};
pub(crate) use select::{MOST_DESCRIPTORS, ReadSet};
pub(crate) use signal::{install_counter, signals_counted};

/// The parent's process id, asked of the kernel each time.
#[inline(always)]
pub(crate) fn getppid() -> i64 {
    // SAFETY: a call without arguments that always succeeds.
    unsafe { libc::syscall(libc::SYS_getppid) as i64 }
}
