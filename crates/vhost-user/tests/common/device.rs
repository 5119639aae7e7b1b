//! The embedder's device: keeps what it is given, answers yes.
use std::collections::BTreeMap;
use vhost_user::SharedFd;

use super::{fd, memfd};
use vhost_user::session::backend::{
    BackendSession, CryptoSessionNumber, DeviceStatus, Event, Kick, Sent, SharedRegion, StateChannel,
    VringConfig,
};
use vhost_user::session::{Refusal, SessionError};
use vhost_user::vring::{VringAddresses, VringBase};
use virtio::Features;

/// A ring that runs.
pub struct Ring {
    pub config: VringConfig,
    pub kick: Kick,
    pub enabled: bool,
}

#[derive(Default)]
pub struct Device {
    /// The events' names with their queues, in their order.
    pub log: Vec<String>,
    /// The messages' numbers, in their order.
    pub messages: Vec<u32>,
    pub features: Features,
    pub regions: Vec<SharedRegion>,
    pub rings: BTreeMap<u8, Ring>,
    pub status: u8,
    pub mtu: u16,
    pub rarps: usize,
    pub channel: Option<SharedFd>,
    /// Say no instead of yes.
    pub refuse: bool,
}

impl Device {
    /// Whether all parts of a ring lie in shared memory.
    pub fn shares(&self, ring: VringAddresses) -> bool {
        let within = |address: u64| {
            self.regions.iter().any(|shared| {
                (shared.region.user_address..shared.region.user_address + shared.region.size_bytes)
                    .contains(&address)
            })
        };
        [ring.descriptor, ring.driver, ring.device].into_iter().all(within)
    }

    pub fn assert_nothing_rejected(&self) {
        let rejected: Vec<_> = self.log.iter().filter(|entry| entry.starts_with("rejected")).collect();
        assert!(rejected.is_empty(), "{rejected:?}");
    }

    pub fn act(&mut self, session: &mut BackendSession, event: Event) -> Result<Sent, SessionError> {
        let outcome = if self.refuse { Err(Refusal::new("refused by the test")) } else { Ok(()) };
        let mut note = |text: String| self.log.push(text);
        match event {
            Event::FeaturesSet { features, done } => {
                note("features".into());
                self.features = features;
                session.answer(done, outcome)
            }
            Event::MemoryTableSet { regions, done } => {
                note(format!("memory {}", regions.len()));
                self.regions = regions;
                session.answer(done, outcome)
            }
            Event::MemoryRegionAdded { region, done } => {
                note("region added".into());
                self.regions.push(region);
                session.answer(done, outcome)
            }
            Event::MemoryRegionRemoved { region, done } => {
                note("region removed".into());
                self.regions.retain(|kept| kept.region != region);
                session.answer(done, outcome)
            }
            Event::LogSet { done, .. } => {
                note("log".into());
                session.answer(done, outcome)
            }
            Event::LogNotifierSet { done, .. } => session.answer(done, outcome),
            Event::VringStarted { index, config, kick, enabled, done, .. } => {
                note(format!("started {}", index.get()));
                self.rings.insert(index.get(), Ring { config, kick, enabled });
                session.answer(done, outcome)
            }
            Event::VringStopped { index, answer } => {
                note(format!("stopped {}", index.get()));
                let base = match self.rings.remove(&index.get()) {
                    Some(ring) => ring.config.base,
                    None => VringBase::Split { next_available: 0 },
                };
                session.answer(answer, base)
            }
            Event::VringEnabled { index, enabled, done } => {
                note(format!("enabled {} {enabled}", index.get()));
                if let Some(ring) = self.rings.get_mut(&index.get()) {
                    ring.enabled = enabled;
                }
                session.answer(done, outcome)
            }
            Event::VringCallChanged { index, done, .. } => {
                note(format!("call {}", index.get()));
                session.answer(done, outcome)
            }
            Event::VringErrChanged { done, .. } => session.answer(done, outcome),
            Event::VringKickChanged { index, kick, done } => {
                note(format!("kick {}", index.get()));
                if let Some(ring) = self.rings.get_mut(&index.get()) {
                    ring.kick = kick;
                }
                session.answer(done, outcome)
            }
            Event::VringLogChanged { index, log, done } => {
                note(format!("ring log {} {}", index.get(), log.is_some()));
                session.answer(done, outcome)
            }
            Event::VringKicked { index, done } => {
                note(format!("kicked {}", index.get()));
                session.answer(done, outcome)
            }
            Event::BackendChannelSet { socket, done } => {
                note("channel".into());
                self.channel = Some(socket);
                session.answer(done, outcome)
            }
            Event::IotlbChanged { done, .. } => {
                note("iotlb".into());
                session.answer(done, outcome)
            }
            Event::RarpRequested { done, .. } => {
                self.rarps += 1;
                session.answer(done, outcome)
            }
            Event::MtuSet { mtu_bytes, done } => {
                note("mtu".into());
                self.mtu = mtu_bytes;
                session.answer(done, outcome)
            }
            Event::ConfigRead { offset, size_bytes, answer } => {
                note(format!("config read {offset} {size_bytes}"));
                session.answer(answer, outcome.map(|()| vec![0xa5; size_bytes as usize]))
            }
            Event::ConfigWritten { bytes, done, .. } => {
                note(format!("config written {}", bytes.len()));
                session.answer(done, outcome)
            }
            Event::InflightRequested { layout, queue_count, queue_size, answer } => {
                note("inflight requested".into());
                let size = vhost_user::inflight::area_bytes(layout, queue_count, queue_size);
                session.answer(answer, outcome.map(|()| (size, 0, memfd())))
            }
            Event::InflightSet { done, .. } => {
                note("inflight set".into());
                session.answer(done, outcome)
            }
            Event::Reset { done } => {
                note("reset".into());
                self.rings.clear();
                session.answer(done, outcome)
            }
            Event::StatusSet { status, done } => {
                note(format!("status {status}"));
                self.status = status;
                session.answer(done, outcome)
            }
            Event::CryptoSessionRequested { answer, .. } => {
                note("crypto session".into());
                session.answer(answer, outcome.map(|()| CryptoSessionNumber(7)))
            }
            Event::CryptoSessionClosed { number, done } => {
                note(format!("crypto session {number} closed"));
                session.answer(done, outcome)
            }
            Event::StatusRead { answer } => session.answer(answer, DeviceStatus(self.status)),
            Event::PostcopyAdvised { answer } => {
                note("postcopy advised".into());
                session.answer(answer, outcome.map(|()| fd()))
            }
            Event::PostcopyListening { done } => {
                note("postcopy listening".into());
                session.answer(done, outcome)
            }
            Event::PostcopyMemorySet { regions, answer, .. } => {
                note(format!("postcopy memory {}", regions.len()));
                let bases = regions.iter().map(|region| region.region.user_address + 1).collect();
                session.answer(answer, outcome.map(|()| bases))
            }
            Event::PostcopyMemoryReady { done } => {
                note("postcopy ready".into());
                session.answer(done, outcome)
            }
            Event::PostcopyEnded { done } => {
                note("postcopy ended".into());
                session.answer(done, outcome)
            }
            Event::DeviceStateTransfer { answer, .. } => {
                note("device state".into());
                session.answer(answer, StateChannel::Replaced(fd()))
            }
            Event::DeviceStateCheck { done } => {
                note("device state checked".into());
                session.answer(done, outcome)
            }
        }
    }
}
