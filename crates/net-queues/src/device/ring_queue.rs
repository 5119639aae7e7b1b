//! The data queues of the network device, as the engine of vhost-user devices handles them.
use std::sync::Arc;

use vhost_device::RingQueue;
use virtqueue::DeviceQueue;

use super::{EventFd, FromGuest, StoppedAt, ToGuest};

impl RingQueue for FromGuest {
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
        self.set_kick(kick);
    }

    fn set_call(&mut self, call: Option<EventFd>) {
        self.set_call(call);
    }

    fn stopped_at(&self) -> Arc<StoppedAt> {
        Arc::clone(&self.stopped_at)
    }
}

impl RingQueue for ToGuest {
    fn queue(&mut self) -> &mut dyn DeviceQueue {
        self.queue()
    }

    fn renew(&mut self, queue: Box<dyn DeviceQueue>) {
        self.renew(queue);
    }

    fn set_enabled(&mut self, enabled: bool) {
        self.set_enabled(enabled);
    }

    /// Kicks of a receiveq are not listened to: no thread waits for its buffers.
    fn set_kick(&mut self, _: Option<EventFd>) {}

    fn set_call(&mut self, call: Option<EventFd>) {
        self.set_call(call);
    }

    fn stopped_at(&self) -> Arc<StoppedAt> {
        Arc::clone(&self.stopped_at)
    }
}
