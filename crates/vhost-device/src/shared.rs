//! The state that all connections of a device share.
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use memory::Mapping;
use vhost_user::socket::DescriptorFilter;

use crate::descriptors::DescriptorGuard;
use crate::log::Log;

/// In-flight regions made by one device that may have pages.
const IN_FLIGHT_REGIONS: usize = 2;

/// State that is kept between connections.
#[derive(Debug)]
pub(crate) struct Shared {
    pub log: Arc<Log>,
    pub guard: Arc<DescriptorGuard>,
    /// The in-flight regions that this device made last. The pages of earlier ones are returned to the system.
    in_flight: Mutex<VecDeque<Mapping>>,
}

impl Shared {
    pub fn new(log: Arc<Log>) -> Self {
        Shared { log, guard: Arc::default(), in_flight: Mutex::default() }
    }

    /// The filter of descriptors, for a connection.
    pub fn guard(&self) -> Arc<dyn DescriptorFilter> {
        Arc::clone(&self.guard) as _
    }

    /// Keeps a fresh in-flight region mapped. A front-end keeps the files of all regions, and could fill the memory
    /// of the switch by asking for another one repeatedly. The pages of earlier regions are therefore discarded. The
    /// region before the last one is kept, because it may be in use until the last one is set.
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
