//! Settings that can change while a transmitq runs.
use deliveries::{Area, SenderLog};
use virtqueue::{Burst, DeviceQueue};

use super::FromGuest;
use super::state::State;
use crate::cache_policy::CachePolicy;
use crate::device::EventFd;

impl FromGuest {
    /// Sets the cache policy.
    pub fn set_cache_policy(&mut self, policy: CachePolicy) {
        self.cache_policy = policy;
        self.demotion_tuner = policy.demotion_tuner(&*self.queue);
    }

    /// Enables or disables passing frames on. While disabled, frames are consumed and dropped (vhost-user
    /// specification, "Ring states").
    pub fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
        if self.state == State::NotEnabledYet {
            self.state = State::Runs;
        }
    }

    /// Notes deliveries from now on, so that the next process delivers no frame again.
    pub fn note_deliveries(&mut self, area: &Area, pair: u16) {
        self.batch.set_sender_log(SenderLog::new(area, pair, self.queue.position()));
    }

    /// Sets the driver's kick.
    pub fn set_kick(&mut self, kick: Option<EventFd>) {
        self.kick = kick;
    }

    /// Sets the driver's call.
    pub fn set_call(&mut self, call: Option<EventFd>) {
        self.call = call;
    }

    /// The device queue, for reading its position and setting its log.
    pub fn queue(&mut self) -> &mut dyn DeviceQueue {
        &mut *self.queue
    }

    /// Replaces the device half by another one of the same ring, and releases the memory of the old one. All received
    /// frames must have been released.
    pub fn renew(&mut self, mut queue: Box<dyn DeviceQueue>) {
        queue.disable_kicks();
        self.demotion_tuner = self.cache_policy.demotion_tuner(&*queue);
        self.queue = queue;
        self.batch.clear();
        self.needs_release = false;
        self.batch.burst_mut().map(Burst::release);
    }
}
