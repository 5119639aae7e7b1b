//! The settings of a network device, whatever its front-end is.
use net_queues::cache_policy::CachePolicy;
use virtio::net::MacAddress;

/// Who is between the device and its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontEnd {
    /// A vhost-user front-end, which can set an MTU and send announcements, and may have a configuration space of its
    /// own.
    VhostUser,
    /// The kernel (VDUSE), which shows the device as it is.
    Kernel,
}

/// The settings; each field is that of `VhostUserOptions`.
#[derive(Clone, Debug)]
pub(crate) struct NetOptions {
    pub front_end: FrontEnd,
    pub queue_pairs: u16,
    pub mtu: Option<u16>,
    pub mac: Option<MacAddress>,
    pub packed: bool,
    pub in_order: bool,
    pub mergeable: bool,
    pub event_idx: bool,
    pub indirect: bool,
    pub offloads: bool,
    pub control_queue: bool,
    pub cache_policy: CachePolicy,
}
