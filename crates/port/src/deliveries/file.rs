//! The file that outlives the process: in memory, so that nothing on the packet path waits for a disk.
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::{FileSystem, Mapping};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock};
use rustix::param::page_size;
use rustix::process::geteuid;

use super::Area;

/// A port's file: removed with the port, and left behind by a process that is killed.
#[derive(Debug)]
pub struct DeliveryFile {
    path: PathBuf,
    file: File,
    /// Device and inode.
    identity: (u64, u64),
    area: Arc<Area>,
}

impl DeliveryFile {
    /// The file of the port with this socket and so many queue pairs, beside the socket; `None` where that folder is
    /// not in memory. An error if it cannot be made, or another process has it.
    pub fn open(socket: &Path, pairs: u16) -> io::Result<Option<Self>> {
        if !is_in_memory(socket) {
            return Ok(None);
        }
        let path = path(socket);
        Self::of(open(&path)?, path, pairs).map(Some)
    }

    /// The one with which another process lets this one go on.
    pub(crate) fn take_over(file: OwnedFd, socket: &Path, pairs: u16) -> io::Result<Self> {
        Self::of(file.into(), path(socket), pairs)
    }

    fn of(file: File, path: PathBuf, pairs: u16) -> io::Result<Self> {
        // Whoever takes over has the same lock by the same open file.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let bytes = Area::bytes(pairs);
        if file.metadata()?.len() != bytes {
            file.set_len(0)?;
            // All of it now: a page that is not to be had later would end the process.
            let reserved = fallocate(&file, FallocateFlags::empty(), 0, bytes);
            reserved.inspect_err(|_| _ = fs::remove_file(&path))?;
        }
        let mapping = Mapping::shared(&file, 0, bytes).map_err(io::Error::other)?;
        let area = Area::open(&Arc::new(mapping), pairs).map_err(io::Error::other)?;
        Ok(DeliveryFile { identity: identity(&file.metadata()?), path, file, area: Arc::new(area) })
    }

    /// Its words, for the queues of the port.
    pub fn area(&self) -> &Arc<Area> {
        &self.area
    }

    /// For another process.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Lets go of a file with which another process goes on: it stays.
    pub(crate) fn leave(self) {
        // Dropped, it would remove the path. The process ends soon.
        std::mem::forget(self);
    }
}

impl Drop for DeliveryFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|at| identity(&at) == self.identity) {
            // Nobody is left to tell.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Where the file of a port lies.
fn path(socket: &Path) -> PathBuf {
    let mut path = OsString::from(socket);
    path.push(".deliveries");
    path.into()
}

/// Whether a file in the folder of this socket is made of ordinary pages of memory.
fn is_in_memory(socket: &Path) -> bool {
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let system = File::open(folder).map(|folder| FileSystem::of(&folder));
    matches!(system, Ok(Ok((system, page))) if system.is_memory() && page == page_size() as u64)
}

/// Opens or makes it; whoever may write to the folder could have put something there before.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let file = options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    let is_ours = metadata.is_file()
        && metadata.nlink() == 1
        && metadata.uid() == geteuid().as_raw()
        && metadata.mode() & 0o077 == 0;
    if is_ours { Ok(file) } else { Err(io::Error::other(format!("{} is somebody else's", path.display()))) }
}
