//! Settings that can change while a receiveq runs.
use std::sync::Arc;

use deliveries::{Area, ReceiverLog};
use virtio::net::Accepts;
use virtio::net::control::ReceiveFilter;
use virtqueue::DeviceQueue;

use super::{Tally, ToGuest};
use crate::cache_policy::CachePolicy;
#[cfg(test)]
use crate::cache_policy::CopyTuner;
use crate::device::EventFd;

impl ToGuest {
    /// Sets the cache policy.
    pub fn set_cache_policy(&mut self, policy: CachePolicy) {
        self.cache_policy = policy;
        self.copy_tuner = policy.copy_tuner();
        self.demotion_tuner = policy.demotion_tuner(&*self.queue);
    }

    /// Enables delivery, or drops all frames.
    pub fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Sets the driver's call.
    pub fn set_call(&mut self, call: Option<EventFd>) {
        self.call = call;
    }

    /// Sets the longest frame.
    pub fn set_max_frame_bytes(&mut self, max: Option<u32>) {
        self.options.max_frame_bytes = max;
    }

    /// Sets which frames are delivered; `None` delivers all.
    pub fn set_filter(&mut self, filter: Option<Box<ReceiveFilter>>) {
        self.filter = filter;
    }

    /// Sets the offloads that are delivered unfinished.
    pub fn set_accepts(&mut self, accepts: Accepts) {
        self.options.accepts = accepts;
    }

    /// Notes deliveries from now on, so that the next process delivers no frame again.
    pub fn note_deliveries(&mut self, area: &Arc<Area>, pair: u16) {
        self.log = ReceiverLog::new(area, pair);
        self.note_start();
    }

    /// Notes once more that this process has the queue, because another process may have noted that in the meantime.
    pub fn note_start(&mut self) {
        if let Some(log) = &self.log {
            log.started(self.queue.position());
        }
    }

    /// The device queue, for reading its position and setting its log.
    pub fn queue(&mut self) -> &mut dyn DeviceQueue {
        self.give_back(&mut Tally::default());
        &mut *self.queue
    }

    /// Replaces the device half by another one of the same ring, and releases the memory of the old one.
    pub fn renew(&mut self, mut queue: Box<dyn DeviceQueue>) {
        queue.disable_kicks();
        self.demotion_tuner = self.cache_policy.demotion_tuner(&*queue);
        self.queue = queue;
        self.burst.release();
    }

    #[cfg(test)]
    pub(crate) fn set_copy_tuner(&mut self, tuner: CopyTuner) {
        self.copy_tuner = tuner;
    }
}
