//! State that all connections of a network port share.
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use deliveries::Area;
use frame::{PairCounters, QueueCounters, Side};
use vhost_device::rate::TokenBucket;

use super::options::NetOptions;

/// Announcements (SEND_RARP) that a front-end may make at once, and from one to the next after that. Each is
/// a frame to every port; QEMU makes five for each card when a guest has moved.
const ANNOUNCEMENTS: u32 = 32;
const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_millis(500);

/// State of the port that is kept between connections.
#[derive(Debug)]
pub(crate) struct NetShared {
    pub options: NetOptions,
    /// The counters from the guest and to the guest, by pair.
    counters: Vec<PairCounters>,
    announcements: Mutex<TokenBucket>,
    /// The memory in which deliveries are noted, once the port has started; unset if it cannot be made.
    pub deliveries: OnceLock<Arc<Area>>,
}

impl NetShared {
    pub fn new(options: NetOptions) -> Self {
        let counters = (0..options.queue_pairs).map(|_| Default::default()).collect();
        let announcements = Mutex::new(TokenBucket::new(ANNOUNCEMENTS, ANNOUNCEMENT_INTERVAL));
        NetShared { options, counters, announcements, deliveries: OnceLock::new() }
    }

    pub fn counters(&self, pair: u16, side: Side) -> Option<&Arc<QueueCounters>> {
        Some(self.counters.get(usize::from(pair))?.of(side))
    }

    /// Whether the front-end may announce a station now.
    pub(super) fn may_announce(&self) -> bool {
        self.announcements.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now())
    }
}
