//! `vhost-user:` — the back-end: the network device of a guest, whose rings and memory come over a socket.
//!
//! The crate `vhost-device` handles the socket, the memory and the rings. The network device is in `net/`: queues,
//! offer, control queue, and the file in which its deliveries are noted.
mod options;
mod spec;

pub use options::{MAX_QUEUE_PAIRS, VhostUserOptions};
pub use vhost_device::Role;

use std::sync::Arc;

use ::deliveries::DeliveryFile;
use frame::{QueueCounters, QueueError, Side};
use vhost_device::{Backend, Log};
use virtio::Features;

use crate::net::NetDevice;
use crate::net::deliveries::{DELIVERIES, Deliveries};
use crate::net::port::NetShared;
use crate::net::queue::Kind;
use crate::{Port, PortContext, PortError, PortState, Token};

/// A back-end port.
pub struct VhostUser {
    backend: Backend<NetDevice>,
    log: Arc<Log>,
    net: Arc<NetShared>,
    deliveries: Deliveries,
}

impl VhostUser {
    /// Checks the options; nothing is opened yet.
    ///
    /// # Errors
    /// The path is too long for a socket, the number of queue pairs or the MTU is outside its range, or the
    /// processor does not support the cache policy.
    pub fn new(options: VhostUserOptions) -> Result<Self, PortError> {
        let name = format!("vhost-user:{}", options.path.display());
        let what = || format!("set up {name}");
        if !(1..=MAX_QUEUE_PAIRS).contains(&options.net.queue_pairs) {
            let why = format!("{} queue pairs", options.net.queue_pairs);
            return Err(PortError::new(what(), why, format!("ask for 1 to {MAX_QUEUE_PAIRS}")));
        }
        if options.net.mtu.is_some_and(|mtu| mtu < 68) {
            let remedy = "give one from 68 to 65535 (VIRTIO 1.3 §5.1.4.1)";
            return Err(PortError::new(what(), "the MTU is too small", remedy));
        }
        options.net.check(&name)?;
        let log = Arc::new(Log::new(name));
        let of_backend = options.backend();
        let net = Arc::new(NetShared::new(options.net));
        let device = NetDevice::new(Arc::clone(&log), Arc::clone(&net));
        let backend = Backend::new(device, Arc::clone(&log), of_backend)?;
        Ok(VhostUser { backend, log, net, deliveries: Deliveries::default() })
    }

    /// Notes deliveries from now on.
    fn set_deliveries(&mut self, deliveries: Deliveries) {
        if let Some(area) = deliveries.area() {
            // Unset still: a port starts once.
            let _ = self.net.deliveries.set(Arc::clone(area));
        }
        self.deliveries = deliveries;
    }
}

impl Port for VhostUser {
    fn queue_pairs(&self) -> u16 {
        self.net.options.queue_pairs
    }

    fn describe(&self) -> String {
        self.backend.describe()
    }

    fn features(&self) -> Option<Features> {
        self.backend.features()
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        self.net.counters(pair, side).cloned()
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        self.backend.start(context)?;
        // No queue starts before the first message of a front-end, which comes with a later call.
        let file = DeliveryFile::open(&self.backend.options().path, self.net.options.queue_pairs);
        self.set_deliveries(Deliveries::of(file, &self.log, context));
        Ok(())
    }

    fn ready(&mut self, token: Token, context: &mut dyn PortContext) -> Result<(), PortError> {
        if token == DELIVERIES {
            self.deliveries.check(&self.log, context);
            return Ok(());
        }
        self.backend.ready(token, context)
    }

    fn stopped(&mut self, pair: u16, side: Side, why: QueueError, context: &mut dyn PortContext) {
        let kind = Kind::Data(pair, side);
        match why {
            QueueError::Lost(_) => self.backend.queue_lost(kind, &why, context),
            _ => self.backend.queue_stopped(kind, &why, context),
        }
    }

    fn hand_over(&mut self, context: &mut dyn PortContext) -> Result<Option<PortState>, PortError> {
        context.unwatch(DELIVERIES);
        let mut state = self.backend.hand_over(context)?;
        self.deliveries.put(&mut state);
        Ok(Some(state))
    }

    fn resume(&mut self, context: &mut dyn PortContext) {
        self.deliveries.watch_again(&self.log, context);
        self.backend.resume(context);
    }

    fn take_over(&mut self, state: PortState, context: &mut dyn PortContext) -> Result<(), PortError> {
        let (path, queue_pairs) = (&self.backend.options().path, self.net.options.queue_pairs);
        let came_along = Deliveries::come_along(&state);
        let is_shared = came_along.is_some();
        let file = match came_along {
            Some(file) => {
                file.and_then(|file| DeliveryFile::take_over(Arc::new(file), queue_pairs).map(Some))
            }
            None => DeliveryFile::open(path, queue_pairs),
        };
        // The file comes before the queues, which write notes to it.
        self.set_deliveries(Deliveries::of(file, &self.log, context));
        let taken_over = self.backend.take_over(state, context);
        if taken_over.is_err() && is_shared {
            // The other process continues with the file.
            self.deliveries.leave();
        }
        taken_over
    }

    fn leave(&mut self) {
        self.backend.leave();
        self.deliveries.leave();
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        self.backend.end(context);
        context.unwatch(DELIVERIES);
        self.deliveries = Deliveries::default();
    }
}
