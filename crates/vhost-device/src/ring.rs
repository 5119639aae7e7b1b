//! One started ring: its parameters from the front-end, and its queue.
use std::fmt::Display;
use std::sync::Arc;

use memory::{Address, AddressSpace, Mapping};
use vhost_user::SharedFd;
use vhost_user::session::Refusal;
use vhost_user::session::backend::VringConfig;
use vhost_user::vring::VringBase;
use virtio::{Features, QueueSize, RingLayout};
use virtqueue::{DeviceOptions, DeviceQueue, IndirectFlags, Position, QueueConfig, RingFeatures, UsedLog};

use crate::device::{Device, RingQueue};
use crate::{EventFd, StoppedAt};

/// A ring that the front-end has started.
pub(crate) struct Ring<D: Device> {
    pub kind: D::Kind,
    pub config: VringConfig,
    pub enabled: bool,
    pub err: Option<SharedFd>,
    /// The driver's kick, if the control thread serves the ring.
    pub kick: Option<SharedFd>,
    /// Whether the ring is malformed. Its queue stays detached until the front-end stops the ring.
    pub broken: bool,
    /// The position of its queue when the queue found the ring malformed.
    pub stopped_at: Arc<StoppedAt>,
    /// The queue, while it is not attached.
    pub parked: Option<D::Queue>,
}

/// The front-end's in-flight buffer.
#[derive(Clone, Debug)]
pub(crate) struct InFlight {
    pub mapping: Arc<Mapping>,
    pub queue_count: u16,
    pub queue_size: u16,
}

impl InFlight {
    /// The part of one ring, `None` if it has none.
    fn part(&self, index: usize, layout: RingLayout) -> Option<(Arc<Mapping>, u64)> {
        let size = QueueSize::new(layout, self.queue_size.into()).ok()?;
        let stride = layout.in_flight_bytes(size);
        let index = u16::try_from(index).ok().filter(|index| *index < self.queue_count)?;
        Some((Arc::clone(&self.mapping), u64::from(index) * stride))
    }
}

/// The parts from which the device half of a ring is made.
pub(crate) struct HalfOf<'a> {
    pub index: usize,
    pub config: &'a VringConfig,
    /// The position at which the ring begins.
    pub position: Position,
    pub features: Features,
    pub indirect_flags: IndirectFlags,
}

/// Makes the device half of a ring in the given memory.
pub(crate) fn activate(
    ring: &HalfOf<'_>,
    space: &Arc<AddressSpace>,
    in_flight: Option<&InFlight>,
    log: Option<UsedLog>,
) -> Result<Box<dyn DeviceQueue>, Refusal> {
    let HalfOf { index, config, position, features, .. } = *ring;
    let refused = |why: &dyn Display| Refusal::new(format!("queue {index}: {why}"));
    if let Some(buffer) = in_flight.filter(|buffer| config.size.get() > buffer.queue_size) {
        let size = buffer.queue_size;
        return Err(refused(&format_args!("larger than the in-flight buffer's queues of {size}")));
    }
    let features = RingFeatures::from(features);
    // The vhost-user text gives ring addresses as the front-end's own ("user addresses").
    let queue = QueueConfig {
        features,
        size: config.size.get().into(),
        descriptors: Address::User(config.addresses.descriptor),
        driver_area: Address::User(config.addresses.driver),
        device_area: Address::User(config.addresses.device),
        position,
    };
    let in_flight = in_flight.and_then(|buffer| buffer.part(index, features.layout));
    let options = DeviceOptions { log, in_flight, indirect_flags: ring.indirect_flags };
    queue.activate_device(space, options).map_err(|error| refused(&error))
}

/// Converts a position of the protocol to one of a queue.
pub(crate) fn position(base: VringBase) -> Position {
    match base {
        // The used ring's own index is the same: a stopped ring has nothing in flight.
        VringBase::Split { next_available } => Position::Split { next_available, next_used: next_available },
        VringBase::Packed { available, used } => {
            Position::Packed { next_available: available, next_used: used }
        }
    }
}

/// Converts a position of a queue to one of the protocol.
pub(crate) fn base(position: Position) -> VringBase {
    match position {
        Position::Split { next_available, .. } => VringBase::Split { next_available },
        Position::Packed { next_available, next_used } => {
            VringBase::Packed { available: next_available, used: next_used }
        }
    }
}

/// Sets the driver's call and notifies at once: QEMU starts a ring with an eventfd that nothing listens to, and
/// passes the guest's own one later. A notification in between was lost, and with an event index the driver would not
/// be notified again.
pub(crate) fn set_call(queue: &mut dyn RingQueue, call: Option<EventFd>) {
    if let Some(call) = &call {
        call.notify();
    }
    queue.set_call(call);
}
