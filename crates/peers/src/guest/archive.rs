//! The guest's whole file system, in the format that the kernel unpacks (initramfs, "newc" cpio).

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;

use cpio::NewcBuilder;

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const CONSOLE: u32 = 0o020_600;

/// An archive under construction. The kernel unpacks several archives in a row as one.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    inode: u32,
}

impl Archive {
    /// Adds an executable file, with the folders above it.
    ///
    /// # Errors
    /// The content has 4 GiB or more.
    pub fn file(&mut self, inside: &Path, content: &[u8]) -> io::Result<()> {
        for parent in inside.parent().into_iter().flat_map(|parent| {
            let mut all: Vec<_> = parent.ancestors().collect();
            all.reverse();
            all
        }) {
            self.folder(parent)?;
        }
        self.entry(inside, PROGRAM, content)
    }

    /// Adds a folder, unless the archive has it already.
    ///
    /// # Errors
    /// Never fails: writing to memory always succeeds.
    pub fn folder(&mut self, inside: &Path) -> io::Result<()> {
        let name = relative(inside);
        if name.is_empty() || !self.folders.insert(name) {
            return Ok(());
        }
        self.entry(inside, FOLDER, b"")
    }

    /// Adds `/dev/console`, which the kernel gives to `/init` before any file system is mounted.
    ///
    /// # Errors
    /// Never fails: writing to memory always succeeds.
    pub fn console(&mut self) -> io::Result<()> {
        self.folder(Path::new("dev"))?;
        self.entry(Path::new("dev/console"), CONSOLE, b"")
    }

    fn entry(&mut self, inside: &Path, mode: u32, content: &[u8]) -> io::Result<()> {
        self.inode += 1;
        let mut builder = NewcBuilder::new(&relative(inside)).ino(self.inode).mode(mode).nlink(1);
        if mode == CONSOLE {
            builder = builder.rdev_major(5).rdev_minor(1);
        }
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let mut entry = builder.write(&mut self.bytes, size);
        entry.write_all(content)?;
        entry.finish().map(drop)
    }

    /// Ends the archive and returns its bytes.
    ///
    /// # Errors
    /// Never fails: writing to memory always succeeds.
    pub fn finish(mut self) -> io::Result<Vec<u8>> {
        cpio::newc::trailer(&mut self.bytes)?;
        Ok(self.bytes)
    }
}

fn relative(path: &Path) -> String {
    path.to_string_lossy().trim_start_matches('/').to_owned()
}
