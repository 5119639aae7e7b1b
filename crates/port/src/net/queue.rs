//! The queues of a network device: the purpose of each ring, and its typed queue.
use std::any::Any;
use std::sync::Arc;

use frame::{Side, Sink};
use net_queues::device::{EventFd, FromGuest, StoppedAt, ToGuest};
use vhost_device::{ParkedQueue, RingQueue};
use virtio::{Features, NetFeatures};
use virtqueue::DeviceQueue;

use super::control::ControlQueue;
use crate::Queue;

/// The purpose of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Frames of this pair, in this direction.
    Data(u16, Side),
    /// Commands.
    Control,
}

impl Kind {
    /// The purpose of ring `index` (VIRTIO 1.3 §5.1.2): receiveqs and transmitqs alternate, and the control queue
    /// comes after all pairs. With MQ these are all pairs of the device, without it one.
    pub fn of(index: usize, queue_pairs: u16, features: Features) -> Self {
        let pairs = if features.contains(NetFeatures::MQ) { queue_pairs.into() } else { 1 };
        if features.contains(NetFeatures::CTRL_VQ) && index == 2 * pairs {
            return Kind::Control;
        }
        let side = if index.is_multiple_of(2) { Side::ToGuest } else { Side::FromGuest };
        Kind::Data((index / 2) as u16, side)
    }
}

/// In words.
pub(crate) fn direction(side: Side) -> &'static str {
    match side {
        Side::FromGuest => "from",
        Side::ToGuest => "to",
    }
}

/// A queue that is not attached.
pub(crate) enum NetQueue {
    Source(Box<FromGuest>),
    Sink(Box<ToGuest>),
    Control(Box<ControlQueue>),
}

impl NetQueue {
    /// The queue, given one of this port's that comes back from the workers.
    pub fn from_workers(queue: Queue) -> Option<Self> {
        match queue {
            Queue::Source(source) => (source as Box<dyn Any>).downcast().ok().map(NetQueue::Source),
            Queue::Sink(sink) => (sink as Box<dyn Any>).downcast().ok().map(NetQueue::Sink),
        }
    }

    /// The queue as workers take it; `None` for a control queue, which no worker serves.
    pub fn for_workers(self) -> Option<Queue> {
        match self {
            NetQueue::Source(source) => Some(Queue::Source(source)),
            NetQueue::Sink(sink) => Some(Queue::Sink(sink)),
            NetQueue::Control(_) => None,
        }
    }
}

impl ParkedQueue for NetQueue {
    fn ring_queue(&mut self) -> &mut dyn RingQueue {
        match self {
            NetQueue::Source(source) => &mut **source,
            NetQueue::Sink(sink) => &mut **sink,
            NetQueue::Control(control) => &mut **control,
        }
    }
}

/// A sink of this port, as the workers have it.
pub(super) fn own_sink(sink: &mut dyn Sink) -> Option<&mut ToGuest> {
    (sink as &mut dyn Any).downcast_mut()
}

/// The queue of a receiveq.
pub(super) fn as_sink(queue: &mut dyn RingQueue) -> Option<&mut ToGuest> {
    (queue as &mut dyn Any).downcast_mut()
}

impl RingQueue for ControlQueue {
    fn queue(&mut self) -> &mut dyn DeviceQueue {
        self.queue()
    }

    fn renew(&mut self, queue: Box<dyn DeviceQueue>) {
        self.renew(queue);
    }

    fn set_enabled(&mut self, enabled: bool) {
        self.set_enabled(enabled);
    }

    fn set_kick(&mut self, kick: Option<EventFd>) {
        kick.into_iter().for_each(|kick| self.set_kick(kick));
    }

    fn set_call(&mut self, call: Option<EventFd>) {
        self.set_call(call);
    }

    /// The thread that serves it writes it down.
    fn stopped_at(&self) -> Arc<StoppedAt> {
        Arc::default()
    }
}
