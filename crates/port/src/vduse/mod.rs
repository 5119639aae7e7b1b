//! `vduse:` — a network device for the kernel's own driver (VDUSE): a network interface without a TAP, for this host
//! or, moved, for a container.
//!
//! The crate `vhost-device` handles the kernel's requests, the memory and the rings; the network device is that of
//! vhost-user ports. The kernel copies each frame between its own memory and a bounce area that the switch maps.
mod options;

pub use options::VduseOptions;
pub use vhost_device::vduse::{Driver, Name};

use std::path::{Path, PathBuf};
use std::sync::Arc;

use deliveries::DeliveryFile;
use frame::{QueueCounters, QueueError, Side};
use vhost_device::Log;
use vhost_device::vduse::Vduse;
use virtio::Features;

use crate::net::NetDevice;
use crate::net::deliveries::{DELIVERIES, Deliveries};
use crate::net::port::NetShared;
use crate::net::queue::Kind;
use crate::{Port, PortContext, PortError, PortState, Token};

/// A device of the kernel as a port.
pub struct VdusePort {
    device: Vduse<NetDevice>,
    log: Arc<Log>,
    net: Arc<NetShared>,
    deliveries: Deliveries,
    /// The path from which the name of the file of deliveries is derived.
    place: PathBuf,
}

impl VdusePort {
    /// Checks the options; nothing is opened yet.
    ///
    /// # Errors
    /// The processor does not support the cache policy.
    pub fn new(options: VduseOptions) -> Result<Self, PortError> {
        let name = format!("vduse:{}", options.name);
        options.net.check(&name)?;
        let place = Path::new("/run").join(format!("vduse-{}", options.name));
        let log = Arc::new(Log::new(name));
        let net = Arc::new(NetShared::new(options.net.clone()));
        let device = NetDevice::new(Arc::clone(&log), Arc::clone(&net));
        let device = Vduse::new(device, Arc::clone(&log), options.device());
        Ok(VdusePort { device, log, net, deliveries: Deliveries::default(), place })
    }

    /// Notes deliveries, and chains in flight, from now on.
    fn set_deliveries(&mut self, deliveries: Deliveries) {
        if let Some(area) = deliveries.area() {
            // Unset still: a port starts once.
            let _ = self.net.deliveries.set(Arc::clone(area));
        }
        if let Some((file, offset)) = deliveries.behind() {
            self.device.record_in_flight(file, offset);
        }
        self.deliveries = deliveries;
    }
}

impl Port for VdusePort {
    fn queue_pairs(&self) -> u16 {
        self.net.options.queue_pairs
    }

    fn describe(&self) -> String {
        self.device.describe()
    }

    fn features(&self) -> Option<Features> {
        self.device.features()
    }

    fn interface(&self) -> Option<&str> {
        self.device.made().filter(|made| !made.starts_with('/'))
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        self.net.counters(pair, side).cloned()
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        // Before the queues, which note in it: a driver may be there already.
        let file = DeliveryFile::open(&self.place, self.net.options.queue_pairs);
        self.set_deliveries(Deliveries::of(file, &self.log, context));
        self.device.start(context)
    }

    fn ready(&mut self, token: Token, context: &mut dyn PortContext) -> Result<(), PortError> {
        if token == DELIVERIES {
            self.deliveries.check(&self.log, context);
            return Ok(());
        }
        self.device.ready(token, context)
    }

    fn stopped(&mut self, pair: u16, side: Side, why: QueueError, context: &mut dyn PortContext) {
        let kind = Kind::Data(pair, side);
        match why {
            QueueError::Lost(_) => self.device.queue_lost(kind, &why, context),
            _ => self.device.queue_stopped(kind, &why, context),
        }
    }

    fn hand_over(&mut self, context: &mut dyn PortContext) -> Result<Option<PortState>, PortError> {
        context.unwatch(DELIVERIES);
        let mut state = self.device.hand_over(context)?;
        self.deliveries.put(&mut state);
        Ok(Some(state))
    }

    fn resume(&mut self, context: &mut dyn PortContext) {
        self.deliveries.watch_again(&self.log, context);
        self.device.resume(context);
    }

    fn take_over(&mut self, state: PortState, context: &mut dyn PortContext) -> Result<(), PortError> {
        let queue_pairs = self.net.options.queue_pairs;
        let came_along = Deliveries::come_along(&state);
        let is_shared = came_along.is_some();
        let file = match came_along {
            Some(file) => {
                file.and_then(|file| DeliveryFile::take_over(Arc::new(file), queue_pairs).map(Some))
            }
            None => DeliveryFile::open(&self.place, queue_pairs),
        };
        self.set_deliveries(Deliveries::of(file, &self.log, context));
        let taken_over = self.device.take_over(state, context);
        if taken_over.is_err() && is_shared {
            // The other process continues with the file.
            self.deliveries.leave();
        }
        taken_over
    }

    fn leave(&mut self) {
        self.device.leave();
        self.deliveries.leave();
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        self.device.end(context);
        context.unwatch(DELIVERIES);
        self.deliveries = Deliveries::default();
    }
}
