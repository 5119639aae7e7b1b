//! The settings of a network device, whatever its front-end is.
use net_queues::cache_policy::CachePolicy;
use virtio::net::MacAddress;

use crate::PortError;
use crate::spec::{Options, SpecError};

/// Who is between the device and its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontEnd {
    /// A vhost-user front-end, which can set an MTU and send announcements, and may have a configuration space of its
    /// own.
    VhostUser,
    /// The kernel (VDUSE), which shows the device as it is.
    Kernel,
}

/// The options of the network device of a port.
#[derive(Clone, Debug)]
pub struct NetOptions {
    pub(crate) front_end: FrontEnd,
    /// Queue pairs. A `vduse:` port has one, because kernels refuse a control queue.
    pub queue_pairs: u16,
    /// The largest packet without Ethernet header, 68 to 65535 bytes; `None` for no limit.
    pub mtu: Option<u16>,
    /// The driver's address, if this end chooses it.
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
    /// The cache policy of the queues.
    pub cache_policy: CachePolicy,
}

impl NetOptions {
    /// One queue pair, and all offers that suit the front-end.
    pub(crate) fn new(front_end: FrontEnd) -> Self {
        let is_vhost_user = front_end == FrontEnd::VhostUser;
        NetOptions {
            front_end,
            queue_pairs: 1,
            mtu: None,
            mac: None,
            packed: true,
            in_order: true,
            mergeable: true,
            event_idx: true,
            indirect: true,
            offloads: true,
            control_queue: is_vhost_user,
            cache_policy: CachePolicy::Auto,
        }
    }

    /// Takes the network device's options out of those of a port. Options that are not given keep their values of
    /// `self`.
    pub(crate) fn read(self, options: &mut Options) -> Result<Self, SpecError> {
        Ok(NetOptions {
            mtu: options.number("mtu", 68..=65535u16)?,
            mac: options.value("mac")?,
            packed: options.switch("packed", self.packed)?,
            in_order: options.switch("in-order", self.in_order)?,
            mergeable: options.switch("mergeable", self.mergeable)?,
            event_idx: options.switch("event-idx", self.event_idx)?,
            indirect: options.switch("indirect", self.indirect)?,
            offloads: options.switch("offloads", self.offloads)?,
            ..self
        })
    }

    /// Checks that the processor has all that the options require. `name` names the port.
    pub(crate) fn check(&self, name: &str) -> Result<(), PortError> {
        let policy = self.cache_policy;
        if policy.is_supported() {
            return Ok(());
        }
        let why = format!("this processor has no instruction for cache policy {}", policy.name());
        let remedy = "let it be auto (--cache-policy), or none";
        Err(PortError::new(format!("set up {name}"), why, remedy))
    }
}
