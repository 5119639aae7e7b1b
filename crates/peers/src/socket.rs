//! Waits for sockets of peers.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Error;
use crate::process::PAUSE;

/// Waits until a process listens on this path, without connecting to it: a peer could take the probe for its only
/// client. Only listeners in this process's own network namespace are found: a guest's port to a peer in another
/// namespace must use [`crate::guest::Port::reconnect`].
///
/// # Errors
/// No process listens on the path after the limit.
pub fn wait_for_listener(path: &Path, limit: Duration) -> Result<(), Error> {
    wait_for_listener_beside("self", path, limit)
}

/// Works like [`wait_for_listener`], in the network namespace of a process: its number, or `self`.
pub(crate) fn wait_for_listener_beside(process: &str, path: &Path, limit: Duration) -> Result<(), Error> {
    let deadline = Instant::now() + limit;
    while !listens(process, path) {
        if Instant::now() > deadline {
            let doing = format!("waiting for a listener on {}", path.display());
            return Err(Error::TimedOut { doing, limit, said: String::new() });
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Whether a process listens on this path in the network namespace of `process`.
pub fn listens_beside(process: u32, path: &Path) -> bool {
    listens(&process.to_string(), path)
}

/// Whether a process listens at a path. `/proc/PROCESS/net/unix` shows the path, and the flag of an accepting socket
/// (`__SO_ACCEPTCON`, unix(7), proc_net_unix(5)).
fn listens(process: &str, path: &Path) -> bool {
    const ACCEPTS: u64 = 1 << 16;
    let table = std::fs::read_to_string(format!("/proc/{process}/net/unix")).unwrap_or_default();
    table.lines().skip(1).any(|line| {
        let mut words = line.split_whitespace();
        let flags = words.nth(3).and_then(|flags| u64::from_str_radix(flags, 16).ok()).unwrap_or(0);
        flags & ACCEPTS != 0 && words.nth(3).is_some_and(|name| Path::new(name) == path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_listens_from_bind_to_drop() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(!listens("self", &path));
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(listens("self", &path));
        drop(listener);
        assert!(!listens("self", &path));
    }
}
