//! What a back-end session asks of its embedder.

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
    /// Not empty, overflows nowhere, overlaps no other region of the session.
    pub region: MemoryRegion,
    /// What to map. Its size is the peer's word until it is checked.
    pub file: SharedFd,
}

/// How the driver says that buffers are available.
#[derive(Debug)]
pub enum Kick {
    /// By an eventfd.
    Event(SharedFd),
    /// Not at all: poll the ring (bit 8 of SET_VRING_KICK).
    Poll,
    /// By VRING_KICK messages, which come as [`Event::VringKicked`].
    InBand,
}

/// What a started ring is made of. Sizes, alignments and positions are checked against the layout; that
/// the addresses lie in shared memory is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VringConfig {
    /// Split or packed.
    pub layout: RingLayout,
    /// Number of descriptors.
    pub size: QueueSize,
    /// Where its parts lie.
    pub addresses: VringAddresses,
    /// Guest address by which writes to the used ring are logged, if they are.
    pub log: Option<u64>,
    /// Where it continues.
    pub base: VringBase,
}

/// What the embedder is to do. Each event comes with a ticket for its answer, except where the session
/// needs none; state changes only when the answer says that it was done.
#[derive(Debug)]
#[allow(missing_docs, reason = "`done` and `answer` are the tickets, `index` the queue")]
pub enum Event {
    /// Device features are agreed on; while rings run only LOG_ALL changes.
    FeaturesSet { features: Features, done: Ticket<Outcome> },
    /// Map these regions and drop all others. Running rings keep their addresses: translate them anew.
    MemoryTableSet { regions: Vec<SharedRegion>, done: Ticket<Outcome> },
    /// Map one region more.
    MemoryRegionAdded { region: SharedRegion, done: Ticket<Outcome> },
    /// Unmap this region.
    MemoryRegionRemoved { region: MemoryRegion, done: Ticket<Outcome> },
    /// Log dirty pages here.
    LogSet { area: LogArea, file: SharedFd, done: Ticket<Outcome> },
    /// Signal this eventfd after logging.
    LogNotifierSet { notifier: SharedFd, done: Ticket<Outcome> },
    /// Run this ring. Disabled, it takes buffers but passes no data (vhost-user text, "Ring states").
    VringStarted {
        index: VringIndex,
        config: VringConfig,
        kick: Kick,
        call: Option<SharedFd>,
        err: Option<SharedFd>,
        enabled: bool,
        done: Ticket<Outcome>,
    },
    /// Stop this ring, let nothing of it be written any more, and say where it ended.
    VringStopped { index: VringIndex, answer: Ticket<VringBase> },
    /// Let data pass this running ring, or not.
    VringEnabled { index: VringIndex, enabled: bool, done: Ticket<Outcome> },
    /// Notify this running ring's driver so from now on; `None`: the driver polls, or hears in-band.
    VringCallChanged { index: VringIndex, call: Option<SharedFd>, done: Ticket<Outcome> },
    /// Report this running ring's errors so from now on.
    VringErrChanged { index: VringIndex, err: Option<SharedFd>, done: Ticket<Outcome> },
    /// Listen to this running ring's driver so from now on.
    VringKickChanged { index: VringIndex, kick: Kick, done: Ticket<Outcome> },
    /// Log writes to this running ring's used part, or do not any more.
    VringLogChanged { index: VringIndex, log: Option<u64>, done: Ticket<Outcome> },
    /// A kick in a message.
    VringKicked { index: VringIndex, done: Ticket<Outcome> },
    /// Requests of the back-end go over this socket.
    BackendChannelSet { socket: SharedFd, done: Ticket<Outcome> },
    /// A translation was given or taken back.
    IotlbChanged { entry: Iotlb, done: Ticket<Outcome> },
    /// Announce the guest's address on the network.
    RarpRequested { address: MacAddress, done: Ticket<Outcome> },
    /// The guest is told this MTU.
    MtuSet { mtu_bytes: u16, done: Ticket<Outcome> },
    /// Read configuration space.
    ConfigRead { offset: u32, size_bytes: u32, answer: Ticket<ConfigBytes> },
    /// Write configuration space; read-only fields only for migration.
    ConfigWritten { offset: u32, bytes: Vec<u8>, migration: bool, done: Ticket<Outcome> },
    /// Make a session of a crypto device; `None`: of an asymmetric key.
    CryptoSessionRequested { setup: Option<Box<CryptoSetup>>, answer: Ticket<CryptoSession> },
    /// End this session of a crypto device. The front-end may name one that an earlier process had given.
    CryptoSessionClosed { number: u64, done: Ticket<Outcome> },
    /// Make a zeroed in-flight buffer; [`crate::inflight`] knows its size.
    InflightRequested {
        layout: RingLayout,
        queue_count: u16,
        queue_size: QueueSize,
        answer: Ticket<InflightArea>,
    },
    /// What an earlier back-end had in flight.
    InflightSet { inflight: Inflight, file: SharedFd, done: Ticket<Outcome> },
    /// Stop and disable all rings and forget the device's state.
    Reset { done: Ticket<Outcome> },
    /// The driver's device status (VIRTIO 1.3 §2.1).
    StatusSet { status: u8, done: Ticket<Outcome> },
    /// The driver asks for the device status.
    StatusRead { answer: Ticket<DeviceStatus> },
    /// Open a userfaultfd.
    PostcopyAdvised { answer: Ticket<Userfault> },
    /// From now on shared memory is registered with the userfaultfd.
    PostcopyListening { done: Ticket<Outcome> },
    /// As [`Event::MemoryTableSet`] or, with `replace` false, [`Event::MemoryRegionAdded`]; touch
    /// nothing before [`Event::PostcopyMemoryReady`].
    PostcopyMemorySet { regions: Vec<SharedRegion>, replace: bool, answer: Ticket<MappedBases> },
    /// The front-end serves page faults: memory may be touched.
    PostcopyMemoryReady { done: Ticket<Outcome> },
    /// Close the userfaultfd.
    PostcopyEnded { done: Ticket<Outcome> },
    /// Write the device's state to this descriptor, or read it from there.
    DeviceStateTransfer { direction: StateDirection, file: SharedFd, answer: Ticket<StateChannel> },
    /// Did the whole state arrive and fit?
    DeviceStateCheck { done: Ticket<Outcome> },
}
