//! The device of one connection: what the front-end has set up, and its running rings.
use std::collections::BTreeMap;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use memory::{Address, AddressSpace, Mapping, PeerMemory, sealed_memfd};
use vhost_user::SharedFd;
use vhost_user::inflight;
use vhost_user::session::backend::{Kick, VringConfig};
use vhost_user::session::{Outcome, Refusal};
use vhost_user::vring::{QueueSize, RingLayout, VringAddresses, VringBase};
use virtio::Features;
use virtqueue::{DeviceQueue, Position, RingError, RingPlaces, UsedLog};

use crate::EventFd;
use crate::device::{Device, DeviceMessage, Notifiers, ParkedQueue, RingSet, not_offered};
use crate::ring::{self, HalfOf, Ring};
use crate::rings::Rings;
use crate::shared::Shared;
use crate::shared_memory::SharedMemory;
use crate::tokens;
use crate::{Context, Interest};

/// `VIRTIO_CONFIG_S_NEEDS_RESET` (VIRTIO 1.3 §2.1).
const NEEDS_RESET: u8 = 0x40;

/// A ring that the front-end starts.
pub(crate) struct StartedRing {
    pub index: usize,
    pub config: VringConfig,
    /// The driver's kick; `None` if the device polls.
    pub kick: Option<EventFd>,
    /// The driver's call; `None` if the driver polls.
    pub call: Option<EventFd>,
    pub err: Option<SharedFd>,
    pub enabled: bool,
}

pub(crate) struct Engine<D: Device> {
    shared: Arc<Shared>,
    pub features: Features,
    pub(crate) memory: SharedMemory,
    pub rings: Rings<D>,
    pub device: D,
    status: u8,
    needs_reset: bool,
}

impl<D: Device> Engine<D> {
    pub fn new(device: D, shared: Arc<Shared>, memory: Arc<PeerMemory>) -> Self {
        Engine {
            shared,
            features: Features::empty(),
            memory: SharedMemory::new(memory),
            rings: Rings::new(device.queue_count().into()),
            device,
            status: 0,
            needs_reset: false,
        }
    }

    pub(crate) fn set_features(&mut self, features: Features, context: &mut D::Context<'_>) {
        let changed = features.symmetric_difference(self.features);
        if !changed.difference(Features::VHOST_LOG_ALL).is_empty() {
            self.device.reset(&mut self.rings, context);
        }
        self.features = features;
        self.device.set_features(features);
        // QEMU says so for each pair, and twice: each time a queue is taken from its worker.
        if changed.contains(Features::VHOST_LOG_ALL) {
            if !features.contains(Features::VHOST_LOG_ALL) {
                // The next migration has another, and this may be too short for the memory then.
                self.memory.log = None;
            }
            self.update_logs(&self.rings.indices(), context);
        }
    }

    /// Resets the connection to the state before the first message, except for the memory.
    pub(crate) fn reset(&mut self, context: &mut D::Context<'_>) -> Outcome {
        self.rings.clear(context);
        self.device.reset(&mut self.rings, context);
        self.features = Features::empty();
        self.device.set_features(self.features);
        (self.memory.in_flight, self.memory.log) = (None, None);
        (self.status, self.needs_reset) = (0, false);
        Ok(())
    }

    pub(crate) fn set_status(&mut self, status: u8, context: &mut D::Context<'_>) -> Outcome {
        self.status = status;
        // Status 0 resets the device (VIRTIO 1.3 §2.1); the rings are stopped by messages of their own.
        if status == 0 {
            self.needs_reset = false;
            self.device.reset(&mut self.rings, context);
        }
        Ok(())
    }

    pub(crate) fn status(&self) -> u8 {
        self.status | if self.needs_reset { NEEDS_RESET } else { 0 }
    }

    /// Handles a message to this kind of device. Sets `changed` if its configuration space has changed.
    pub(crate) fn message(
        &mut self,
        message: DeviceMessage,
        changed: &mut bool,
        context: &mut D::Context<'_>,
    ) -> Outcome {
        *changed = self.device.message(message, &mut self.rings, context)?;
        Ok(())
    }

    /// A part of the configuration space. Bytes behind the known fields read as zeros.
    pub(crate) fn read_config(&self, offset: u32, size_bytes: u32) -> Vec<u8> {
        let bytes = self.device.config();
        (u64::from(offset)..u64::from(offset) + u64::from(size_bytes))
            .map(|at| usize::try_from(at).ok().and_then(|at| bytes.get(at)).copied().unwrap_or(0))
            .collect()
    }

    /// Makes a fresh region. The device frees its pages again after it has made further ones.
    pub(crate) fn new_in_flight(
        &self,
        layout: RingLayout,
        queue_count: u16,
        queue_size: QueueSize,
    ) -> Result<(u64, u64, OwnedFd), Refusal> {
        let bytes = inflight::area_bytes(layout, queue_count, queue_size);
        let failed = |why: &dyn Display| Refusal::new(format!("memory for {bytes} in-flight bytes: {why}"));
        let file = sealed_memfd(c"tautline in-flight", bytes).map_err(|error| failed(&error))?;
        let own = Mapping::shared(&file, 0, bytes).map_err(|error| failed(&error))?;
        self.shared.keep_in_flight(own);
        Ok((bytes, 0, file.into()))
    }

    fn used_log(&self, config: &VringConfig, space: &AddressSpace) -> Option<UsedLog> {
        let log = self.memory.log.as_ref().filter(|_| self.features.contains(Features::VHOST_LOG_ALL))?;
        let ring = config.log.map(|said| self.ring_places(config, space, said));
        Some(UsedLog { log: Arc::clone(log), ring })
    }

    /// The places at which the device writes to a ring. The front-end's address of a packed ring for the log cannot be
    /// used: QEMU gives the device area's address (`used_phys`), DPDK the descriptors'. The table of regions translates
    /// both.
    fn ring_places(&self, config: &VringConfig, space: &AddressSpace, said: u64) -> RingPlaces {
        if layout_of(self.features) == RingLayout::Split {
            return RingPlaces { used: said, device_event: said };
        }
        let guest = |user| space.guest_address(Address::User(user)).unwrap_or(said);
        let VringAddresses { descriptor, device, .. } = config.addresses;
        RingPlaces { used: guest(descriptor), device_event: guest(device) }
    }

    pub(crate) fn start(&mut self, started: StartedRing, context: &mut D::Context<'_>) -> Outcome {
        let StartedRing { index, config, kick, call, err, enabled } = started;
        let kind = self.device.kind(index);
        let said = ring::position(config.base);
        let mut queue = self.activate((index, kind), &config, said, &self.memory.space)?;
        if self.memory.in_flight.is_none()
            && let Position::Packed { next_used, .. } = queue.position()
            && queue.position() != said
        {
            let line = "does not know where the packed ring stands; its descriptors are used up to slot";
            let line =
                format_args!("queue {index}: the front-end {line} {}: continues there", next_used.slot);
            self.shared.log.log(context, line);
        }
        // A ring that continues may have used buffers from just before the former process ended, of which the driver
        // was not notified.
        if let Some(call) = call.as_ref().filter(|_| queue.needs_call()) {
            call.notify();
        }
        let kick_fd = kick.as_ref().map(|kick| kick.shared().clone());
        if D::is_served_here(kind) && kick_fd.is_none() {
            return Err(needs_kick::<D>(kind));
        }
        let mut running = self.device.queue(kind, queue, Notifiers { kick, call, enabled })?;
        let stopped_at = running.ring_queue().stopped_at();
        let kick = kick_fd.filter(|_| D::is_served_here(kind));
        let ring =
            Ring { kind, config, enabled, err, kick: kick.clone(), broken: false, stopped_at, parked: None };
        self.rings.start(index, ring, running, &self.device, context);
        self.device.started(kind, &mut self.rings, context);
        kick.map_or(Ok(()), |kick| watch_kick(index, &kick, context))
    }

    /// Whether the driver has made chains of a ring available that does not run, or chains of it are in flight. If not,
    /// asks the driver for a kick.
    pub(crate) fn is_filled(&self, index: usize, config: &VringConfig) -> Result<bool, Refusal> {
        let (kind, base) = (self.device.kind(index), ring::position(config.base));
        let mut queue = self.activate((index, kind), config, base, &self.memory.space)?;
        let position = queue.position();
        // No kick comes for chains that a former process took.
        let in_flight =
            matches!(position, Position::Packed { next_available, next_used } if next_available != next_used);
        Ok(queue.enable_kicks() || in_flight)
    }

    /// The position of a ring, which goes on.
    pub(crate) fn position(&mut self, index: usize, context: &mut D::Context<'_>) -> Option<VringBase> {
        let mut taken = self.rings.take_all(&[index], context);
        let running =
            taken.iter_mut().map(|(_, running)| ring::base(running.ring_queue().queue().position()));
        let stopped = || {
            let ring = self.rings.get(index)?;
            Some(ring.stopped_at.get().map_or(ring.config.base, ring::base))
        };
        let position = running.last().or_else(stopped);
        self.rings.put_all(taken, &self.device, context);
        position
    }

    /// Stops all rings, and changes to other memory.
    pub(crate) fn clear(&mut self, space: AddressSpace, context: &mut D::Context<'_>) {
        self.rings.clear(context);
        self.memory.space = Arc::new(space);
    }

    fn activate(
        &self,
        (index, kind): (usize, D::Kind),
        config: &VringConfig,
        position: Position,
        space: &Arc<AddressSpace>,
    ) -> Result<Box<dyn DeviceQueue>, Refusal> {
        let (in_flight, log) = (self.memory.in_flight.as_ref(), self.used_log(config, space));
        let indirect_flags = D::indirect_flags(kind);
        let features = self.device.ring_features(self.features);
        let half = HalfOf { index, config, position, features, indirect_flags };
        ring::activate(&half, space, in_flight, log)
    }

    pub(crate) fn stop(&mut self, index: usize, context: &mut D::Context<'_>) -> VringBase {
        match self.rings.stop(index, &self.device, context) {
            (Some(mut running), _) => ring::base(running.ring_queue().queue().position()),
            // Malformed and gone: where it stood then.
            (None, Some(ring)) => ring.stopped_at.get().map_or(ring.config.base, ring::base),
            (None, None) => VringBase::start(layout_of(self.features)),
        }
    }

    pub(crate) fn enable(&mut self, index: usize, enabled: bool, context: &mut D::Context<'_>) {
        self.rings.enable(index, enabled, &self.device, context);
    }

    /// Changes to other memory, including the rings. If a ring is not inside the new memory, the old memory is kept.
    pub(crate) fn set_space(&mut self, space: AddressSpace, context: &mut D::Context<'_>) -> Outcome {
        let space = Arc::new(space);
        let mut taken = self.rings.take_all(&self.rings.indices(), context);
        let queues: Result<Vec<_>, _> = taken
            .iter_mut()
            .map(|(index, running)| {
                let ring = self.rings.get(*index).map(|ring| (ring.kind, ring.config));
                let (kind, config) = ring.ok_or_else(not_offered)?;
                self.activate((*index, kind), &config, running.ring_queue().queue().position(), &space)
            })
            .collect();
        let outcome = queues.map(|queues| {
            taken.iter_mut().zip(queues).for_each(|((_, running), queue)| running.ring_queue().renew(queue));
        });
        self.rings.put_all(taken, &self.device, context);
        // Another device half of the same ring has to ask for kicks anew.
        self.serve_soon(context);
        if outcome.is_ok() {
            self.memory.space = space;
        }
        outcome
    }

    /// Looks at the rings that the control thread serves, though no kick has come.
    fn serve_soon(&self, context: &mut D::Context<'_>) {
        for index in self.rings.served_here() {
            context.after(tokens::kick(index), Duration::ZERO);
        }
    }

    pub(crate) fn update_logs(&mut self, indices: &[usize], context: &mut D::Context<'_>) {
        let log = |index: &usize| {
            let ring = self.rings.get(*index)?;
            Some((*index, self.used_log(&ring.config, &self.memory.space)))
        };
        let mut logs: BTreeMap<usize, Option<UsedLog>> = indices.iter().filter_map(log).collect();
        self.rings.change(indices, &self.device, context, &mut |index, running| {
            running.queue().set_log(logs.remove(&index).flatten());
        });
    }

    pub(crate) fn set_log_place(&mut self, index: usize, log: Option<u64>, context: &mut D::Context<'_>) {
        if let Some(ring) = self.rings.get_mut(index) {
            ring.config.log = log;
        }
        self.update_logs(&[index], context);
    }

    pub(crate) fn set_err(&mut self, index: usize, err: Option<SharedFd>) {
        if let Some(ring) = self.rings.get_mut(index) {
            ring.err = err;
        }
    }

    pub(crate) fn change_call(
        &mut self,
        index: usize,
        call: Option<SharedFd>,
        context: &mut D::Context<'_>,
    ) -> Outcome {
        let mut call = Some(call_of(call)?);
        self.rings.change(&[index], &self.device, context, &mut |_, running| {
            call.take().into_iter().for_each(|call| ring::set_call(running, call));
        });
        Ok(())
    }

    pub(crate) fn change_kick(&mut self, index: usize, kick: Kick, context: &mut D::Context<'_>) -> Outcome {
        let kick = kick_of(kick)?;
        let served = self.rings.get(index).map(|ring| ring.kind).filter(|kind| D::is_served_here(*kind));
        let watched = served.map(|kind| match &kick {
            Some(kick) => Ok(kick.shared().clone()),
            None => Err(needs_kick::<D>(kind)),
        });
        let watched = watched.transpose()?;
        if let Some(ring) = self.rings.get_mut(index)
            && watched.is_some()
        {
            context.unwatch(tokens::kick(index));
            ring.kick.clone_from(&watched);
        }
        let mut kick = Some(kick);
        self.rings.change(&[index], &self.device, context, &mut |_, running| {
            kick.take().into_iter().for_each(|kick| running.set_kick(kick));
        });
        watched.map_or(Ok(()), |kick| watch_kick(index, &kick, context))
    }

    /// Called after a queue has stopped by itself. Notifies the driver, as far as the protocol allows.
    pub fn broke(&mut self, kind: D::Kind) {
        self.needs_reset = true;
        let Some(ring) = self.rings.find(kind).and_then(|index| self.rings.get_mut(index)) else { return };
        (ring.broken, ring.parked) = (true, None);
        if let Some(err) = ring.err.clone()
            && let Ok(err) = EventFd::adopt(err)
        {
            err.notify();
        }
    }

    /// Serves the ring with this index, if the control thread serves rings of its kind.
    ///
    /// # Errors
    /// The ring is malformed. It stays stopped. The error comes with the kind of the ring.
    pub fn serve(&mut self, index: usize, context: &mut D::Context<'_>) -> Result<(), (D::Kind, RingError)> {
        let Some(kind) = self.rings.get(index).map(|ring| ring.kind) else { return Ok(()) };
        if !D::is_served_here(kind) {
            return Ok(());
        }
        let Some(mut queue) = self.rings.take(index, context) else { return Ok(()) };
        match self.device.serve(&mut queue, &mut self.rings, context) {
            Ok(more) => {
                self.rings.put_all(vec![(index, queue)], &self.device, context);
                if more {
                    context.after(tokens::kick(index), Duration::ZERO);
                }
                Ok(())
            }
            Err(error) => {
                context.unwatch(tokens::kick(index));
                if let Some(ring) = self.rings.get_mut(index) {
                    ring.stopped_at.set(queue.ring_queue().queue().position());
                }
                Err((kind, error))
            }
        }
    }

    /// The positions of the rings of parked queues.
    pub fn bases(&mut self) -> Vec<(usize, VringBase)> {
        self.rings.bases()
    }

    pub fn needs_reset(&self) -> bool {
        self.needs_reset
    }

    pub fn set_needs_reset(&mut self, needs_reset: bool) {
        self.needs_reset |= needs_reset;
    }

    /// Attaches parked queues again, because another process did not take them over.
    pub fn unpark(&mut self, context: &mut D::Context<'_>) {
        self.rings.unpark(&self.device, context);
    }

    /// Restores the driver's settings from the state of another process.
    pub fn restore(&mut self, state: &[Vec<u8>], context: &mut D::Context<'_>) {
        self.device.restore(state, &mut self.rings, context);
    }

    /// Watches the kicks of rings on the control thread again, after an interruption.
    ///
    /// # Errors
    /// The kick of a ring cannot be watched, for example at the open-files limit or the limit of epoll watches.
    pub fn watch_kicks_again(&mut self, context: &mut D::Context<'_>) -> std::io::Result<()> {
        for index in self.rings.served_here() {
            if let Some(kick) = self.rings.get_mut(index).and_then(|ring| ring.kick.clone()) {
                watch_kick(index, &kick, context)
                    .map_err(|refusal| std::io::Error::other(refusal.to_string()))?;
            }
        }
        Ok(())
    }
}

/// Watches the kicks of a ring that the control thread serves, and handles those that came before.
fn watch_kick(index: usize, kick: &SharedFd, context: &mut (impl Context + ?Sized)) -> Outcome {
    context.after(tokens::kick(index), Duration::ZERO);
    let watched = context.watch(tokens::kick(index), kick, Interest::Readable);
    watched.map_err(|error| Refusal::new(error.to_string()))
}

fn needs_kick<D: Device>(kind: D::Kind) -> Refusal {
    Refusal::new(format!("{}: a kick eventfd is needed", D::name(kind)))
}

fn layout_of(features: Features) -> RingLayout {
    if features.contains(Features::RING_PACKED) { RingLayout::Packed } else { RingLayout::Split }
}

pub(crate) fn call_of(call: Option<SharedFd>) -> Result<Option<EventFd>, Refusal> {
    call.map(EventFd::adopt).transpose().map_err(|error| Refusal::new(format!("call: {error}")))
}

pub(crate) fn kick_of(kick: Kick) -> Result<Option<EventFd>, Refusal> {
    match kick {
        Kick::Event(fd) => {
            EventFd::adopt(fd).map(Some).map_err(|error| Refusal::new(format!("kick: {error}")))
        }
        Kick::Poll => Ok(None),
        Kick::InBand => Err(not_offered()),
    }
}
