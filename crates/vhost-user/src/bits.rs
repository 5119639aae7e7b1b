//! Feature bits of the protocol. The feature bits of devices are in [`virtio::Features`].
use bitflags::bitflags;

bitflags! {
    /// Protocol features (vhost-user text, "Protocol features").
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ProtocolFeatures: u64 {
        /// GET_QUEUE_NUM exists.
        const MQ = 1;
        /// SET_LOG_BASE passes the dirty log as a file descriptor.
        const LOG_SHMFD = 1 << 1;
        /// SEND_RARP exists.
        const RARP = 1 << 2;
        /// A sender may ask for an acknowledgement of any message.
        const REPLY_ACK = 1 << 3;
        /// NET_SET_MTU exists.
        const MTU = 1 << 4;
        /// The back-end may send requests over a socket of its own.
        const BACKEND_REQ = 1 << 5;
        /// SET_VRING_ENDIAN exists (legacy devices).
        const CROSS_ENDIAN = 1 << 6;
        /// Crypto session messages exist.
        const CRYPTO_SESSION = 1 << 7;
        /// Postcopy messages exist.
        const PAGEFAULT = 1 << 8;
        /// GET_CONFIG, SET_CONFIG and CONFIG_CHANGE exist.
        const CONFIG = 1 << 9;
        /// The back-end may pass file descriptors to the front-end.
        const BACKEND_SEND_FD = 1 << 10;
        /// VRING_HOST_NOTIFIER exists.
        const HOST_NOTIFIER = 1 << 11;
        /// GET_INFLIGHT_FD and SET_INFLIGHT_FD exist.
        const INFLIGHT_SHMFD = 1 << 12;
        /// RESET_DEVICE exists.
        const RESET_DEVICE = 1 << 13;
        /// Kicks, calls and errors may be messages.
        const INBAND_NOTIFICATIONS = 1 << 14;
        /// Memory regions come one by one.
        const CONFIGURE_MEM_SLOTS = 1 << 15;
        /// GET_STATUS and SET_STATUS exist.
        const STATUS = 1 << 16;
        /// Memory regions carry Xen fields.
        const XEN_MMAP = 1 << 17;
        /// Shared-object messages exist.
        const SHARED_OBJECT = 1 << 18;
        /// SET_DEVICE_STATE_FD and CHECK_DEVICE_STATE exist.
        const DEVICE_STATE = 1 << 19;
        /// GET_VRING_BASE may leave requests in flight.
        const GET_VRING_BASE_INFLIGHT = 1 << 20;
        /// Memory regions and rings are given by guest addresses alone.
        const GPA_ADDRESSES = 1 << 21;
        /// The device has VIRTIO shared memory regions.
        const SHMEM = 1 << 22;
        const _ = !0;
    }
}

impl ProtocolFeatures {
    /// Everything that the sessions of this crate handle. Other features are never offered or accepted;
    /// [`crate::codec::table::NOT_OFFERED`] gives the reason for each.
    pub const HANDLED: Self = Self::MQ
        .union(Self::LOG_SHMFD)
        .union(Self::RARP)
        .union(Self::REPLY_ACK)
        .union(Self::MTU)
        .union(Self::BACKEND_REQ)
        .union(Self::CRYPTO_SESSION)
        .union(Self::PAGEFAULT)
        .union(Self::CONFIG)
        .union(Self::BACKEND_SEND_FD)
        .union(Self::HOST_NOTIFIER)
        .union(Self::INFLIGHT_SHMFD)
        .union(Self::RESET_DEVICE)
        .union(Self::INBAND_NOTIFICATIONS)
        .union(Self::CONFIGURE_MEM_SLOTS)
        .union(Self::STATUS)
        .union(Self::DEVICE_STATE);

    /// A feature of this set that needs another one which the set lacks, and the one that it needs; `None` if nothing
    /// is missing.
    ///
    /// In-band notifications need a back-end channel and acknowledgements (vhost-user text, "In-band notifications"):
    /// without them the back-end must close the connection.
    pub fn unmet_need(self) -> Option<(Self, Self)> {
        let needs = Self::BACKEND_REQ.union(Self::REPLY_ACK);
        (self.contains(Self::INBAND_NOTIFICATIONS) && !self.contains(needs))
            .then_some((Self::INBAND_NOTIFICATIONS, needs))
    }
}
