//! The file system of a file: whether an access to a mapped page can be delayed, and the size of its pages.

use std::fmt;
use std::os::fd::AsFd;

use rustix::fs::fstatfs;
use rustix::io::Errno;
use rustix::param::page_size;

const TMPFS_MAGIC: u64 = libc::TMPFS_MAGIC as u64;
const HUGETLBFS_MAGIC: u64 = libc::HUGETLBFS_MAGIC as u64;
/// ramfs: kept in memory, as tmpfs is, but never swapped. The libc crate has no constant for it.
const RAMFS_MAGIC: u64 = 0x8584_58f6;

/// Names for messages (`statfs(2)`); other file systems are printed as numbers.
const NAMES: [(u64, &str); 16] = [
    (TMPFS_MAGIC, "tmpfs"),
    (HUGETLBFS_MAGIC, "hugetlbfs"),
    (RAMFS_MAGIC, "ramfs"),
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0x794c_7630, "overlayfs"),
    (0x6573_5546, "fuse"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x6264_6576, "bdevfs"),
];

/// A kind of file system, by its magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem(u64);

impl FileSystem {
    /// The file system of an open file, and the page size of its mappings in bytes.
    ///
    /// # Errors
    /// `fstatfs` is refused.
    pub fn of(fd: impl AsFd) -> Result<(Self, u64), Errno> {
        let status = fstatfs(fd)?;
        let base = page_size() as u64;
        // The type of the field has 32 bits on some systems, and is then sign-extended.
        let magic = status.f_type as u64 & 0xffff_ffff;
        let page = if magic == HUGETLBFS_MAGIC { (status.f_bsize as u64).max(base) } else { base };
        Ok((FileSystem(magic), page))
    }

    /// Whether a page is charged to the control group of the process that first touches it.
    pub(crate) fn is_charged(self) -> bool {
        [TMPFS_MAGIC, RAMFS_MAGIC].contains(&self.0)
    }

    /// Whether its files report how many pages they have (`st_blocks`).
    pub(crate) fn counts_pages(self) -> bool {
        self.0 != RAMFS_MAGIC
    }

    /// Whether its pages are always in memory, so that a page fault waits for no disk, server or program.
    pub fn is_memory(self) -> bool {
        [TMPFS_MAGIC, HUGETLBFS_MAGIC, RAMFS_MAGIC].contains(&self.0)
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(magic, _)| *magic == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "a file system of type {:#x}", self.0),
        }
    }
}
