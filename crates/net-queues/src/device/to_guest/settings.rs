//! What is changed while a receiveq runs.
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
    /// Changes what is done to caches.
    pub fn set_cache_policy(&mut self, policy: CachePolicy) {
        self.cache_policy = policy;
        self.copy_tuner = policy.copy_tuner();
        self.demotion_tuner = policy.demotion_tuner(&*self.queue);
    }

    /// Lets frames go in, or drops them all.
    pub fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Notifies the driver so from now on.
    pub fn set_call(&mut self, call: Option<EventFd>) {
        self.call = call;
    }

    /// Changes the longest frame.
    pub fn set_max_frame_bytes(&mut self, max: Option<u32>) {
        self.options.max_frame_bytes = max;
    }

    /// Changes which frames go in; `None` lets all in.
    pub fn set_filter(&mut self, filter: Option<Box<ReceiveFilter>>) {
        self.filter = filter;
    }

    /// Changes which offloads go in uncut.
    pub fn set_accepts(&mut self, accepts: Accepts) {
        self.options.accepts = accepts;
    }

    /// Has deliveries noted from now on, so that a process after this one delivers no frame again.
    pub fn note_deliveries(&mut self, area: &Arc<Area>, pair: u16) {
        self.log = ReceiverLog::new(area, pair);
        self.note_start();
    }

    /// Notes that this process has the queue: again, where another one may have noted the same meanwhile.
    pub fn note_start(&mut self) {
        if let Some(log) = &self.log {
            log.started(self.queue.position());
        }
    }

    /// The queue, to ask where it stands and to set its log.
    pub fn queue(&mut self) -> &mut dyn DeviceQueue {
        self.give_back(&mut Tally::default());
        &mut *self.queue
    }

    /// Goes on with another device half of the same ring, and lets go of the memory of the old one.
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
