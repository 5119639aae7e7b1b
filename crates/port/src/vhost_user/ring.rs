//! One started ring: what the front-end said of it, and its queue.
use std::any::Any;
use std::fmt::Display;
use std::sync::Arc;

use frame::{Side, Sink};
use memory::{Address, AddressSpace, Mapping};
use vhost_user::SharedFd;
use vhost_user::session::Refusal;
use vhost_user::session::backend::VringConfig;
use vhost_user::vring::VringBase;
use virtio::{Features, QueueSize, RingLayout};
use virtqueue::{DeviceOptions, DeviceQueue, IndirectFlags, Position, QueueConfig, RingFeatures, UsedLog};

use super::control::ControlQueue;
use crate::Queue;
use crate::device::{EventFd, FromGuest, StoppedAt, ToGuest};

/// What a ring is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Frames of this pair.
    Data(u16, Side),
    /// Commands.
    Control,
}

impl Kind {
    /// VIRTIO 1.3 §5.1.2: receiveq and transmitq take turns, the control queue comes after all pairs: those
    /// of the device with MQ, else one.
    pub fn of(index: usize, queue_pairs: u16, features: Features) -> Self {
        let pairs = if features.contains(Features::NET_MQ) { queue_pairs.into() } else { 1 };
        if features.contains(Features::NET_CTRL_VQ) && index == 2 * pairs {
            return Kind::Control;
        }
        let side = if index.is_multiple_of(2) { Side::ToGuest } else { Side::FromGuest };
        Kind::Data((index / 2) as u16, side)
    }
}

/// In words.
pub(super) fn direction(side: Side) -> &'static str {
    match side {
        Side::FromGuest => "from",
        Side::ToGuest => "to",
    }
}

/// A ring that the front-end has started.
pub(super) struct Ring {
    pub kind: Kind,
    pub config: VringConfig,
    pub enabled: bool,
    pub err: Option<SharedFd>,
    /// It is malformed and detached until the front-end stops it.
    pub broken: bool,
    /// Where its queue stood when it found that.
    pub stopped_at: Arc<StoppedAt>,
    /// Its queue, while it is not attached.
    pub parked: Option<RingQueue>,
}

/// The front-end's in-flight buffer.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
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

/// Makes the device half of a ring, at `position` in this memory.
pub(super) fn activate(
    index: usize,
    config: &VringConfig,
    position: Position,
    features: Features,
    space: &Arc<AddressSpace>,
    in_flight: Option<&InFlight>,
    log: Option<UsedLog>,
) -> Result<Box<dyn DeviceQueue>, Refusal> {
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
    // Transmitqs have the odd numbers (VIRTIO 1.3 §5.1.2).
    let indirect_flags = if index % 2 == 1 { IndirectFlags::AllReadable } else { IndirectFlags::Trusted };
    let options = DeviceOptions { log, in_flight, indirect_flags };
    queue.activate_device(space, options).map_err(|error| refused(&error))
}

/// Where a ring begins, in the terms of queues.
pub(super) fn position(base: VringBase) -> Position {
    match base {
        // The used ring's own index is the same: a stopped ring has nothing in flight.
        VringBase::Split { next_available } => Position::Split { next_available, next_used: next_available },
        VringBase::Packed { available, used } => {
            Position::Packed { next_available: available, next_used: used }
        }
    }
}

/// Where a queue stands, in the terms of the protocol.
pub(super) fn base(position: Position) -> VringBase {
    match position {
        Position::Split { next_available, .. } => VringBase::Split { next_available },
        Position::Packed { next_available, next_used } => {
            VringBase::Packed { available: next_available, used: next_used }
        }
    }
}

/// A queue that is not attached.
pub(super) enum RingQueue {
    Source(Box<FromGuest>),
    Sink(Box<ToGuest>),
    Control(Box<ControlQueue>),
}

impl RingQueue {
    /// Of a queue of this port's that comes back from the workers.
    pub fn from_workers(queue: Queue) -> Option<Self> {
        match queue {
            Queue::Source(source) => (source as Box<dyn Any>).downcast().ok().map(RingQueue::Source),
            Queue::Sink(sink) => (sink as Box<dyn Any>).downcast().ok().map(RingQueue::Sink),
        }
    }

    /// Changes a sink of this port's where it is.
    pub fn change_sink(sink: Box<dyn Sink>, how: impl FnOnce(&mut Self)) -> Box<dyn Sink> {
        let Ok(own) = (sink as Box<dyn Any>).downcast() else { unreachable!("this port attaches no others") };
        let mut queue = RingQueue::Sink(own);
        how(&mut queue);
        match queue {
            RingQueue::Sink(sink) => sink,
            RingQueue::Source(_) | RingQueue::Control(_) => unreachable!("it is a sink still"),
        }
    }

    /// As the workers take it; a control queue comes back, for it is not theirs.
    pub fn for_workers(self) -> Result<Queue, Self> {
        match self {
            RingQueue::Source(source) => Ok(Queue::Source(source)),
            RingQueue::Sink(sink) => Ok(Queue::Sink(sink)),
            RingQueue::Control(_) => Err(self),
        }
    }

    pub fn queue(&mut self) -> &mut dyn DeviceQueue {
        match self {
            RingQueue::Source(source) => source.queue(),
            RingQueue::Sink(sink) => sink.queue(),
            RingQueue::Control(control) => control.queue(),
        }
    }

    /// Where to read later where it has stopped by itself. (Of a control queue whoever serves it writes it down.)
    pub fn stopped_at(&self) -> Arc<StoppedAt> {
        match self {
            RingQueue::Source(source) => Arc::clone(&source.stopped_at),
            RingQueue::Sink(sink) => Arc::clone(&sink.stopped_at),
            RingQueue::Control(_) => Arc::default(),
        }
    }

    pub fn renew(&mut self, queue: Box<dyn DeviceQueue>) {
        match self {
            RingQueue::Source(source) => source.renew(queue),
            RingQueue::Sink(sink) => sink.renew(queue),
            RingQueue::Control(control) => control.renew(queue),
        }
    }

    pub fn set_enabled(&mut self, enabled: bool) {
        match self {
            RingQueue::Source(source) => source.set_enabled(enabled),
            RingQueue::Sink(sink) => sink.set_enabled(enabled),
            RingQueue::Control(control) => control.set_enabled(enabled),
        }
    }

    /// Notifies the driver so from now on, and at once: QEMU starts a ring with an eventfd that nobody listens to and
    /// passes the guest's own behind it. What was notified in between nobody heard, and with an event index the driver
    /// would not be notified again.
    pub fn set_call(&mut self, call: Option<EventFd>) {
        if let Some(call) = &call {
            call.notify();
        }
        match self {
            RingQueue::Source(source) => source.set_call(call),
            RingQueue::Sink(sink) => sink.set_call(call),
            RingQueue::Control(control) => control.set_call(call),
        }
    }

    /// Kicks of a receiveq are not listened to: nobody waits for its buffers.
    pub fn set_kick(&mut self, kick: Option<EventFd>) {
        match (self, kick) {
            (RingQueue::Source(source), kick) => source.set_kick(kick),
            (RingQueue::Control(control), Some(kick)) => control.set_kick(kick),
            _ => {}
        }
    }

    /// Changes what goes in, of a sink.
    pub fn as_sink(&mut self) -> Option<&mut ToGuest> {
        if let RingQueue::Sink(sink) = self { Some(sink) } else { None }
    }
}
