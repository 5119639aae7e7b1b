//! What all connections of a port share, and what it allows its front-ends over time.
use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use memory::Mapping;
use vhost_user::socket::DescriptorFilter;

use crate::PortContext;
use crate::descriptors::DescriptorGuard;
use crate::rate::LogRateLimiter;

/// In-flight regions made by one port that may have pages.
const IN_FLIGHT_REGIONS: usize = 2;

/// What a port allows its front-ends over time.
#[derive(Debug)]
struct Limits {
    /// Lines about connections that come and go.
    connections: LogRateLimiter,
    /// Lines about what is wrong with a front-end.
    warnings: LogRateLimiter,
}

/// What outlives connections.
#[derive(Debug)]
pub(super) struct Shared {
    /// Kind and path, for people.
    pub name: String,
    limits: Mutex<Limits>,
    pub guard: Arc<DescriptorGuard>,
    /// The in-flight regions that this port made last. The pages of those before are given back.
    in_flight: Mutex<VecDeque<Mapping>>,
}

impl Shared {
    pub fn new(name: String) -> Self {
        let limits =
            Mutex::new(Limits { connections: LogRateLimiter::new(), warnings: LogRateLimiter::new() });
        Shared { name, limits, guard: Arc::default(), in_flight: Mutex::default() }
    }

    /// As connections have it.
    pub fn guard(&self) -> Arc<dyn DescriptorFilter> {
        Arc::clone(&self.guard) as _
    }

    /// Keeps a fresh in-flight region in view. A front-end keeps the files of all of them, so one that asks for another
    /// again and again would fill the memory of the switch: whatever it has of earlier ones is discarded. The region
    /// before the last one stays, for it may be in use until the last one is set.
    pub fn keep_in_flight(&self, region: Mapping) {
        let mut regions = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        regions.push_back(region);
        while regions.len() > IN_FLIGHT_REGIONS {
            if let Some(former) = regions.pop_front() {
                // A file of our own is never refused.
                let _ = former.discard();
            }
        }
    }

    fn limits<T>(&self, ask: impl FnOnce(&mut Limits) -> T) -> T {
        ask(&mut self.limits.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Logs that a connection came or went, unless many did lately.
    pub fn log(&self, context: &mut dyn PortContext, message: impl Display) {
        if let Some(line) = self.limits(|limits| limits.connections.admit(Instant::now(), message)) {
            context.log(&format_args!("{}: {line}", self.name));
        }
    }

    /// Logs what is wrong with a front-end, unless a lot was lately.
    pub fn warn(&self, context: &mut dyn PortContext, message: impl Display) {
        if let Some(line) = self.limits(|limits| limits.warnings.admit(Instant::now(), message)) {
            context.log(&format_args!("{}: {line}", self.name));
        }
    }
}
