//! The file that outlives the process. It is in memory, so that nothing on the packet path waits for a disk.
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use memory::{Backing, FileSystem, PeerMemory};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock, fstat};
use rustix::param::page_size;
use rustix::process::{Uid, geteuid};

use crate::Area;

/// A process that was killed has its lock until its memory is given back, which takes a while with much of it.
const PATIENCE: Duration = Duration::from_secs(1);

/// An open file that several owners hold.
pub type SharedFile = Arc<dyn AsFd + Send + Sync>;

/// A port's file. It is removed with the port, and left behind if the process is killed.
pub struct DeliveryFile {
    path: PathBuf,
    file: SharedFile,
    /// Device and inode of the file.
    identity: (u64, u64),
    area: Arc<Area>,
    /// The mapped memory, which tells whether the file was truncated.
    memory: Arc<PeerMemory>,
}

impl DeliveryFile {
    /// The file of the port with this socket and `pairs` queue pairs; `None` if there is no folder for it: see
    /// [`place`].
    ///
    /// # Errors
    /// The file cannot be made, or another process has it.
    pub fn open(socket: &Path, pairs: u16) -> io::Result<Option<Self>> {
        let runtime = std::env::var_os("RUNTIME_DIRECTORY");
        Self::open_in(runtime.map(first_folder).as_deref(), socket, pairs)
    }

    pub(crate) fn open_in(runtime: Option<&Path>, socket: &Path, pairs: u16) -> io::Result<Option<Self>> {
        let Some(path) = place(runtime, socket)? else { return Ok(None) };
        let file = locked(&path)?;
        // A file that cannot be used completely is not used.
        Self::of(Arc::new(OwnedFd::from(file)), path.clone(), pairs)
            .map(Some)
            .inspect_err(|_| _ = fs::remove_file(&path))
    }

    /// The file that another process hands over, together with its lock. That process keeps the file mapped, and
    /// continues if this process fails.
    ///
    /// # Errors
    /// The file has no path, is too small for the words, or cannot be mapped.
    pub fn take_over(file: SharedFile, pairs: u16) -> io::Result<Self> {
        // The other process may have made the file at any path.
        let path = fs::read_link(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))?;
        Self::of(file, path, pairs)
    }

    fn of(file: SharedFile, path: PathBuf, pairs: u16) -> io::Result<Self> {
        let bytes = Area::bytes(pairs);
        // Longer if need be, never shorter. All pages are allocated now: a page that is missing later would cost the
        // notes.
        fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
        // The mapping is guarded: a program may truncate the file, and the worker that touches it must then continue.
        let memory = PeerMemory::new(bytes.next_multiple_of(page_size() as u64), Backing::Ram)?;
        let mapping = memory.map(&file, 0, bytes).map_err(io::Error::other)?;
        let area = Area::open(&Arc::new(mapping), pairs).map_err(io::Error::other)?;
        let status = fstat(&file)?;
        let identity = (status.st_dev, status.st_ino);
        Ok(DeliveryFile { identity, path, file, area: Arc::new(area), memory })
    }

    /// Becomes readable when the file was truncated.
    pub fn memory(&self) -> &Arc<PeerMemory> {
        &self.memory
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The words of the file, for the queues of the port.
    pub fn area(&self) -> &Arc<Area> {
        &self.area
    }

    /// The offset of the first page behind the words. The port may keep more there; see [`DeliveryFile::descriptor`].
    pub fn behind(&self) -> u64 {
        self.area.len_bytes().next_multiple_of(page_size() as u64)
    }

    /// The descriptor of the file, for another process.
    pub fn descriptor(&self) -> &SharedFile {
        &self.file
    }

    /// Closes the file without removing it, because another process continues with it.
    pub fn leave(self) {
        // Dropped, it would remove the path. The process ends soon.
        std::mem::forget(self);
    }
}

impl Drop for DeliveryFile {
    fn drop(&mut self) {
        if is_at(&self.path, self.identity) {
            // Nothing can be reported at this point.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Whether this file is what the path leads to.
fn is_at(path: &Path, file: (u64, u64)) -> bool {
    fs::symlink_metadata(path).is_ok_and(|at| identity(&at) == file)
}

/// The first of the folders that systemd has made for a service.
fn first_folder(folders: OsString) -> PathBuf {
    let first = folders.as_bytes().split(|byte| *byte == b':').next().unwrap_or_default();
    OsString::from_vec(first.to_vec()).into()
}

/// The path of a port's file, always in memory: in a folder of the service that is not mounted into pods and guests,
/// or, without a service, beside the socket, if no other user may write there. `None` if there is no such folder.
fn place(runtime: Option<&Path>, socket: &Path) -> io::Result<Option<PathBuf>> {
    let (folder, name) = match runtime {
        Some(runtime) => {
            let folder = runtime.join("deliveries");
            match DirBuilder::new().mode(0o700).create(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            // Sockets of one name may lie in several folders.
            let socket = std::path::absolute(socket)?;
            let name = socket.as_os_str().as_bytes().iter().flat_map(|byte| match byte {
                b'/' => b"+".to_vec(),
                b'+' | b'%' => format!("%{byte:02X}").into_bytes(),
                byte => vec![*byte],
            });
            (folder, OsString::from_vec(name.collect()))
        }
        None => {
            let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty());
            let mut name = socket.file_name().unwrap_or_default().to_owned();
            name.push(".deliveries");
            (folder.unwrap_or(Path::new(".")).to_owned(), name)
        }
    };
    Ok(is_own_and_in_memory(&folder).then(|| folder.join(name)))
}

/// Whether a folder is this user's, no other user may write to it, and files in it are made of ordinary pages of memory.
fn is_own_and_in_memory(folder: &Path) -> bool {
    let Ok(folder) = File::open(folder) else { return false };
    let is_own = folder.metadata().is_ok_and(|folder| {
        folder.is_dir() && folder.uid() == geteuid().as_raw() && folder.mode() & 0o022 == 0
    });
    let system = FileSystem::of(&folder);
    is_own && matches!(system, Ok((system, page)) if system.is_memory() && page == page_size() as u64)
}

/// Opens or makes it, and locks it. The process before this one may be about to end still.
fn locked(path: &Path) -> io::Result<File> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let file = open(path)?;
        let failure = match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            // The file may have been removed before it was locked.
            Ok(()) if is_at(path, identity(&file.metadata()?)) => return Ok(file),
            Ok(()) => io::Error::other(format!("{} is made anew again and again", path.display())),
            Err(error) => io::Error::other(format!("another process has {}: {error}", path.display())),
        };
        if Instant::now() > deadline {
            return Err(failure);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Opens or makes the file. Every user who may write to the folder could have made a file there before.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32).open(path)?;
    if is_of(&file.metadata()?, geteuid()) {
        Ok(file)
    } else {
        Err(io::Error::other(format!("{} belongs to another user", path.display())))
    }
}

/// Whether the file is a regular file that only this user can open.
pub(crate) fn is_of(metadata: &fs::Metadata, user: Uid) -> bool {
    metadata.is_file()
        // No link remains if the file was removed just now.
        && metadata.nlink() <= 1
        && metadata.uid() == user.as_raw()
        && metadata.mode() & 0o077 == 0
}
