//! The options of a back-end port.
use std::path::PathBuf;

use memory::Backing;
use vhost_device::{BackendOptions, DEFAULT_LIMIT_BYTES, Role};
use virtio::net::MacAddress;

use crate::net::options::{FrontEnd, NetOptions};
use net_queues::cache_policy::CachePolicy;

/// The most queue pairs: the protocol has 256 queues, and one is for control.
pub const MAX_QUEUE_PAIRS: u16 = 127;

/// The options of a `vhost-user:` port. [`VhostUserOptions::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct VhostUserOptions {
    /// Path of the socket.
    pub path: PathBuf,
    /// Who listens.
    pub role: Role,
    /// Queue pairs, 1 to [`MAX_QUEUE_PAIRS`].
    pub queue_pairs: u16,
    /// The largest packet without Ethernet header, 68 to 65535 bytes; `None` for no limit.
    pub mtu: Option<u16>,
    /// The guest's address, if this end chooses it.
    pub mac: Option<MacAddress>,
    /// Offers packed rings.
    pub packed: bool,
    /// Offers buffers used in order.
    pub in_order: bool,
    /// Offers frames spread over several receive buffers.
    pub mergeable: bool,
    /// Offers notifications suppressed by position.
    pub event_idx: bool,
    /// Offers tables of descriptors.
    pub indirect: bool,
    /// Offers checksum and segmentation offloads, both directions.
    pub offloads: bool,
    /// Offers a control queue.
    pub control_queue: bool,
    /// Bytes of memory that a front-end may share: regions, log and in-flight buffer. While one table of regions
    /// replaces another, both are mapped.
    pub memory_bytes: u64,
    /// The kinds of file that a front-end may share as memory. Files of network and FUSE file systems are always
    /// refused, before any call that such a file system would have to answer.
    pub memory_backing: Backing,
    /// The cache policy of the queues.
    pub cache_policy: CachePolicy,
}

impl VhostUserOptions {
    /// The options of the network device.
    pub(super) fn net(&self) -> NetOptions {
        NetOptions {
            front_end: FrontEnd::VhostUser,
            queue_pairs: self.queue_pairs,
            mtu: self.mtu,
            mac: self.mac,
            packed: self.packed,
            in_order: self.in_order,
            mergeable: self.mergeable,
            event_idx: self.event_idx,
            indirect: self.indirect,
            offloads: self.offloads,
            control_queue: self.control_queue,
            cache_policy: self.cache_policy,
        }
    }

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
            queue_pairs: 1,
            mtu: None,
            mac: None,
            packed: true,
            in_order: true,
            mergeable: true,
            event_idx: true,
            indirect: true,
            offloads: true,
            control_queue: true,
            memory_bytes: DEFAULT_LIMIT_BYTES,
            memory_backing: Backing::Ram,
            cache_policy: CachePolicy::Auto,
        }
    }
}
