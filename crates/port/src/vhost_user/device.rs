//! The device behind one connection: what the front-end has set up, and what runs of it.
use std::collections::BTreeMap;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use frame::Side;
use memory::{Address, AddressSpace, Mapping, PeerMemory, sealed_memfd};
use vhost_user::SharedFd;
use vhost_user::inflight;
use vhost_user::session::backend::{
    BackendSession, DeviceStatus, Event, Kick, Sent, StateChannel, VringConfig,
};
use vhost_user::session::{Outcome, Refusal, SessionError};
use vhost_user::vring::{QueueSize, RingLayout, VringAddresses, VringBase};
use virtio::Features;
use virtio::net::control::{Ack, Command, ReceiveFilter};
use virtio::net::{Accepts, HeaderLayout, MacAddress, NetConfig};
use virtqueue::{DeviceQueue, Position, RingError, RingPlaces, UsedLog};

use super::control::ControlQueue;
use super::memory::SharedMemory;
use super::offer;
use super::ring::{self, Kind, Ring, RingQueue};
use super::rings::Rings;
use super::shared::Shared;
use super::tokens::CONTROL;
use crate::device::{EventFd, FromGuest, ToGuest, ToGuestOptions};
use crate::{Interest, PortContext};

/// `VIRTIO_CONFIG_S_NEEDS_RESET` (VIRTIO 1.3 §2.1).
const NEEDS_RESET: u8 = 0x40;

/// What an MTU does not count: the Ethernet header, and one VLAN tag that may come with it.
const BEYOND_MTU_BYTES: u32 = 14 + 4;

pub(super) struct Device {
    shared: Arc<Shared>,
    pub features: Features,
    memory: SharedMemory,
    pub rings: Rings,
    pub mtu_bytes: Option<u16>,
    /// What the driver has set on the control queue.
    filter: Option<Box<ReceiveFilter>>,
    /// The same: which of its offloads are on.
    guest_offloads: Option<Features>,
    status: u8,
    needs_reset: bool,
}

fn refused(error: impl ToString) -> Refusal {
    Refusal::new(error.to_string())
}

impl Device {
    pub fn new(shared: Arc<Shared>, memory: Arc<PeerMemory>) -> Self {
        let rings = Rings::new(offer::queue_count(&shared.options).into());
        Device {
            mtu_bytes: shared.options.mtu,
            shared,
            features: Features::empty(),
            memory: SharedMemory::new(memory),
            rings,
            filter: None,
            guest_offloads: None,
            status: 0,
            needs_reset: false,
        }
    }

    /// Does what an event asks for and answers it; a socket of the back-end's own comes back.
    pub fn act(
        &mut self,
        event: Event,
        session: &mut BackendSession,
        context: &mut dyn PortContext,
    ) -> Result<(Sent, Option<SharedFd>), SessionError> {
        let mut channel = None;
        let sent = match event {
            Event::FeaturesSet { features, done } => {
                let features = Features::from_bits_retain(features.bits());
                let changed = features.symmetric_difference(self.features);
                if !changed.difference(Features::VHOST_LOG_ALL).is_empty() {
                    self.forget_commands(context);
                }
                self.features = features;
                // QEMU says so for each pair, and twice: each time a queue is taken from its worker.
                if changed.contains(Features::VHOST_LOG_ALL) {
                    if !features.contains(Features::VHOST_LOG_ALL) {
                        // The next migration has another, and this may be too short for the memory then.
                        self.memory.log = None;
                    }
                    self.update_logs(&self.rings.indices(), context);
                }
                session.answer(done, Ok(()))
            }
            Event::MemoryTableSet { regions, done } => {
                let outcome = self.memory.table(regions).and_then(|space| self.set_space(space, context));
                session.answer(done, outcome)
            }
            Event::MemoryRegionAdded { region, done } => {
                let added = self.memory.table_with(region);
                session.answer(done, added.and_then(|space| self.set_space(space, context)))
            }
            Event::MemoryRegionRemoved { region, done } => {
                let left = self.memory.table_without(region);
                session.answer(done, left.and_then(|space| self.set_space(space, context)))
            }
            Event::LogSet { area, file, done } => {
                let outcome = self.memory.new_log(area, &file).map(|log| {
                    self.memory.log = Some(Arc::new(log));
                    self.update_logs(&self.rings.indices(), context);
                });
                session.answer(done, outcome)
            }
            // Whoever waits for it polls the log as well: nothing says that a back-end signals it.
            Event::LogNotifierSet { done, .. } => session.answer(done, Ok(())),
            Event::VringStarted { index, config, kick, call, err, enabled, done } => {
                let kind = Kind::of(index.as_usize(), self.shared.options.queue_pairs, self.features);
                let stopped_at = Arc::default();
                let ring = Ring { kind, config, enabled, err, broken: false, stopped_at, parked: None };
                session.answer(done, self.start(index.as_usize(), ring, kick, call, context))
            }
            Event::VringStopped { index, answer } => {
                session.answer(answer, self.stop(index.as_usize(), context))
            }
            Event::VringEnabled { index, enabled, done } => {
                self.rings.enable(index.as_usize(), enabled, context);
                session.answer(done, Ok(()))
            }
            Event::VringCallChanged { index, call, done } => {
                let outcome = call_of(call).map(|call| {
                    let mut call = Some(call);
                    self.rings.change(&[index.as_usize()], context, |_, running| {
                        call.take().into_iter().for_each(|call| running.set_call(call));
                    });
                });
                session.answer(done, outcome)
            }
            Event::VringErrChanged { index, err, done } => {
                if let Some(ring) = self.rings.get_mut(index.as_usize()) {
                    ring.err = err;
                }
                session.answer(done, Ok(()))
            }
            Event::VringKickChanged { index, kick, done } => {
                session.answer(done, self.change_kick(index.as_usize(), kick, context))
            }
            Event::VringLogChanged { index, log, done } => {
                if let Some(ring) = self.rings.get_mut(index.as_usize()) {
                    ring.config.log = log;
                }
                self.update_logs(&[index.as_usize()], context);
                session.answer(done, Ok(()))
            }
            Event::BackendChannelSet { socket, done } => {
                channel = Some(socket);
                session.answer(done, Ok(()))
            }
            Event::RarpRequested { address, done } => {
                let address = MacAddress(address.0);
                if self.shared.may_announce() {
                    context.announce(address);
                } else {
                    // A refusal would cost a front-end that cannot hear it its connection.
                    let what =
                        format_args!("announcement of {address} left out: too many of them (SEND_RARP)");
                    self.shared.warn(context, what);
                }
                session.answer(done, Ok(()))
            }
            Event::MtuSet { mtu_bytes, done } => {
                let accepted = self.set_mtu(mtu_bytes, context);
                session.answer(done, accepted)
            }
            Event::ConfigRead { offset, size_bytes, answer } => {
                session.answer(answer, Ok(self.read_config(offset, size_bytes)))
            }
            Event::ConfigWritten { done, .. } => {
                session.answer(done, Err(Refusal::new("the configuration space is read-only")))
            }
            Event::InflightRequested { layout, queue_count, queue_size, answer } => {
                session.answer(answer, self.new_in_flight(layout, queue_count, queue_size))
            }
            Event::InflightSet { inflight, file, done } => {
                session.answer(done, self.memory.set_in_flight(inflight, &file))
            }
            Event::Reset { done } => {
                self.rings.clear(context);
                self.forget_commands(context);
                self.features = Features::empty();
                (self.memory.in_flight, self.memory.log) = (None, None);
                (self.status, self.needs_reset) = (0, false);
                session.answer(done, Ok(()))
            }
            Event::StatusSet { status, done } => {
                self.status = status;
                // Status 0 resets the device (VIRTIO 1.3 §2.1); the rings are stopped by messages of their own.
                if status == 0 {
                    self.needs_reset = false;
                    self.forget_commands(context);
                }
                session.answer(done, Ok(()))
            }
            Event::StatusRead { answer } => {
                let needs_reset = if self.needs_reset { NEEDS_RESET } else { 0 };
                session.answer(answer, DeviceStatus(self.status | needs_reset))
            }
            // Never offered, so the session lets none of these through.
            Event::VringKicked { done, .. }
            | Event::IotlbChanged { done, .. }
            | Event::PostcopyListening { done }
            | Event::PostcopyMemoryReady { done }
            | Event::PostcopyEnded { done }
            | Event::DeviceStateCheck { done } => session.answer(done, Err(not_offered())),
            Event::PostcopyAdvised { answer } => session.answer(answer, Err(not_offered())),
            Event::PostcopyMemorySet { answer, .. } => session.answer(answer, Err(not_offered())),
            Event::DeviceStateTransfer { answer, .. } => {
                session.answer(answer, StateChannel::Refused(not_offered()))
            }
        };
        Ok((sent?, channel))
    }

    /// A fresh region, whose pages the port takes back when it has made others since.
    fn new_in_flight(
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

    /// The front-end narrows the operator's limit, but does not widen it.
    fn set_mtu(&mut self, mtu_bytes: u16, context: &mut dyn PortContext) -> Result<(), Refusal> {
        if let Some(limit) = self.shared.options.mtu.filter(|limit| mtu_bytes > *limit) {
            return Err(Refusal::new(format!(
                "an MTU of {mtu_bytes} is above the {limit} of this port; give its card host_mtu={limit} at the most, or \
                 the port a larger mtu="
            )));
        }
        self.mtu_bytes = Some(mtu_bytes);
        let max = self.max_frame_bytes();
        self.change_sinks(context, |sink| sink.set_max_frame_bytes(max));
        Ok(())
    }

    fn max_frame_bytes(&self) -> Option<u32> {
        self.mtu_bytes.map(|mtu| u32::from(mtu) + BEYOND_MTU_BYTES)
    }

    fn header_layout(&self) -> HeaderLayout {
        let full =
            self.features.contains(Features::VERSION_1) || self.features.contains(Features::NET_MRG_RXBUF);
        if full { HeaderLayout::Full } else { HeaderLayout::Legacy }
    }

    fn used_log(&self, config: &VringConfig, space: &AddressSpace) -> Option<UsedLog> {
        let log = self.memory.log.as_ref().filter(|_| self.features.contains(Features::VHOST_LOG_ALL))?;
        let ring = config.log.map(|said| self.ring_places(config, space, said));
        Some(UsedLog { log: Arc::clone(log), ring })
    }

    /// Where the device writes to a ring. What the front-end says of a packed ring for the log is not of use: QEMU
    /// gives the device area's address (`used_phys`), DPDK takes it for the descriptors'. Memory knows both.
    fn ring_places(&self, config: &VringConfig, space: &AddressSpace, said: u64) -> RingPlaces {
        if layout_of(self.features) == RingLayout::Split {
            return RingPlaces { used: said, device_event: said };
        }
        let guest = |user| space.guest_address(Address::User(user)).unwrap_or(said);
        let VringAddresses { descriptor, device, .. } = config.addresses;
        RingPlaces { used: guest(descriptor), device_event: guest(device) }
    }

    fn start(
        &mut self,
        index: usize,
        mut ring: Ring,
        kick: Kick,
        call: Option<SharedFd>,
        context: &mut dyn PortContext,
    ) -> Outcome {
        let kind = ring.kind;
        let said = ring::position(ring.config.base);
        let mut queue = self.activate(index, &ring.config, said, &self.memory.space)?;
        let (kick, call) = (kick_of(kick)?, call_of(call)?);
        if self.memory.in_flight.is_none()
            && let Position::Packed { next_used, .. } = queue.position()
            && queue.position() != said
        {
            let line = "does not know where the packed ring stands; its descriptors are used up to slot";
            let line = format_args!("queue {index}: the front-end {line} {}: goes on there", next_used.slot);
            self.shared.log(context, line);
        }
        // A ring that goes on may hold what was used just before the device ended, and the driver not told.
        if let Some(call) = call.as_ref().filter(|_| queue.needs_call()) {
            call.notify();
        }
        let running = self.running(&ring, queue, kick, call)?;
        ring.stopped_at = running.stopped_at();
        self.rings.start(index, ring, running, context);
        if kind == Kind::Control {
            if self.features.contains(Features::NET_MQ) {
                // §5.1.5: one pair is in use until the driver asks for more.
                self.rings.use_pairs(self.rings.used_pairs().or(Some(1)), context);
            }
            // Commands that came before this, and the wish for kicks.
            context.after(CONTROL, Duration::ZERO);
            return self.watch_control(index, context);
        }
        Ok(())
    }

    fn running(
        &self,
        ring: &Ring,
        queue: Box<dyn DeviceQueue>,
        kick: Option<EventFd>,
        call: Option<EventFd>,
    ) -> Result<RingQueue, Refusal> {
        let layout = self.header_layout();
        let (pair, side) = match ring.kind {
            Kind::Data(pair, side) => (pair, side),
            Kind::Control => {
                let kick = kick.ok_or_else(|| Refusal::new("a control queue needs a kick eventfd"))?;
                return Ok(RingQueue::Control(Box::new(ControlQueue::new(queue, kick, call, ring.enabled))));
            }
        };
        let counters = Arc::clone(self.shared.counters(pair, side).ok_or_else(not_offered)?);
        Ok(match side {
            Side::FromGuest => {
                let mut source = FromGuest::new(queue, layout, kick, call, ring.enabled, counters);
                source.set_cache_policy(self.shared.options.cache_policy);
                if let Some(area) = self.shared.deliveries.get() {
                    source.note_deliveries(area, pair);
                }
                RingQueue::Source(Box::new(source))
            }
            Side::ToGuest => {
                let options = ToGuestOptions {
                    layout,
                    accepts: self.accepts(),
                    mergeable: self.features.contains(Features::NET_MRG_RXBUF),
                    max_frame_bytes: self.max_frame_bytes(),
                };
                let mut sink = ToGuest::new(queue, options, call, ring.enabled, counters);
                sink.set_cache_policy(self.shared.options.cache_policy);
                if let Some(area) = self.shared.deliveries.get() {
                    sink.note_deliveries(area, pair);
                }
                sink.set_filter(self.filter.clone());
                RingQueue::Sink(Box::new(sink))
            }
        })
    }

    fn activate(
        &self,
        index: usize,
        config: &VringConfig,
        position: Position,
        space: &Arc<AddressSpace>,
    ) -> Result<Box<dyn DeviceQueue>, Refusal> {
        let (in_flight, log) = (self.memory.in_flight.as_ref(), self.used_log(config, space));
        ring::activate(index, config, position, self.features, space, in_flight, log)
    }

    fn stop(&mut self, index: usize, context: &mut dyn PortContext) -> VringBase {
        match self.rings.stop(index, context) {
            (Some(mut running), _) => ring::base(running.queue().position()),
            // Malformed and gone: where it stood then.
            (None, Some(ring)) => ring.stopped_at.get().map_or(ring.config.base, ring::base),
            (None, None) => VringBase::start(layout_of(self.features)),
        }
    }

    /// Goes over to other memory, rings included, or stays with what there was if a ring is not in it.
    fn set_space(&mut self, space: AddressSpace, context: &mut dyn PortContext) -> Outcome {
        let space = Arc::new(space);
        let mut taken = self.rings.take_all(&self.rings.indices(), context);
        let queues: Result<Vec<_>, _> = taken
            .iter_mut()
            .map(|(index, running)| {
                let config = self.rings.get(*index).map(|ring| ring.config).ok_or_else(not_offered)?;
                self.activate(*index, &config, running.queue().position(), &space)
            })
            .collect();
        let outcome = queues.map(|queues| {
            taken.iter_mut().zip(queues).for_each(|((_, running), queue)| running.renew(queue));
        });
        self.rings.put_all(taken, context);
        if self.rings.find(Kind::Control).is_some() {
            // Another device half of the same ring has to ask for kicks anew.
            context.after(CONTROL, Duration::ZERO);
        }
        if outcome.is_ok() {
            self.memory.space = space;
        }
        outcome
    }

    fn update_logs(&mut self, indices: &[usize], context: &mut dyn PortContext) {
        let log = |index: &usize| {
            let ring = self.rings.get(*index)?;
            Some((*index, self.used_log(&ring.config, &self.memory.space)))
        };
        let mut logs: BTreeMap<usize, Option<UsedLog>> = indices.iter().filter_map(log).collect();
        self.rings.change(indices, context, |index, running| {
            running.queue().set_log(logs.remove(&index).flatten());
        });
    }

    fn change_kick(&mut self, index: usize, kick: Kick, context: &mut dyn PortContext) -> Outcome {
        let kick = kick_of(kick)?;
        let is_control = self.rings.find(Kind::Control) == Some(index);
        if is_control && kick.is_none() {
            return Err(Refusal::new("a control queue needs a kick eventfd"));
        }
        if is_control {
            context.unwatch(CONTROL);
        }
        let mut kick = Some(kick);
        self.rings.change(&[index], context, |_, running| {
            kick.take().into_iter().for_each(|kick| running.set_kick(kick));
        });
        if is_control {
            // Commands that were kicked before.
            context.after(CONTROL, Duration::ZERO);
            self.watch_control(index, context)?;
        }
        Ok(())
    }

    fn watch_control(&mut self, index: usize, context: &mut dyn PortContext) -> Outcome {
        match self.rings.get_mut(index).and_then(|ring| ring.parked.as_ref()) {
            Some(RingQueue::Control(control)) => {
                context.watch(CONTROL, &control.kick_fd(), Interest::Readable).map_err(refused)
            }
            _ => Ok(()),
        }
    }

    /// A queue has stopped by itself: tells the driver as far as there are ways to.
    pub fn broke(&mut self, kind: Kind) {
        self.needs_reset = true;
        let Some(ring) = self.rings.find(kind).and_then(|index| self.rings.get_mut(index)) else { return };
        (ring.broken, ring.parked) = (true, None);
        if let Some(err) = ring.err.clone()
            && let Ok(err) = EventFd::adopt(err)
        {
            err.notify();
        }
    }

    /// Obeys the commands on the control queue; an error is its end.
    pub fn serve_control(&mut self, context: &mut dyn PortContext) -> Result<(), RingError> {
        let Some(index) = self.rings.find(Kind::Control) else { return Ok(()) };
        let Some(RingQueue::Control(mut control)) = self.rings.take(index, context) else { return Ok(()) };
        let more = control.serve(|command| self.handle_command(command, context));
        match more {
            Ok(more) => {
                self.rings.put_all(vec![(index, RingQueue::Control(control))], context);
                if more {
                    context.after(CONTROL, Duration::ZERO);
                }
                Ok(())
            }
            Err(error) => {
                context.unwatch(CONTROL);
                if let Some(ring) = self.rings.get_mut(index) {
                    ring.stopped_at.set(control.queue().position());
                }
                Err(error)
            }
        }
    }

    /// Where the rings of parked queues stand.
    pub fn bases(&mut self) -> Vec<(usize, VringBase)> {
        self.rings.bases()
    }

    pub fn needs_reset(&self) -> bool {
        self.needs_reset
    }

    pub fn set_needs_reset(&mut self, needs_reset: bool) {
        self.needs_reset |= needs_reset;
    }

    /// What was set on the control queue, as commands (VIRTIO 1.3 §5.1.6.5).
    pub fn commands(&self) -> Vec<Vec<u8>> {
        let mut commands = Vec::new();
        if let Some(filter) = &self.filter {
            commands = filter.commands(self.features);
        }
        if let Some(on) = self.guest_offloads {
            commands.push([&[5, 0][..], &on.bits().to_le_bytes()].concat());
        }
        if let Some(pairs) = self.rings.used_pairs() {
            commands.push([&[4, 0][..], &pairs.to_le_bytes()].concat());
        }
        commands
    }

    /// Handles them once more.
    pub fn handle_commands(&mut self, commands: &[Vec<u8>], context: &mut dyn PortContext) {
        for command in commands {
            self.handle_command(command, context);
        }
    }

    /// After the control queue was not watched for a while.
    pub fn watch_control_again(&mut self, context: &mut dyn PortContext) -> std::io::Result<()> {
        let Some(index) = self.rings.find(Kind::Control) else { return Ok(()) };
        context.after(CONTROL, Duration::ZERO);
        self.watch_control(index, context).map_err(|refusal| std::io::Error::other(refusal.to_string()))
    }

    fn handle_command(&mut self, command: &[u8], context: &mut dyn PortContext) -> Ack {
        match Command::parse(command, self.features, self.shared.options.queue_pairs) {
            Ok(Command::Filter(change)) => {
                let own = self.shared.options.mac.unwrap_or_default();
                let features = self.features;
                let fresh = || Box::new(ReceiveFilter::new(own, features));
                self.filter.get_or_insert_with(fresh).apply(&change);
                let filter = self.filter.clone();
                self.change_sinks(context, |sink| sink.set_filter(filter.clone()));
            }
            // This end never asks for an announcement.
            Ok(Command::AnnounceAck) => {}
            Ok(Command::QueuePairs(pairs)) => self.rings.use_pairs(Some(pairs), context),
            Ok(Command::GuestOffloads(on)) => {
                self.guest_offloads = Some(on);
                let accepts = self.accepts();
                self.change_sinks(context, |sink| sink.set_accepts(accepts));
            }
            Err(error) => {
                self.shared.warn(context, format_args!("control command refused: {error}"));
                return Ack::Error;
            }
        }
        Ack::Ok
    }

    /// Back to what holds before any command (VIRTIO 1.3 §5.1.5).
    fn forget_commands(&mut self, context: &mut dyn PortContext) {
        (self.filter, self.guest_offloads) = (None, None);
        self.rings.use_pairs(None, context);
        let accepts = self.accepts();
        self.change_sinks(context, |sink| {
            sink.set_filter(None);
            sink.set_accepts(accepts);
        });
    }

    fn accepts(&self) -> Accepts {
        Accepts::of_driver(self.guest_offloads.unwrap_or(self.features))
    }

    fn change_sinks(&mut self, context: &mut dyn PortContext, mut how: impl FnMut(&mut ToGuest)) {
        self.rings.change(&self.rings.sinks(), context, |_, running| {
            if let Some(sink) = running.as_sink() {
                how(sink);
            }
        });
    }

    /// What lies behind the fields that are known reads as zeros.
    fn read_config(&self, offset: u32, size_bytes: u32) -> Vec<u8> {
        let options = &self.shared.options;
        let own = self.filter.as_ref().map(|filter| filter.own_address());
        let config = NetConfig {
            mac: own.or(options.mac).unwrap_or_default(),
            link_up: true,
            max_queue_pairs: options.queue_pairs,
            mtu_bytes: self.mtu_bytes.unwrap_or(0),
            ..NetConfig::default()
        };
        let bytes = config.to_bytes();
        (u64::from(offset)..u64::from(offset) + u64::from(size_bytes))
            .map(|at| usize::try_from(at).ok().and_then(|at| bytes.get(at)).copied().unwrap_or(0))
            .collect()
    }
}

fn not_offered() -> Refusal {
    Refusal::new("not offered")
}

fn layout_of(features: Features) -> RingLayout {
    if features.contains(Features::RING_PACKED) { RingLayout::Packed } else { RingLayout::Split }
}

fn call_of(call: Option<SharedFd>) -> Result<Option<EventFd>, Refusal> {
    call.map(EventFd::adopt).transpose().map_err(|error| Refusal::new(format!("call: {error}")))
}

fn kick_of(kick: Kick) -> Result<Option<EventFd>, Refusal> {
    match kick {
        Kick::Event(fd) => {
            EventFd::adopt(fd).map(Some).map_err(|error| Refusal::new(format!("kick: {error}")))
        }
        Kick::Poll => Ok(None),
        Kick::InBand => Err(not_offered()),
    }
}
