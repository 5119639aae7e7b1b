//! What all connections of a port share, and what it allows its front-ends over time.
use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use deliveries::Area;
use frame::{PairCounters, QueueCounters, Side};
use memory::Mapping;
use vhost_user::socket::DescriptorFilter;

use super::options::VhostUserOptions;
use crate::PortContext;
use crate::descriptors::DescriptorGuard;
use crate::rate::{LogRateLimiter, TokenBucket};

/// Announcements (SEND_RARP) that a front-end may make at once, and from one to the next after that. Each is
/// a frame to every port; QEMU makes five for each card when a guest has moved.
const ANNOUNCEMENTS: u32 = 32;
const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_millis(500);

/// In-flight regions made by one port that may have pages.
const IN_FLIGHT_REGIONS: usize = 2;

/// What a port allows its front-ends over time.
#[derive(Debug)]
struct Limits {
    /// Lines about connections that come and go.
    connections: LogRateLimiter,
    /// Lines about what is wrong with a front-end.
    warnings: LogRateLimiter,
    announcements: TokenBucket,
}

/// What outlives connections.
#[derive(Debug)]
pub(super) struct Shared {
    /// Kind and path, for people.
    pub name: String,
    pub options: VhostUserOptions,
    /// From the guest and to the guest, by pair.
    counters: Vec<PairCounters>,
    limits: Mutex<Limits>,
    pub guard: Arc<DescriptorGuard>,
    /// The in-flight regions that this port made last. The pages of those before are given back.
    in_flight: Mutex<VecDeque<Mapping>>,
    /// Where deliveries are noted, once the port has started; unset where that cannot be.
    pub deliveries: OnceLock<Arc<Area>>,
}

impl Shared {
    pub fn new(name: String, options: VhostUserOptions) -> Self {
        let counters = (0..options.queue_pairs).map(|_| Default::default()).collect();
        let limits = Mutex::new(Limits {
            connections: LogRateLimiter::new(),
            warnings: LogRateLimiter::new(),
            announcements: TokenBucket::new(ANNOUNCEMENTS, ANNOUNCEMENT_INTERVAL),
        });
        let guard = Arc::<DescriptorGuard>::default();
        Shared {
            name,
            options,
            counters,
            limits,
            guard,
            in_flight: Mutex::default(),
            deliveries: OnceLock::new(),
        }
    }

    /// As connections have it.
    pub fn guard(&self) -> Arc<dyn DescriptorFilter> {
        Arc::clone(&self.guard) as _
    }

    pub fn counters(&self, pair: u16, side: Side) -> Option<&Arc<QueueCounters>> {
        Some(self.counters.get(usize::from(pair))?.of(side))
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

    /// Whether the front-end may announce a station now.
    pub fn may_announce(&self) -> bool {
        self.limits(|limits| limits.announcements.take(Instant::now()))
    }
}
