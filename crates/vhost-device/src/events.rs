//! Carries out the events of a session, and answers them.
use std::sync::Arc;

use vhost_user::SharedFd;
use vhost_user::codec::payload::LogArea;
use vhost_user::session::backend::{
    BackendSession, CryptoSessionNumber, DeviceStatus, Event, Sent, SharedRegion, StateChannel,
};
use vhost_user::session::{Outcome, Refusal, SessionError};
use virtio::Features;
use virtio::net::MacAddress;

use crate::device::{Device, DeviceMessage, not_offered};
use crate::engine::{Engine, StartedRing, call_of, kick_of};

/// The result of an event.
pub(crate) struct Acted {
    /// The reply to send.
    pub sent: Sent,
    /// A socket for the back-end's own requests.
    pub channel: Option<SharedFd>,
    /// Whether the configuration space has changed.
    pub config_changed: bool,
}

impl<D: Device> Engine<D> {
    /// Carries out an event and answers it.
    ///
    /// # Errors
    /// The session ends: the request was refused and its message has no room for an error reply.
    pub fn act(
        &mut self,
        event: Event,
        session: &mut BackendSession,
        context: &mut D::Context<'_>,
    ) -> Result<Acted, SessionError> {
        let (mut channel, mut config_changed) = (None, false);
        let sent = match event {
            Event::FeaturesSet { features, done } => {
                self.set_features(Features::from_bits_retain(features.bits()), context);
                session.answer(done, Ok(()))
            }
            Event::MemoryTableSet { regions, done } => session.answer(done, self.set_table(regions, context)),
            Event::MemoryRegionAdded { region, done } => {
                let added = self.memory.table_with(region);
                session.answer(done, added.and_then(|space| self.set_space(space, context)))
            }
            Event::MemoryRegionRemoved { region, done } => {
                let left = self.memory.table_without(region);
                session.answer(done, left.and_then(|space| self.set_space(space, context)))
            }
            Event::LogSet { area, file, done } => session.answer(done, self.set_log(area, &file, context)),
            // A front-end that waits for it polls the log as well: nothing says that a back-end signals it.
            Event::LogNotifierSet { done, .. } => session.answer(done, Ok(())),
            Event::VringStarted { index, config, kick, call, err, enabled, done } => {
                let started = kick_of(kick).and_then(|kick| {
                    let (index, call) = (index.as_usize(), call_of(call)?);
                    self.start(StartedRing { index, config, kick, call, err, enabled }, context)
                });
                session.answer(done, started)
            }
            Event::VringStopped { index, answer } => {
                session.answer(answer, self.stop(index.as_usize(), context))
            }
            Event::VringEnabled { index, enabled, done } => {
                self.enable(index.as_usize(), enabled, context);
                session.answer(done, Ok(()))
            }
            Event::VringCallChanged { index, call, done } => {
                session.answer(done, self.change_call(index.as_usize(), call, context))
            }
            Event::VringErrChanged { index, err, done } => {
                self.set_err(index.as_usize(), err);
                session.answer(done, Ok(()))
            }
            Event::VringKickChanged { index, kick, done } => {
                session.answer(done, self.change_kick(index.as_usize(), kick, context))
            }
            Event::VringLogChanged { index, log, done } => {
                self.set_log_place(index.as_usize(), log, context);
                session.answer(done, Ok(()))
            }
            Event::BackendChannelSet { socket, done } => {
                channel = Some(socket);
                session.answer(done, Ok(()))
            }
            Event::RarpRequested { address, done } => {
                let message = DeviceMessage::Announce(MacAddress(address.0));
                session.answer(done, self.message(message, &mut config_changed, context))
            }
            Event::MtuSet { mtu_bytes, done } => {
                let message = DeviceMessage::Mtu(mtu_bytes);
                session.answer(done, self.message(message, &mut config_changed, context))
            }
            Event::ConfigRead { offset, size_bytes, answer } => {
                session.answer(answer, Ok(self.read_config(offset, size_bytes)))
            }
            Event::ConfigWritten { done, .. } => session.answer(done, Err(read_only())),
            Event::InflightRequested { layout, queue_count, queue_size, answer } => {
                session.answer(answer, self.new_in_flight(layout, queue_count, queue_size))
            }
            Event::InflightSet { inflight, file, done } => {
                session.answer(done, self.memory.set_in_flight(inflight, &file))
            }
            Event::Reset { done } => session.answer(done, self.reset(context)),
            Event::StatusSet { status, done } => session.answer(done, self.set_status(status, context)),
            Event::StatusRead { answer } => session.answer(answer, DeviceStatus(self.status())),
            Event::CryptoSessionRequested { setup, answer } => {
                let number = self.device.create_crypto_session(setup.as_deref());
                session.answer(answer, number.map(CryptoSessionNumber))
            }
            Event::CryptoSessionClosed { number, done } => {
                session.answer(done, self.device.close_crypto_session(number))
            }
            // The session lets none of these through, for none was offered.
            Event::VringKicked { done, .. }
            | Event::IotlbChanged { done, .. }
            | Event::PostcopyListening { done }
            | Event::PostcopyMemoryReady { done }
            | Event::PostcopyEnded { done }
            | Event::DeviceStateCheck { done } => session.answer(done, Err(not_offered())),
            Event::PostcopyAdvised { answer } => session.answer(answer, Err(not_offered())),
            Event::PostcopyMemorySet { answer, .. } => session.answer(answer, Err(not_offered())),
            Event::DeviceStateTransfer { answer, .. } => session.answer(answer, no_channel()),
        };
        Ok(Acted { sent: sent?, channel, config_changed })
    }

    fn set_table(&mut self, regions: Vec<SharedRegion>, context: &mut D::Context<'_>) -> Outcome {
        let space = self.memory.table(regions)?;
        self.set_space(space, context)
    }

    fn set_log(&mut self, area: LogArea, file: &SharedFd, context: &mut D::Context<'_>) -> Outcome {
        self.memory.log = Some(Arc::new(self.memory.new_log(area, file)?));
        self.update_logs(&self.rings.indices(), context);
        Ok(())
    }
}

fn read_only() -> Refusal {
    Refusal::new("the configuration space is read-only")
}

fn no_channel() -> StateChannel {
    StateChannel::Refused(not_offered())
}
