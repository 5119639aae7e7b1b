//! Accesses files below a root. Below `/` files are opened as any program opens them. Any other root may be a tree
//! that an untrusted program wrote. No path leaves such a tree, whatever links the tree contains. Only regular files
//! are opened, because a pipe or device could block. A file with a second hard link is not written, because that link
//! may lie outside of the tree.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// No file of a host is larger. Lists of interrupts of thousands of CPUs have some MiB.
const MOST_BYTES: u64 = 64 << 20;

/// A root.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Root {
    pub fn new(path: PathBuf) -> Self {
        Root(path)
    }

    /// Whether the root is this machine's own `/`.
    pub fn is_live(&self) -> bool {
        self.0 == Path::new("/")
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// There is no such file, or it may not be opened. Below another root also: the file is not a regular file, or
    /// /proc is not mounted.
    pub fn reader(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        if self.is_live() {
            return Ok(self.open(path, flags)?.into());
        }
        let (place, _) = self.regular(path)?;
        again(&place, flags)
    }

    /// Returns a file's bytes.
    ///
    /// # Errors
    /// The file cannot be opened, for the reasons of [`Root::reader`], or cannot be read; or it has more than 64 MiB.
    pub fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let file = self.reader(path)?;
        let mut bytes = Vec::new();
        let told = file.metadata()?.len();
        if told <= MOST_BYTES {
            file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
        }
        match told.max(bytes.len() as u64) {
            ..=MOST_BYTES => Ok(bytes),
            _ => Err(io::Error::other(format!("it has more than {} MiB", MOST_BYTES >> 20))),
        }
    }

    /// Opens a file for writing. Below a root other than `/` a missing file is made.
    ///
    /// # Errors
    /// There is no such file below `/`, or it may not be opened. Below another root there are more causes: the path has
    /// no folder or leads to something other than a regular file, the file has a second hard link, or /proc is not
    /// mounted.
    pub fn writer(&self, path: &str) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        if self.is_live() {
            return Ok(self.open(path, flags)?.into());
        }
        match self.regular(path) {
            Ok((_, true)) => Err(io::Error::other("it has other names, which may lie elsewhere")),
            Ok((place, _)) => again(&place, flags),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let (folder, name) = self.parent(path)?;
                let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                Ok(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o666))?.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Whether there is such a file or folder.
    pub fn has(&self, path: &str) -> bool {
        self.open(path, OFlags::PATH).is_ok()
    }

    /// The names in a folder, each with a flag that says whether the name is a folder. A link to a folder does not
    /// count as a folder.
    ///
    /// # Errors
    /// There is no such folder, or it may not be read.
    pub fn names(&self, path: &str) -> io::Result<Vec<(String, bool)>> {
        let mut folder = Dir::new(self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
        let mut names = Vec::new();
        while let Some(entry) = folder.next() {
            let entry = entry?;
            let name = entry.file_name();
            let kind = match entry.file_type() {
                // Not every file system returns the type here.
                FileType::Unknown => rustix::fs::statat(folder.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
                kind => kind,
            };
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push((name.to_string_lossy().into_owned(), kind == FileType::Directory));
            }
        }
        Ok(names)
    }

    /// Whether a path leads to a folder.
    pub fn is_folder(&self, path: &str) -> bool {
        self.open(path, OFlags::PATH | OFlags::DIRECTORY).is_ok()
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// The folder that the path's last name is in cannot be opened, the path does not end in a name, or there is no
    /// link of that name.
    pub fn link(&self, path: &str) -> io::Result<PathBuf> {
        let (folder, name) = self.parent(path)?;
        let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
        Ok(target.to_string_lossy().into_owned().into())
    }

    /// Makes a symbolic link at `path` with the target `target`.
    ///
    /// # Errors
    /// The folder that the path's last name is in cannot be opened, the path does not end in a name, or `symlink` is
    /// refused: the name is taken, or the folder may not be written.
    pub fn make_link(&self, target: &str, path: &str) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(rustix::fs::symlinkat(target, folder, name)?)
    }

    /// Makes a folder.
    ///
    /// # Errors
    /// The folder that the path's last name is in cannot be opened, the path does not end in a name, or `mkdir` is
    /// refused: the name is taken, or the folder may not be written.
    pub fn make_folder(&self, path: &str) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o777))?)
    }

    /// Removes a file or a link.
    ///
    /// # Errors
    /// The folder that the path's last name is in cannot be opened, the path does not end in a name, or `unlink` is
    /// refused: there is no such file, or it is a folder.
    pub fn remove_file(&self, path: &str) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// The folder that the path's last name is in cannot be opened, the path does not end in a name, or `rmdir` is
    /// refused: there is no such folder, it is not empty, or it is a cgroup that is in use.
    pub fn remove_folder(&self, path: &str) -> io::Result<()> {
        let (folder, name) = self.parent(path)?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR)?)
    }

    /// Opens what a path leads to within the root, without making anything.
    fn open(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        if self.is_live() {
            return Ok(rustix::fs::open(path, flags, Mode::empty())?);
        }
        let root =
            rustix::fs::open(&self.0, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        // The kernel takes `/` and links to it for the root here.
        let within = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Ok(rustix::fs::openat2(root, path, flags, Mode::empty(), within)?)
    }

    /// A regular file that is not opened yet, and whether it has a second name.
    fn regular(&self, path: &str) -> io::Result<(OwnedFd, bool)> {
        let place = self.open(path, OFlags::PATH)?;
        let stat = rustix::fs::fstat(&place)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((place, stat.st_nlink > 1)),
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Err(io::Error::other("it is no regular file")),
        }
    }

    /// The folder that a path's last name is in, and that name.
    fn parent<'a>(&self, path: &'a str) -> io::Result<(OwnedFd, &'a str)> {
        match path.rsplit_once('/') {
            Some((_, "" | "." | "..")) | None => Err(ErrorKind::InvalidInput.into()),
            Some((folder, name)) => {
                Ok((self.open(&format!("{folder}/"), OFlags::PATH | OFlags::DIRECTORY)?, name))
            }
        }
    }
}

/// Opens a file that was found before, and no other of the same path.
fn again(place: &OwnedFd, flags: OFlags) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    match rustix::fs::openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => Ok(file.into()),
        // The file exists.
        Err(Errno::NOENT) => Err(io::Error::other("/proc is not mounted")),
        Err(error) => Err(error.into()),
    }
}
