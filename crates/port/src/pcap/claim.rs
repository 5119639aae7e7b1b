//! Files that captures of this process use. A file that is written has one writer and no reader.
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;

use super::patience;

/// Device and inode: names may differ.
type Identity = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Replay,
    Record,
}

static CLAIMS: Mutex<Vec<(Identity, Use)>> = Mutex::new(Vec::new());

fn claims() -> MutexGuard<'static, Vec<(Identity, Use)>> {
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that a port or a capture uses, until this is dropped.
#[derive(Debug)]
pub struct FileClaim {
    claim: (Identity, Use),
    /// Keeps the inode's number from being reused for another file.
    _file: Option<File>,
}

impl FileClaim {
    /// A claim to record to this open file.
    ///
    /// # Errors
    /// Another port or capture of this process records to the file, or replays it.
    pub fn record(file: &Metadata) -> io::Result<Self> {
        Self::new(file, Use::Record, None)
    }

    /// A claim to replay the file at this path.
    pub(super) fn replay(path: &Path) -> io::Result<Self> {
        let path_only = OFlags::PATH.bits() as libc::c_int;
        let path = path.to_owned();
        let (metadata, file) = patience::ask(move || {
            let file = File::options().read(true).custom_flags(path_only).open(path)?;
            Ok((file.metadata()?, file))
        })?;
        Self::new(&metadata, Use::Replay, Some(file))
    }

    fn new(metadata: &Metadata, purpose: Use, file: Option<File>) -> io::Result<Self> {
        let identity = (metadata.dev(), metadata.ino());
        let mut claims = claims();
        let others = claims.iter().filter(|(used, _)| *used == identity).map(|(_, purpose)| *purpose);
        for other in others {
            let why = match (other, purpose) {
                (Use::Replay, Use::Replay) => continue,
                (Use::Replay, Use::Record) => "it is a capture that is to be replayed",
                (Use::Record, _) => "another port or capture records to it",
            };
            return Err(io::Error::other(why));
        }
        let claim = (identity, purpose);
        claims.push(claim);
        Ok(FileClaim { claim, _file: file })
    }
}

impl Drop for FileClaim {
    fn drop(&mut self) {
        let mut claims = claims();
        if let Some(at) = claims.iter().position(|claim| *claim == self.claim) {
            claims.swap_remove(at);
        }
    }
}
