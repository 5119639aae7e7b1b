//! Memory files that a peer has shared, and may keep open after they were unmapped here.
//!
//! The kernel charges a page to the control group of the process that first touches it, as long as the file has the
//! page. A peer can make this process the first: its descriptors point to fresh memory, and later it keeps the file
//! open. It is unknown which process has touched a page. All pages that the file has when it is unmapped are
//! therefore counted, up to as many as were mapped. They are counted until the file is gone.

use std::collections::{BTreeMap, btree_map};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::fstat;

use crate::file_system::FileSystem;
use crate::file_watch::{self, FileWatch};

/// Files that are kept apart. Bytes of further files count permanently.
const MAX_FILES: usize = 1024;

/// Device and inode.
type Identity = (u64, u64);

/// A file as it is now.
struct Status {
    identity: Identity,
    bytes: u64,
    /// The bytes of the pages that the file has.
    held_bytes: u64,
}

impl Status {
    /// `None` for a file whose pages are not charged to the process that touches them: huge pages come from a pool.
    fn of(file: impl AsFd) -> Option<Self> {
        let (file_system, _) = FileSystem::of(&file).ok()?;
        let status = fstat(&file).ok()?;
        let bytes = status.st_size as u64;
        let held_bytes = if file_system.counts_pages() { status.st_blocks as u64 * 512 } else { bytes };
        file_system.is_charged().then_some(Status {
            identity: (status.st_dev, status.st_ino),
            bytes,
            held_bytes,
        })
    }
}

/// A file that is mapped here, or was.
#[derive(Debug, Default)]
struct Entry {
    /// Size of the file when it was last mapped.
    file_bytes: u64,
    mapped_bytes: u64,
    /// Bytes that this process may have been charged for by former mappings of the file.
    kept_bytes: u64,
    /// `None` if the file cannot be watched; it is then counted permanently.
    watch: Option<FileWatch>,
}

impl Entry {
    /// The kept bytes that are not mapped now: bytes that are mapped again count once.
    fn left_bytes(&self) -> u64 {
        self.kept_bytes.min(self.file_bytes.saturating_sub(self.mapped_bytes))
    }

    fn is_gone(&self) -> bool {
        self.mapped_bytes == 0
            && (self.kept_bytes == 0 || self.watch.as_ref().is_some_and(FileWatch::is_gone))
    }
}

/// The files of one peer, over all its connections.
#[derive(Debug, Default)]
pub(crate) struct KeptFiles(Mutex<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    files: BTreeMap<Identity, Entry>,
    /// Bytes in files beyond the number that is tracked individually.
    more_bytes: u64,
}

impl KeptFiles {
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        file_watch::look();
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that `bytes` bytes of a file were mapped.
    pub fn mapped(&self, file: impl AsFd, bytes: u64) {
        let Some(status) = Status::of(file) else { return };
        let mut ledger = self.lock();
        let entry = ledger.files.entry(status.identity).or_default();
        if entry.is_gone() {
            // Another file has its number now.
            *entry = Entry::default();
        }
        entry.file_bytes = status.bytes;
        entry.mapped_bytes = entry.mapped_bytes.saturating_add(bytes);
    }

    /// Notes that `bytes` bytes of a file were unmapped. The file must still be open.
    pub fn unmapped(&self, file: impl AsFd, bytes: u64) {
        let Some(status) = Status::of(&file) else { return };
        let mut ledger = self.lock();
        let Some(entry) = ledger.files.get_mut(&status.identity) else { return };
        entry.mapped_bytes = entry.mapped_bytes.saturating_sub(bytes);
        entry.kept_bytes = entry.kept_bytes.saturating_add(bytes).min(status.held_bytes);
        if entry.watch.is_none() {
            entry.watch = FileWatch::new(&file).ok();
        }
        ledger.files.retain(|_, entry| !entry.is_gone());
        if ledger.files.len() > MAX_FILES {
            ledger.fold(status.identity);
        }
    }

    /// Bytes that files may keep, in addition to what is mapped.
    pub fn bytes(&self) -> u64 {
        let mut ledger = self.lock();
        ledger.files.retain(|_, entry| !entry.is_gone());
        ledger.files.values().map(Entry::left_bytes).fold(ledger.more_bytes, u64::saturating_add)
    }
}

impl Ledger {
    /// Forgets the identity of a file that is not mapped, and keeps the count of its bytes.
    fn fold(&mut self, identity: Identity) {
        if let btree_map::Entry::Occupied(entry) = self.files.entry(identity)
            && entry.get().mapped_bytes == 0
        {
            self.more_bytes = self.more_bytes.saturating_add(entry.remove().kept_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, PermissionsExt};

    use super::*;
    use crate::truncate::tests::memfd;

    const MIB: u64 = 1 << 20;

    fn touch(file: &File, bytes: u64) {
        for at in (0..bytes).step_by(4096) {
            file.write_all_at(&[1], at).unwrap();
        }
    }

    #[test]
    fn a_file_counts_for_the_pages_that_it_has_until_it_is_gone() {
        file_watch::prepare().unwrap();
        let files = KeptFiles::default();
        let file = memfd(4 * MIB);
        files.mapped(&file, 3 * MIB);
        assert_eq!(files.bytes(), 0, "what is mapped counts elsewhere");
        files.unmapped(&file, 3 * MIB);
        assert_eq!(files.bytes(), 0, "it has no page");
        files.mapped(&file, 3 * MIB);
        touch(&file, 2 * MIB);
        files.unmapped(&file, 3 * MIB);
        assert_eq!(files.bytes(), 2 * MIB);
        // A guest that comes again is no more than it was; neither are both of its regions.
        touch(&file, 4 * MIB);
        files.mapped(&file, MIB);
        files.mapped(&file, 3 * MIB);
        assert_eq!(files.bytes(), 0);
        files.unmapped(&file, 3 * MIB);
        assert_eq!(files.bytes(), 3 * MIB, "the rest of a file that is mapped");
        files.unmapped(&file, MIB);
        assert_eq!(files.bytes(), 4 * MIB);
        let other = file.try_clone().unwrap();
        drop(file);
        assert_eq!(files.bytes(), 4 * MIB);
        drop(other);
        assert_eq!(files.bytes(), 0);
        assert!(files.lock().files.is_empty());
    }

    /// Pages that a peer takes out of its file while others are made hide nothing.
    #[test]
    fn no_more_counts_than_was_mapped() {
        file_watch::prepare().unwrap();
        let files = KeptFiles::default();
        let file = memfd(64 * MIB);
        touch(&file, 64 * MIB);
        files.mapped(&file, MIB);
        files.unmapped(&file, MIB);
        assert_eq!(files.bytes(), MIB);
        files.mapped(&file, 2 * MIB);
        files.unmapped(&file, 2 * MIB);
        assert_eq!(files.bytes(), 3 * MIB, "they may have been others");
    }

    #[test]
    fn very_many_files_count_for_good() {
        file_watch::prepare().unwrap();
        let files = KeptFiles::default();
        let one = |_| {
            let file = memfd(4096);
            files.mapped(&file, 4096);
            touch(&file, 4096);
            files.unmapped(&file, 4096);
            file
        };
        let kept: Vec<File> = (0..MAX_FILES as u64 + 5).map(one).collect();
        assert_eq!(files.lock().files.len(), MAX_FILES);
        assert_eq!(files.bytes(), kept.len() as u64 * 4096);
        drop(kept);
        assert_eq!(files.bytes(), 5 * 4096);
    }

    /// A file whose mode keeps its readers out cannot be watched by an ordinary user. Root may: it is watched then.
    #[test]
    fn a_file_that_no_user_may_read_counts_too() {
        file_watch::prepare().unwrap();
        let files = KeptFiles::default();
        let file = memfd(MIB);
        file.set_permissions(std::fs::Permissions::from_mode(0o000)).unwrap();
        files.mapped(&file, MIB);
        touch(&file, MIB);
        files.unmapped(&file, MIB);
        assert_eq!(files.bytes(), MIB);
        drop(file);
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(files.bytes(), if is_root { 0 } else { MIB });
    }
}
