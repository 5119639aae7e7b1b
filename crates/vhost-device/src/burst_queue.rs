use std::sync::Arc;

use virtqueue::{Burst, DeviceQueue};

use crate::{EventFd, Notifiers, ParkedQueue, RingQueue, StoppedAt};

/// The queue of a device that the control thread serves in bursts.
///
/// The queue does not read [`Notifiers::enabled`]: the device decides whether it serves a disabled ring.
pub struct BurstQueue {
    /// The device half.
    pub queue: Box<dyn DeviceQueue>,
    /// Chains that were popped and not given back.
    pub burst: Burst,
    /// The driver's kick and call.
    pub notifiers: Notifiers,
}

impl BurstQueue {
    /// A queue that takes at most `chains` chains at once.
    pub fn new(queue: Box<dyn DeviceQueue>, notifiers: Notifiers, chains: usize) -> Self {
        Self { queue, burst: Burst::new(chains), notifiers }
    }
}

impl RingQueue for BurstQueue {
    fn queue(&mut self) -> &mut dyn DeviceQueue {
        &mut *self.queue
    }

    fn renew(&mut self, queue: Box<dyn DeviceQueue>) {
        self.queue = queue;
        self.burst.release();
    }

    fn set_enabled(&mut self, enabled: bool) {
        self.notifiers.enabled = enabled;
    }

    fn set_kick(&mut self, kick: Option<EventFd>) {
        self.notifiers.kick = kick;
    }

    fn set_call(&mut self, call: Option<EventFd>) {
        self.notifiers.call = call;
    }

    fn stopped_at(&self) -> Arc<StoppedAt> {
        Arc::default()
    }
}

impl ParkedQueue for BurstQueue {
    fn ring_queue(&mut self) -> &mut dyn RingQueue {
        self
    }
}
