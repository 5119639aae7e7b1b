//! Namespaces of the calling thread.

use std::io;

pub use rustix::thread::UnshareFlags;

/// Moves the calling thread into new namespaces of these kinds: unshare(2).
///
/// # Errors
/// The kinds contain [`UnshareFlags::FILES`], or the kernel refuses: most kinds need `CAP_SYS_ADMIN`, and a limit of
/// `/proc/sys/user/` may be reached.
pub fn unshare(kinds: UnshareFlags) -> io::Result<()> {
    if kinds.contains(UnshareFlags::FILES) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "descriptors are shared by all threads"));
    }
    // SAFETY: unsafe for a table of descriptors of its own alone, which was excluded.
    Ok(unsafe { rustix::thread::unshare_unsafe(kinds) }?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_stay_shared() {
        assert_eq!(unshare(UnshareFlags::FILES).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(unshare(UnshareFlags::empty()).is_ok());
    }
}
