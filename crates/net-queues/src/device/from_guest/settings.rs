//! What is changed while a transmitq runs.
use deliveries::{Area, SenderLog};
use virtqueue::{Burst, DeviceQueue};

use super::FromGuest;
use super::state::State;
use crate::cache_policy::CachePolicy;
use crate::device::EventFd;

impl FromGuest {
    /// Changes what is done to caches.
    pub fn set_cache_policy(&mut self, policy: CachePolicy) {
        self.cache_policy = policy;
        self.demotion_tuner = policy.demotion_tuner(&*self.queue);
    }

    /// Lets frames go on, or consumes them without passing data on (vhost-user text, "Ring states").
    pub fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
        if self.state == State::NotEnabledYet {
            self.state = State::Runs;
        }
    }

    /// Has deliveries noted from now on, so that a process after this one delivers no frame again.
    pub fn note_deliveries(&mut self, area: &Area, pair: u16) {
        self.batch.set_sender_log(SenderLog::new(area, pair, self.queue.position()));
    }

    /// Listens to the driver so from now on.
    pub fn set_kick(&mut self, kick: Option<EventFd>) {
        self.kick = kick;
    }

    /// Notifies the driver so from now on.
    pub fn set_call(&mut self, call: Option<EventFd>) {
        self.call = call;
    }

    /// The queue, to ask where it stands and to set its log.
    pub fn queue(&mut self) -> &mut dyn DeviceQueue {
        &mut *self.queue
    }

    /// Goes on with another device half of the same ring, and lets go of the memory of the old one. What
    /// was received has been released.
    pub fn renew(&mut self, mut queue: Box<dyn DeviceQueue>) {
        queue.disable_kicks();
        self.demotion_tuner = self.cache_policy.demotion_tuner(&*queue);
        self.queue = queue;
        self.batch.clear();
        self.needs_release = false;
        self.batch.burst_mut().map(Burst::release);
    }
}
