//! The options of a back-end port.
use std::path::PathBuf;

use memory::Backing;
use vhost_device::{BackendOptions, DEFAULT_LIMIT_BYTES, Role};

use crate::net::options::{FrontEnd, NetOptions};

/// The most queue pairs: the protocol has 256 queues, and one is for control.
pub const MAX_QUEUE_PAIRS: u16 = 127;

/// The options of a `vhost-user:` port. [`VhostUserOptions::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct VhostUserOptions {
    /// Path of the socket.
    pub path: PathBuf,
    /// Who listens.
    pub role: Role,
    /// The network device. It has 1 to [`MAX_QUEUE_PAIRS`] queue pairs.
    pub net: NetOptions,
    /// Bytes of memory that a front-end may share: regions, log and in-flight buffer. While one table of regions
    /// replaces another, both are mapped.
    pub memory_bytes: u64,
    /// The kinds of file that a front-end may share as memory. Files of network and FUSE file systems are always
    /// refused, before any call that such a file system would have to answer.
    pub memory_backing: Backing,
}

impl VhostUserOptions {
    /// The options for the socket and the memory.
    pub(super) fn backend(&self) -> BackendOptions {
        BackendOptions {
            path: self.path.clone(),
            role: self.role,
            memory_bytes: self.memory_bytes,
            memory_backing: self.memory_backing,
        }
    }

    /// One queue pair, listening, with everything offered.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        VhostUserOptions {
            path: path.into(),
            role: Role::Server,
            net: NetOptions::new(FrontEnd::VhostUser),
            memory_bytes: DEFAULT_LIMIT_BYTES,
            memory_backing: Backing::Ram,
        }
    }
}
