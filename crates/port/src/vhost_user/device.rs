//! The device behind one connection: what the front-end has set up, and what runs of it.
use std::os::fd::OwnedFd;
use std::sync::Arc;

use memory::{AddressSpace, DirtyLog, Mapping, Region, sealed_memfd};
use vhost_user::codec::payload::{Inflight, MemoryRegion};
use vhost_user::inflight;
use vhost_user::session::backend::{
    BackendSession, DeviceStatus, Event, Kick, Sent, SharedRegion, StateChannel, VringConfig,
};
use vhost_user::session::{Outcome, Refusal, SessionError};
use vhost_user::vring::{Layout, QueueSize, VringBase};
use virtio::net::{Accepts, HeaderLayout, MacAddress};
use virtio::{Feature, Features};
use virtqueue::UsedLog;

use super::ring::{self, InFlight, Ring, Running, place};
use super::{Shared, config_space};
use crate::device::{EventFd, FromGuest, ToGuest, ToGuestOptions};
use crate::{Plugboard, Side};

/// `VIRTIO_CONFIG_S_NEEDS_RESET` (VIRTIO 1.3 §2.1).
const NEEDS_RESET: u8 = 0x40;

/// What an MTU does not count: the Ethernet header, and one VLAN tag that may come with it.
const BEYOND_MTU_BYTES: u32 = 14 + 4;

pub(super) struct Device {
    shared: Arc<Shared>,
    pub features: Features,
    space: Arc<AddressSpace>,
    log: Option<Arc<DirtyLog>>,
    in_flight: Option<InFlight>,
    pub rings: Vec<Option<Ring>>,
    pub mtu_bytes: Option<u16>,
    status: u8,
    needs_reset: bool,
}

fn refused(error: impl ToString) -> Refusal {
    Refusal::new(error.to_string())
}

impl Device {
    pub fn new(shared: Arc<Shared>) -> Self {
        let rings = (0..2 * usize::from(shared.options.queue_pairs)).map(|_| None).collect();
        Device {
            mtu_bytes: shared.options.mtu,
            shared,
            features: Features::NONE,
            space: Arc::default(),
            log: None,
            in_flight: None,
            rings,
            status: 0,
            needs_reset: false,
        }
    }

    /// Does what an event asks for and answers it; a socket of the back-end's own comes back.
    pub fn act(
        &mut self,
        event: Event,
        session: &mut BackendSession,
        board: &mut dyn Plugboard,
    ) -> Result<(Sent, Option<OwnedFd>), SessionError> {
        let mut channel = None;
        let sent = match event {
            Event::FeaturesSet { features, done } => {
                self.features = Features::from_bits(features.bits());
                self.update_logs(board);
                session.answer(done, Ok(()))
            }
            Event::MemoryTableSet { regions, done } => {
                let outcome = map_all(regions).and_then(|space| self.set_space(space, board));
                session.answer(done, outcome)
            }
            Event::MemoryRegionAdded { region, done } => {
                let added = map(region).and_then(|region| self.space.with_region(region).map_err(refused));
                session.answer(done, added.and_then(|space| self.set_space(space, board)))
            }
            Event::MemoryRegionRemoved { region, done } => {
                let MemoryRegion { guest_address, user_address, size_bytes, .. } = region;
                let left = self.space.without_region(guest_address, user_address, size_bytes);
                session.answer(done, left.map_err(refused).and_then(|space| self.set_space(space, board)))
            }
            Event::LogSet { area, file, done } => {
                let log = DirtyLog::map(&file, area.offset, area.size_bytes);
                let outcome = log.map_err(refused).map(|log| {
                    self.log = Some(Arc::new(log));
                    self.update_logs(board);
                });
                session.answer(done, outcome)
            }
            Event::LogNotifierSet { done, .. } => {
                session.answer(done, Err(Refusal::new("this back-end signals no log eventfd; poll the log")))
            }
            Event::VringStarted { index, config, kick, call, err, enabled, done } => {
                let ring = Ring { config, enabled, err, broken: false };
                session.answer(done, self.start(index.as_usize(), ring, kick, call, board))
            }
            Event::VringStopped { index, answer } => {
                session.answer(answer, self.stop(index.as_usize(), board))
            }
            Event::VringEnabled { index, enabled, done } => {
                if let Some(ring) = self.ring(index.as_usize()) {
                    ring.enabled = enabled;
                }
                change(index.as_usize(), board, |running| running.set_enabled(enabled));
                session.answer(done, Ok(()))
            }
            Event::VringCallChanged { index, call, done } => {
                let outcome = call_of(call)
                    .map(|call| change(index.as_usize(), board, |running| running.set_call(call)));
                session.answer(done, outcome)
            }
            Event::VringErrChanged { index, err, done } => {
                if let Some(ring) = self.ring(index.as_usize()) {
                    ring.err = err;
                }
                session.answer(done, Ok(()))
            }
            Event::VringKickChanged { index, kick, done } => {
                let outcome = kick_of(kick)
                    .map(|kick| change(index.as_usize(), board, |running| running.set_kick(kick)));
                session.answer(done, outcome)
            }
            Event::VringLogChanged { index, log, done } => {
                if let Some(ring) = self.ring(index.as_usize()) {
                    ring.config.log = log;
                }
                self.update_logs(board);
                session.answer(done, Ok(()))
            }
            Event::BackendChannelSet { socket, done } => {
                channel = Some(socket);
                session.answer(done, Ok(()))
            }
            Event::RarpRequested { address, done } => {
                board.announce(MacAddress(address.0));
                session.answer(done, Ok(()))
            }
            Event::MtuSet { mtu_bytes, done } => {
                self.mtu_bytes = Some(mtu_bytes);
                let max = self.max_frame_bytes();
                for index in 0..self.rings.len() {
                    change(index, board, |running| running.set_max_frame_bytes(max));
                }
                session.answer(done, Ok(()))
            }
            Event::ConfigRead { offset, size_bytes, answer } => {
                let bytes = config_space::read(&self.shared.options, self.mtu_bytes, offset, size_bytes);
                session.answer(answer, Ok(bytes))
            }
            Event::ConfigWritten { done, .. } => {
                session.answer(done, Err(Refusal::new("the configuration space is read-only")))
            }
            Event::InflightRequested { layout, queue_count, queue_size, answer } => {
                session.answer(answer, new_in_flight(layout, queue_count, queue_size))
            }
            Event::InflightSet { inflight, file, done } => {
                session.answer(done, self.set_in_flight(inflight, file))
            }
            Event::Reset { done } => {
                self.unplug_all(board);
                self.features = Features::NONE;
                (self.in_flight, self.log) = (None, None);
                (self.status, self.needs_reset) = (0, false);
                session.answer(done, Ok(()))
            }
            Event::StatusSet { status, done } => {
                self.status = status;
                self.needs_reset &= status != 0;
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

    fn ring(&mut self, index: usize) -> Option<&mut Ring> {
        self.rings.get_mut(index)?.as_mut()
    }

    fn max_frame_bytes(&self) -> Option<u32> {
        self.mtu_bytes.map(|mtu| u32::from(mtu) + BEYOND_MTU_BYTES)
    }

    fn header_layout(&self) -> HeaderLayout {
        let full = self.features.has(Feature::VERSION_1) || self.features.has(Feature::NET_MRG_RXBUF);
        if full { HeaderLayout::Full } else { HeaderLayout::Legacy }
    }

    fn used_log(&self, config: &VringConfig) -> Option<UsedLog> {
        let log = self.log.as_ref().filter(|_| self.features.has(Feature::VHOST_LOG_ALL))?;
        Some(UsedLog { log: Arc::clone(log), ring: config.log })
    }

    fn start(
        &mut self,
        index: usize,
        ring: Ring,
        kick: Kick,
        call: Option<Arc<OwnedFd>>,
        board: &mut dyn Plugboard,
    ) -> Outcome {
        let (config, enabled) = (ring.config, ring.enabled);
        let queue = ring::activate(
            index,
            &config,
            ring::position(config.base),
            self.features,
            &self.space,
            self.in_flight.as_ref(),
            self.used_log(&config),
        );
        let queue = queue.map_err(|error| Refusal::new(format!("queue {index}: {error}")))?;
        let (kick, call) = (kick_of(kick)?, call_of(call)?);
        let (pair, side) = place(index);
        let counters = Arc::clone(self.shared.counters(pair, side).ok_or_else(not_offered)?);
        let layout = self.header_layout();
        match side {
            Side::FromGuest => {
                let source = FromGuest::new(queue, layout, kick, call, enabled, counters);
                board.plug_source(pair, Box::new(source));
            }
            Side::ToGuest => {
                let options = ToGuestOptions {
                    layout,
                    accepts: Accepts::of_driver(self.features),
                    mergeable: self.features.has(Feature::NET_MRG_RXBUF),
                    max_frame_bytes: self.max_frame_bytes(),
                };
                board.plug_sink(pair, Box::new(ToGuest::new(queue, options, call, enabled, counters)));
            }
        }
        self.rings[index] = Some(ring);
        Ok(())
    }

    fn stop(&mut self, index: usize, board: &mut dyn Plugboard) -> VringBase {
        let running = Running::unplug(index, board);
        let ring = self.rings.get_mut(index).and_then(Option::take);
        match (running, ring) {
            (Some(mut running), _) => ring::base(running.queue().position()),
            // Malformed and gone: it can only go on from where it began.
            (None, Some(ring)) => ring.config.base,
            (None, None) => VringBase::start(layout_of(self.features)),
        }
    }

    /// Unplugs everything; the rings count as stopped.
    pub fn unplug_all(&mut self, board: &mut dyn Plugboard) {
        for (index, ring) in self.rings.iter_mut().enumerate() {
            if ring.take().is_some() {
                drop(Running::unplug(index, board));
            }
        }
    }

    /// Goes over to other memory, rings included, or stays with what there was if a ring is not in it.
    fn set_space(&mut self, space: AddressSpace, board: &mut dyn Plugboard) -> Outcome {
        let space = Arc::new(space);
        let mut taken = Vec::new();
        let mut outcome = Ok(());
        for (index, ring) in self.rings.iter().enumerate() {
            let Some(ring) = ring else { continue };
            let Some(mut running) = Running::unplug(index, board) else { continue };
            let queue = ring::activate(
                index,
                &ring.config,
                running.queue().position(),
                self.features,
                &space,
                self.in_flight.as_ref(),
                self.used_log(&ring.config),
            );
            match queue {
                Ok(queue) => taken.push((index, running, Some(queue))),
                Err(error) => {
                    outcome = Err(Refusal::new(format!("queue {index}: {error}")));
                    taken.push((index, running, None));
                }
            }
        }
        for (index, mut running, queue) in taken {
            if let (Some(queue), true) = (queue, outcome.is_ok()) {
                running.renew(queue);
            }
            running.plug(index, board);
        }
        if outcome.is_ok() {
            self.space = space;
        }
        outcome
    }

    fn update_logs(&mut self, board: &mut dyn Plugboard) {
        for index in 0..self.rings.len() {
            let Some(ring) = &self.rings[index] else { continue };
            let log = self.used_log(&ring.config);
            change(index, board, |running| running.queue().set_log(log));
        }
    }

    fn set_in_flight(&mut self, inflight: Inflight, file: OwnedFd) -> Outcome {
        let mapping = Mapping::shared(&file, inflight.offset, inflight.size_bytes).map_err(refused)?;
        let Inflight { queue_count, queue_size, .. } = inflight;
        self.in_flight = Some(InFlight { mapping: Arc::new(mapping), queue_count, queue_size });
        Ok(())
    }

    /// A queue has stopped by itself: tells the driver as far as there are ways to.
    pub fn broke(&mut self, pair: u16, side: Side) {
        let index = 2 * usize::from(pair) + usize::from(side == Side::FromGuest);
        self.needs_reset = true;
        let Some(ring) = self.ring(index) else { return };
        ring.broken = true;
        if let Some(err) = ring.err.clone()
            && let Ok(err) = EventFd::adopt(err)
        {
            err.notify();
        }
    }
}

fn not_offered() -> Refusal {
    Refusal::new("not offered")
}

fn layout_of(features: Features) -> Layout {
    if features.has(Feature::RING_PACKED) { Layout::Packed } else { Layout::Split }
}

/// Changes a running ring between two bursts; nothing happens if it does not run.
fn change(index: usize, board: &mut dyn Plugboard, how: impl FnOnce(&mut Running)) {
    if let Some(mut running) = Running::unplug(index, board) {
        how(&mut running);
        running.plug(index, board);
    }
}

fn call_of(call: Option<Arc<OwnedFd>>) -> Result<Option<EventFd>, Refusal> {
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

fn map(SharedRegion { region, file }: SharedRegion) -> Result<Region, Refusal> {
    let MemoryRegion { guest_address, size_bytes, user_address, mmap_offset } = region;
    Region::map(&file, mmap_offset, size_bytes, guest_address, user_address).map_err(refused)
}

fn map_all(regions: Vec<SharedRegion>) -> Result<AddressSpace, Refusal> {
    let regions: Vec<Region> = regions.into_iter().map(map).collect::<Result<_, _>>()?;
    AddressSpace::from_regions(regions).map_err(refused)
}

fn new_in_flight(
    layout: Layout,
    queue_count: u16,
    queue_size: QueueSize,
) -> Result<(u64, u64, OwnedFd), Refusal> {
    let bytes = inflight::area_bytes(layout, queue_count, queue_size);
    let file = sealed_memfd(c"tautline in-flight", bytes)
        .map_err(|error| Refusal::new(format!("memory for {bytes} in-flight bytes: {error}")))?;
    Ok((bytes, 0, file.into()))
}
