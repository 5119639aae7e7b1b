//! Requests of a back-end session to its embedder.

use super::answer::{
    ConfigBytes, CryptoSession, DeviceStatus, InflightArea, MappedBases, StateChannel, Userfault,
};
use crate::SharedFd;
use crate::codec::crypto::CryptoSetup;
use crate::codec::frontend_request::MacAddress;
use crate::codec::payload::{Inflight, Iotlb, LogArea, MemoryRegion, StateDirection};
use crate::session::{Outcome, Ticket};
use crate::vring::{QueueSize, RingLayout, VringAddresses, VringBase, VringIndex};
use virtio::Features;

/// A memory region and the file behind it.
#[derive(Debug)]
pub struct SharedRegion {
    /// The region. It is not empty, does not overflow, and overlaps no other region of the session.
    pub region: MemoryRegion,
    /// The file to map. Its size is the peer's statement until it is checked.
    pub file: SharedFd,
}

/// How the driver notifies the device of available buffers.
#[derive(Debug)]
pub enum Kick {
    /// By an eventfd.
    Event(SharedFd),
    /// The driver sends no kicks: the ring must be polled (bit 8 of SET_VRING_KICK).
    Poll,
    /// By VRING_KICK messages, which arrive as [`Event::VringKicked`].
    InBand,
}

/// The parameters of a started ring. Sizes, alignments and positions are checked against the layout. Whether the
/// addresses lie in shared memory is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringConfig {
    /// Split or packed.
    pub layout: RingLayout,
    /// Number of descriptors.
    pub size: QueueSize,
    /// The addresses of the ring's parts.
    pub addresses: VringAddresses,
    /// The guest address under which writes to the used ring are logged; `None` if they are not.
    pub log: Option<u64>,
    /// The position at which the ring continues.
    pub base: VringBase,
}

/// An action for the embedder. Each event has a ticket for its answer, unless the session needs none. The session's
/// state changes only when the answer reports success.
#[derive(Debug)]
#[allow(missing_docs, reason = "`done` and `answer` are the tickets, `index` the queue")]
pub enum Event {
    /// Use these device features. While rings run, only LOG_ALL changes.
    FeaturesSet { features: Features, done: Ticket<Outcome> },
    /// Map these regions and unmap all others. Running rings keep their addresses, which must be translated anew.
    MemoryTableSet { regions: Vec<SharedRegion>, done: Ticket<Outcome> },
    /// Map one more region.
    MemoryRegionAdded { region: SharedRegion, done: Ticket<Outcome> },
    /// Unmap this region.
    MemoryRegionRemoved { region: MemoryRegion, done: Ticket<Outcome> },
    /// Log dirty pages in this area.
    LogSet { area: LogArea, file: SharedFd, done: Ticket<Outcome> },
    /// Signal this eventfd after logging.
    LogNotifierSet { notifier: SharedFd, done: Ticket<Outcome> },
    /// Run this ring. A disabled ring consumes buffers but passes no data (vhost-user text, "Ring states").
    VringStarted {
        index: VringIndex,
        config: VringConfig,
        kick: Kick,
        call: Option<SharedFd>,
        err: Option<SharedFd>,
        enabled: bool,
        done: Ticket<Outcome>,
    },
    /// Stop this ring, let nothing write to it any more, and answer with its position.
    VringStopped { index: VringIndex, answer: Ticket<VringBase> },
    /// Enable or disable this running ring.
    VringEnabled { index: VringIndex, enabled: bool, done: Ticket<Outcome> },
    /// Use this call for this running ring. `None`: the driver polls, or is notified in-band.
    VringCallChanged { index: VringIndex, call: Option<SharedFd>, done: Ticket<Outcome> },
    /// Report errors of this running ring through this descriptor.
    VringErrChanged { index: VringIndex, err: Option<SharedFd>, done: Ticket<Outcome> },
    /// Use this kick for this running ring.
    VringKickChanged { index: VringIndex, kick: Kick, done: Ticket<Outcome> },
    /// Start or stop logging writes to this running ring's used part.
    VringLogChanged { index: VringIndex, log: Option<u64>, done: Ticket<Outcome> },
    /// A kick came in a message.
    VringKicked { index: VringIndex, done: Ticket<Outcome> },
    /// Send requests of the back-end over this socket.
    BackendChannelSet { socket: SharedFd, done: Ticket<Outcome> },
    /// A translation was added or invalidated.
    IotlbChanged { entry: Iotlb, done: Ticket<Outcome> },
    /// Announce the guest's address on the network.
    RarpRequested { address: MacAddress, done: Ticket<Outcome> },
    /// The guest has this MTU.
    MtuSet { mtu_bytes: u16, done: Ticket<Outcome> },
    /// Return bytes of configuration space.
    ConfigRead { offset: u32, size_bytes: u32, answer: Ticket<ConfigBytes> },
    /// Write configuration space. Read-only fields are written only for migration.
    ConfigWritten { offset: u32, bytes: Vec<u8>, migration: bool, done: Ticket<Outcome> },
    /// Create a session of a crypto device. `None` stands for one with an asymmetric key.
    CryptoSessionRequested { setup: Option<Box<CryptoSetup>>, answer: Ticket<CryptoSession> },
    /// Close this session of a crypto device. The front-end may name a session that an earlier process created.
    CryptoSessionClosed { number: u64, done: Ticket<Outcome> },
    /// Make a zeroed in-flight buffer. [`crate::inflight`] computes its size.
    InflightRequested {
        layout: RingLayout,
        queue_count: u16,
        queue_size: QueueSize,
        answer: Ticket<InflightArea>,
    },
    /// Use the in-flight buffer of an earlier back-end.
    InflightSet { inflight: Inflight, file: SharedFd, done: Ticket<Outcome> },
    /// Stop and disable all rings and forget the device's state.
    Reset { done: Ticket<Outcome> },
    /// The driver has set the device status (VIRTIO 1.3 §2.1).
    StatusSet { status: u8, done: Ticket<Outcome> },
    /// The driver asks for the device status.
    StatusRead { answer: Ticket<DeviceStatus> },
    /// Open a userfaultfd.
    PostcopyAdvised { answer: Ticket<Userfault> },
    /// Register shared memory with the userfaultfd from now on.
    PostcopyListening { done: Ticket<Outcome> },
    /// As [`Event::MemoryTableSet`] or, with `replace` false, [`Event::MemoryRegionAdded`]. The memory must not be
    /// accessed before [`Event::PostcopyMemoryReady`].
    PostcopyMemorySet { regions: Vec<SharedRegion>, replace: bool, answer: Ticket<MappedBases> },
    /// The front-end serves page faults, so memory may be accessed.
    PostcopyMemoryReady { done: Ticket<Outcome> },
    /// Close the userfaultfd.
    PostcopyEnded { done: Ticket<Outcome> },
    /// Write the device's state to this descriptor, or read it from the descriptor.
    DeviceStateTransfer { direction: StateDirection, file: SharedFd, answer: Ticket<StateChannel> },
    /// Check that the whole state arrived and fits.
    DeviceStateCheck { done: Ticket<Outcome> },
}
