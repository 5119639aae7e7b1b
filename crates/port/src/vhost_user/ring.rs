//! One started ring: what the front-end said of it, and the queue that is plugged in for it.
use std::any::Any;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use memory::{Address, AddressSpace, Mapping};
use vhost_user::session::backend::VringConfig;
use vhost_user::vring::{Layout as WireLayout, PackedPosition, VringBase};
use virtio::Features;
use virtqueue::{
    ActivateError, Cursor, DeviceOptions, DeviceQueue, Layout, Position, QueueConfig, RingFeatures,
    TableFlags, UsedLog, packed_region_bytes, split_region_bytes,
};

use crate::device::{EventFd, FromGuest, ToGuest};
use crate::{Plugboard, Side};

/// Which queue of which pair a ring is (VIRTIO 1.3 §5.1.2): receiveq and transmitq take turns.
pub(super) fn place(index: usize) -> (u16, Side) {
    ((index / 2) as u16, if index.is_multiple_of(2) { Side::ToGuest } else { Side::FromGuest })
}

/// A ring that the front-end has started.
#[derive(Debug)]
pub(super) struct Ring {
    pub config: VringConfig,
    pub enabled: bool,
    pub err: Option<Arc<OwnedFd>>,
    /// It is malformed and unplugged until the front-end stops it.
    pub broken: bool,
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
    fn part(&self, index: usize, layout: Layout) -> Option<(Arc<Mapping>, u64)> {
        let size = virtqueue::QueueSize::new(layout, self.queue_size.into()).ok()?;
        let stride = match layout {
            Layout::Split => split_region_bytes(size),
            Layout::Packed => packed_region_bytes(size),
        };
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
) -> Result<Box<dyn DeviceQueue>, ActivateError> {
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
    let tables = match place(index) {
        (_, Side::FromGuest) => TableFlags::AllReadable,
        (_, Side::ToGuest) => TableFlags::Believed,
    };
    queue.activate_device(space, DeviceOptions { log, in_flight, tables })
}

/// Where a ring begins, in the terms of queues.
pub(super) fn position(base: VringBase) -> Position {
    let cursor = |position: PackedPosition| Cursor { slot: position.index, wrap: position.wrap };
    match base {
        // The used ring's own index is the same: a stopped ring has nothing in flight.
        VringBase::Split { next_available } => Position::Split { next_available, next_used: next_available },
        VringBase::Packed { available, used } => {
            Position::Packed { next_available: cursor(available), next_used: cursor(used) }
        }
    }
}

/// Where a queue stands, in the terms of the protocol.
pub(super) fn base(position: Position) -> VringBase {
    let packed = |cursor: Cursor| PackedPosition { index: cursor.slot, wrap: cursor.wrap };
    match position {
        Position::Split { next_available, .. } => VringBase::Split { next_available },
        Position::Packed { next_available, next_used } => {
            VringBase::Packed { available: packed(next_available), used: packed(next_used) }
        }
    }
}

/// In words.
pub(super) fn layout_name(layout: WireLayout) -> &'static str {
    match layout {
        WireLayout::Split => "split",
        WireLayout::Packed => "packed",
    }
}

/// A queue that was taken out to be changed.
pub(super) enum Running {
    Source(Box<FromGuest>),
    Sink(Box<ToGuest>),
}

impl Running {
    /// Takes the queue of a ring out; nothing of it is lent then. `None` if it is not plugged in.
    pub fn unplug(index: usize, board: &mut dyn Plugboard) -> Option<Self> {
        let (pair, side) = place(index);
        match side {
            Side::FromGuest => {
                let source: Box<dyn Any> = board.unplug_source(pair)?;
                source.downcast().ok().map(Running::Source)
            }
            Side::ToGuest => {
                let sink: Box<dyn Any> = board.unplug_sink(pair)?;
                sink.downcast().ok().map(Running::Sink)
            }
        }
    }

    /// Puts it back to work.
    pub fn plug(self, index: usize, board: &mut dyn Plugboard) {
        let (pair, _) = place(index);
        match self {
            Running::Source(source) => board.plug_source(pair, source),
            Running::Sink(sink) => board.plug_sink(pair, sink),
        }
    }

    pub fn queue(&mut self) -> &mut dyn DeviceQueue {
        match self {
            Running::Source(source) => source.queue(),
            Running::Sink(sink) => sink.queue(),
        }
    }

    pub fn renew(&mut self, queue: Box<dyn DeviceQueue>) {
        match self {
            Running::Source(source) => source.renew(queue),
            Running::Sink(sink) => sink.renew(queue),
        }
    }

    pub fn set_enabled(&mut self, enabled: bool) {
        match self {
            Running::Source(source) => source.set_enabled(enabled),
            Running::Sink(sink) => sink.set_enabled(enabled),
        }
    }

    pub fn set_call(&mut self, call: Option<EventFd>) {
        match self {
            Running::Source(source) => source.set_call(call),
            Running::Sink(sink) => sink.set_call(call),
        }
    }

    /// Kicks of a receiveq are not listened to: nobody waits for its buffers.
    pub fn set_kick(&mut self, kick: Option<EventFd>) {
        if let Running::Source(source) = self {
            source.set_kick(kick);
        }
    }

    pub fn set_max_frame_bytes(&mut self, max: Option<u32>) {
        if let Running::Sink(sink) = self {
            sink.set_max_frame_bytes(max);
        }
    }
}
