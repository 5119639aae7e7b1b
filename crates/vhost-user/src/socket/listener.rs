//! A socket path that peers connect to.
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use super::{Connection, SocketError, system};

/// How long `bind` waits for others that bind in the same folder. Each takes microseconds.
const LOCK_PATIENCE: Duration = Duration::from_millis(200);

/// A listening socket. Its path goes with it when it is dropped, unless somebody else has taken it.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode: what tells our socket from another at the same path.
    identity: (u64, u64),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Listener {
    /// Listens at the path. A socket that nobody listens on any more, as a crashed server leaves it, is
    /// removed; a live one is not touched, nor anything that is no socket.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        // Between probe and bind another server could come up at the same path; all that use this
        // function queue up at the folder's lock.
        let _lock = lock_folder(path)?;
        remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(failed("listen at", path))?;
        let metadata = fs::symlink_metadata(path).map_err(failed("look at", path))?;
        let identity = (metadata.dev(), metadata.ino());
        listener.set_nonblocking(true).map_err(failed("set non-blocking", path))?;
        Ok(Self { listener, path: path.to_owned(), identity })
    }

    /// The next peer, waiting for it until the deadline; without one, for ever.
    pub fn accept(&self, deadline: Option<Instant>) -> Result<Connection, SocketError> {
        loop {
            if let Some(connection) = self.try_accept()? {
                return Ok(connection);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(SocketError::Deadline { what: "connect" });
            }
            let timeout = left.map(|left| Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            });
            match poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(system("wait for a vhost-user peer")(errno)),
            }
        }
    }

    /// The next peer if one is there.
    pub fn try_accept(&self) -> Result<Option<Connection>, SocketError> {
        match self.listener.accept() {
            Ok((stream, _)) => Ok(Some(stream.into())),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            // The peer went away before it was accepted.
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => Ok(None),
            Err(source) => Err(failed("accept a peer at", &self.path)(source)),
        }
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours {
            // Nobody is left to tell; the next `bind` removes what stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Locks the folder of a path. Whoever may open the folder may hold its lock for ever, and whoever holds it longer
/// than [`LOCK_PATIENCE`] does not bind a socket: then it goes without.
fn lock_folder(path: &Path) -> Result<Option<File>, SocketError> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let lock = File::open(folder).map_err(failed("open the folder", folder))?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(lock)),
            Err(Errno::WOULDBLOCK) if Instant::now() >= deadline => return Ok(None),
            Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(1)),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(system(format!("lock {}", folder.display()))(errno)),
        }
    }
}

fn remove_stale(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed("look at", path)(source)),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    // Non-blocking: a live server whose queue of peers is full must not hold us up.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let probe =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(system("make a socket"))?;
    let address = SocketAddrUnix::new(path).map_err(system(format!("use the path {}", path.display())))?;
    match connect(&probe, &address) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path).map_err(failed("remove the stale socket", path)),
        Err(Errno::NOENT) => Ok(()),
        Ok(()) | Err(Errno::AGAIN) => Err(SocketError::InUse(path.to_owned())),
        Err(errno) => Err(system(format!("find out who listens at {}", path.display()))(errno)),
    }
}

fn failed(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> SocketError {
    let what = format!("{what} {}", path.display());
    move |source| SocketError::System { what, source }
}
