//! A listening Unix socket: its path, and the users that may connect.
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{geteuid, umask};

use crate::local_socket::connect_local;
use crate::peer::peer;

/// A listening Unix socket whose path is removed when it is dropped.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's file.
    inode: (u64, u64),
    /// Whether dropping this removes the path: not while another process has the socket.
    removes_path: bool,
}

impl LocalListener {
    /// Binds to the path. Replaces a socket that a switch left there when it ended.
    ///
    /// # Errors
    /// Another switch listens there (`AddrInUse`), a file of another kind is there, a stale socket cannot be removed,
    /// or the folder is missing or not writable.
    pub fn bind(path: &Path) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            match connect_local(path) {
                Err(Errno::CONNREFUSED) => fs::remove_file(path)?,
                // A listener without room for a connection now.
                Ok(_) | Err(Errno::AGAIN) => {
                    return Err(io::Error::new(ErrorKind::AddrInUse, "another switch listens there"));
                }
                Err(_) => {}
            }
        }
        // Other users can connect at no time. No other thread makes files meanwhile.
        let before = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
        let bound = UnixListener::bind(path);
        umask(before);
        Self::of(bound?, path, true)
    }

    /// Binds in the place of another process that listens at the path. Its clients find this socket from now on.
    ///
    /// # Errors
    /// The folder is missing or not writable, or the path cannot be replaced.
    pub fn bind_in_place(path: &Path) -> io::Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let mut listener = Self::bind(Path::new(&beside))?;
        fs::rename(&beside, path)?;
        path.clone_into(&mut listener.path);
        Ok(listener)
    }

    fn of(listener: UnixListener, path: &Path, removes_path: bool) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let made = fs::symlink_metadata(path)?;
        Ok(LocalListener { listener, path: path.to_owned(), inode: (made.dev(), made.ino()), removes_path })
    }

    /// Listens on the socket of another process, which owns the path until [`LocalListener::keep`].
    ///
    /// # Errors
    /// The socket cannot be made non-blocking, or nothing is at the path.
    pub fn take_over(socket: OwnedFd, path: &Path) -> io::Result<Self> {
        Self::of(socket.into(), path, false)
    }

    /// Sets whether this process owns the path.
    pub fn keep(&mut self, keeps: bool) {
        self.removes_path = keeps;
    }

    /// Accepts the next connection.
    ///
    /// # Errors
    /// No connection waits (`WouldBlock`), or the system has no descriptor for it.
    pub fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().map(|(socket, _)| socket)
    }

    /// Whether the client runs as this process's user or as root.
    pub fn allows(&self, socket: &UnixStream) -> bool {
        peer(socket).is_ok_and(|peer| peer.user.is_root() || peer.user == geteuid())
    }
}

impl AsFd for LocalListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        // Another switch may have put its socket there.
        if self.removes_path
            && fs::symlink_metadata(&self.path).is_ok_and(|found| (found.dev(), found.ino()) == self.inode)
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_in_the_place_of_another_one_stays_when_that_one_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ctl");
        let former = LocalListener::bind(&path).unwrap();
        let listener = LocalListener::bind_in_place(&path).unwrap();
        drop(former);
        let _client = UnixStream::connect(&path).unwrap();
        assert!(listener.accept().is_ok());
        drop(listener);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_listener_that_accepts_nothing_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ctl");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let clients = std::iter::from_fn(|| connect_local(&path).ok()).take(100).collect::<Vec<_>>();
        assert!((1..100).contains(&clients.len()));
        let (done, result) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(LocalListener::bind(&path).err().map(|error| error.kind())));
        let result = result.recv_timeout(std::time::Duration::from_secs(10));
        assert_eq!(result, Ok(Some(ErrorKind::AddrInUse)));
    }

    #[test]
    fn the_socket_is_its_users_alone_and_goes_with_the_switch() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ctl");
        let listener = LocalListener::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(LocalListener::bind(&path).err().unwrap().kind(), ErrorKind::AddrInUse);
        let client = UnixStream::connect(&path).unwrap();
        // The first connection was that of the second switch, which checked whether a switch listens there.
        let accepted: Vec<_> = std::iter::from_fn(|| listener.accept().ok()).collect();
        assert!(!accepted.is_empty() && accepted.iter().all(|socket| listener.allows(socket)));
        drop((client, listener));
        assert!(!path.exists());
        // A socket file whose process ended without removing it.
        drop(UnixListener::bind(&path).unwrap());
        assert!(LocalListener::bind(&path).is_ok());
    }
}
