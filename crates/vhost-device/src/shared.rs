//! What all connections of a device share.
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use memory::Mapping;
use vhost_user::socket::DescriptorFilter;

use crate::descriptors::DescriptorGuard;
use crate::log::Log;

/// In-flight regions made by one device that may have pages.
const IN_FLIGHT_REGIONS: usize = 2;

/// What outlives connections.
#[derive(Debug)]
pub(crate) struct Shared {
    pub log: Arc<Log>,
    pub guard: Arc<DescriptorGuard>,
    /// The in-flight regions that this device made last. The pages of those before are given back.
    in_flight: Mutex<VecDeque<Mapping>>,
}

impl Shared {
    pub fn new(log: Arc<Log>) -> Self {
        Shared { log, guard: Arc::default(), in_flight: Mutex::default() }
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
}
