//! A socket path that peers connect to.
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, connect, socket_with,
};

use super::{Connection, DescriptorFilter, SocketError, system};
use crate::SharedFd;

/// Sockets of servers that have ended are removed at most this many times; then the attempt fails.
const ATTEMPTS: u32 = 8;

/// A socket that refuses for so long is not one that is just being set up.
const STARTING: Duration = Duration::from_millis(20);

/// How long a server waits for others that remove a stale socket in the same folder.
const LOCK_PATIENCE: Duration = Duration::from_millis(200);

/// A listening socket. Dropping it removes its path, unless another server has bound a socket
/// there since.
#[derive(Debug)]
pub struct Listener {
    listener: SharedFd,
    filter: Option<Arc<dyn DescriptorFilter>>,
    path: PathBuf,
    /// Device and inode of the socket's file, which distinguish it from another at the same path.
    identity: (u64, u64),
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Listener {
    /// Listens at the path. A stale socket, left by a crashed server, is removed; a live socket and other files are
    /// not touched.
    ///
    /// Waits at most [`LOCK_PATIENCE`] for other servers that remove a stale socket in the same folder.
    ///
    /// # Errors
    /// A live server listens at the path, a file that is no socket lies there, or other servers create the socket
    /// anew each time. Or a system call is refused: the folder does not exist or may not be written, or the path is
    /// too long.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        Self::bind_with(path, None)
    }

    /// As [`Self::bind`], with a filter for all connections.
    ///
    /// # Errors
    /// As [`Self::bind`].
    pub fn bind_with(path: &Path, filter: Option<Arc<dyn DescriptorFilter>>) -> Result<Self, SocketError> {
        let mut turn = None;
        for _ in 0..ATTEMPTS {
            match UnixListener::bind(path) {
                Ok(listener) => return Self::of(listener.into(), path, filter),
                Err(error) if error.kind() == ErrorKind::AddrInUse => {
                    turn.get_or_insert_with(|| take_turn(path));
                    remove_stale(path)?;
                }
                Err(error) => return Err(failed("listen at", path)(error)),
            }
        }
        // Another server creates the socket anew each time.
        Err(SocketError::InUse(path.to_owned()))
    }

    fn of(
        socket: OwnedFd,
        path: &Path,
        filter: Option<Arc<dyn DescriptorFilter>>,
    ) -> Result<Self, SocketError> {
        ioctl_fionbio(&socket, true).map_err(system(format!("set non-blocking {}", path.display())))?;
        let identity = identity(path)?.ok_or_else(|| SocketError::InUse(path.to_owned()))?;
        let listener = hold(socket, filter.as_ref());
        Ok(Self { listener, filter, path: path.to_owned(), identity })
    }

    /// Continues with a socket that another process has bound to this path.
    ///
    /// # Errors
    /// The path does not exist any more, or `stat` is refused.
    pub fn take_over(
        listener: SharedFd,
        path: &Path,
        filter: Arc<dyn DescriptorFilter>,
    ) -> Result<Self, SocketError> {
        let identity = identity(path)?.ok_or_else(|| SocketError::InUse(path.to_owned()))?;
        Ok(Self { listener, filter: Some(filter), path: path.to_owned(), identity })
    }

    /// Gives up a socket that another process continues with. The path stays.
    pub fn leave(self) {
        // `drop` would remove the path. The process ends soon.
        std::mem::forget(self);
    }

    /// The connection of the next peer. Waits for it until the deadline, or without a limit if there is none.
    ///
    /// # Errors
    /// The causes of [`Self::try_accept`], the deadline has passed, or `poll` is refused.
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

    /// The connection of the next peer, if one is waiting.
    ///
    /// # Errors
    /// `accept` is refused, for example at the open-files limit.
    pub fn try_accept(&self) -> Result<Option<Connection>, SocketError> {
        match accept_with(&self.listener, SocketFlags::CLOEXEC) {
            Ok(socket) => {
                let mut connection = Connection::from(hold(socket, self.filter.as_ref()));
                if let Some(filter) = &self.filter {
                    connection.set_filter(Arc::clone(filter));
                }
                Ok(Some(connection))
            }
            // CONNABORTED: the peer went away before it was accepted.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(errno) => Err(failed("accept a peer at", &self.path)(errno.into())),
        }
    }

    /// The socket, which other holders may share.
    pub fn socket(&self) -> &SharedFd {
        &self.listener
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours {
            // An error cannot be returned here; the next `bind` removes a socket that stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn hold(socket: OwnedFd, filter: Option<&Arc<dyn DescriptorFilter>>) -> SharedFd {
    match filter {
        Some(filter) => filter.hold(socket),
        None => socket.into(),
    }
}

/// Device and inode of what lies at a path; `None` if nothing does.
fn identity(path: &Path) -> Result<Option<(u64, u64)>, SocketError> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if !metadata.file_type().is_socket() => Err(SocketError::NotASocket(path.to_owned())),
        Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed("look at", path)(source)),
    }
}

/// Takes the folder's lock, so that servers that find the same stale socket remove it one after the other.
/// Correctness does not depend on the lock: any process that can open the folder can hold it, so the wait is
/// limited.
fn take_turn(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let lock = File::open(folder.unwrap_or(Path::new("."))).ok()?;
    let deadline = Instant::now() + LOCK_PATIENCE;
    while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Some(lock)
}

/// Removes the socket of a server that is gone; an error if the server lives, or if it is no socket.
fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let Some(found) = identity(path)? else { return Ok(()) };
    if !is_refused(path)? {
        return Ok(());
    }
    // A server that is just starting has bound its socket and does not listen yet, for microseconds. A server that has
    // had its time is not waited for: a switch that was killed and starts again continues at once, at all of its ports.
    std::thread::sleep(STARTING.saturating_sub(age(path)));
    if !is_refused(path)? || identity(path)? != Some(found) {
        return Ok(());
    }
    // Another process may replace the socket between the check and the removal, and must not lose its socket. The file
    // is therefore renamed, checked under the new name, and renamed back if it is another socket.
    let aside = path.with_file_name(format!(".{}.{:x}", std::process::id(), found.1));
    match fs::rename(path, &aside) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        moved => moved.map_err(failed("remove the stale socket", path))?,
    }
    if identity(&aside)? == Some(found) {
        return fs::remove_file(&aside).map_err(failed("remove the stale socket", &aside));
    }
    renameat_with(CWD, &aside, CWD, path, RenameFlags::NOREPLACE).map_err(system(format!(
        "put the socket {} back, now {}",
        path.display(),
        aside.display()
    )))
}

/// How long a path has been as it is; nothing where that cannot be told.
fn age(path: &Path) -> Duration {
    let changed = fs::symlink_metadata(path).ok().and_then(|metadata| {
        let since_epoch =
            Duration::new(metadata.ctime().try_into().ok()?, metadata.ctime_nsec().try_into().ok()?);
        SystemTime::UNIX_EPOCH.checked_add(since_epoch)
    });
    changed.and_then(|changed| changed.elapsed().ok()).unwrap_or_default()
}

/// Whether a socket is at the path and no server listens on it. False if the path is free; an error if a server
/// listens.
fn is_refused(path: &Path) -> Result<bool, SocketError> {
    // Non-blocking: a live server whose queue of peers is full must not hold us up.
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let probe =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(system("make a socket"))?;
    let address = SocketAddrUnix::new(path).map_err(system(format!("use the path {}", path.display())))?;
    match connect(&probe, &address) {
        Err(Errno::CONNREFUSED) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Ok(()) | Err(Errno::AGAIN) => Err(SocketError::InUse(path.to_owned())),
        Err(errno) => Err(system(format!("find out who listens at {}", path.display()))(errno)),
    }
}

fn failed(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> SocketError {
    let what = format!("{what} {}", path.display());
    move |source| SocketError::System { what, source }
}
