//! Messages that concern the whole device.

use super::answer::Echo;
use super::memory_messages::only_fd;
use super::{BackendSession, Commit, Event, Next};
use crate::SharedFd;
use crate::codec::crypto::CreateCryptoSession;
use crate::codec::payload::{ConfigAccess, DeviceStateTransfer, Inflight};
use crate::codec::table::Rule;
use crate::inflight;
use crate::violation::Violation;
use crate::vring::{QueueSize, layout_of};

impl BackendSession {
    /// An MTU must be between 68 and 65535 (VIRTIO 1.3 §5.1.4.1).
    pub(super) fn on_net_set_mtu(&mut self, rule: &Rule, mtu: u64) -> Result<Next, Violation> {
        let mtu_bytes = u16::try_from(mtu)
            .ok()
            .filter(|mtu| *mtu >= 68)
            .ok_or_else(|| rule.violation("MTU", mtu, "68 to 65535 (VIRTIO 1.3 §5.1.4.1)"))?;
        Ok(self.ask_done(rule, Commit::Nothing, |done| Event::MtuSet { mtu_bytes, done }))
    }

    pub(super) fn on_set_backend_req_fd(
        &mut self,
        rule: &Rule,
        fds: Vec<SharedFd>,
    ) -> Result<Next, Violation> {
        let socket = only_fd(rule, fds)?;
        Ok(self.ask_done(rule, Commit::BackendChannel, |done| Event::BackendChannelSet { socket, done }))
    }

    pub(super) fn on_get_config(&mut self, _: &Rule, access: ConfigAccess) -> Result<Next, Violation> {
        let (offset, size_bytes) = (access.offset, access.bytes.len() as u32);
        Ok(self.ask(Echo::Config(access), Commit::Nothing, |answer| Event::ConfigRead {
            offset,
            size_bytes,
            answer,
        }))
    }

    pub(super) fn on_set_config(&mut self, rule: &Rule, access: ConfigAccess) -> Result<Next, Violation> {
        let ConfigAccess { offset, migration, bytes } = access;
        Ok(self.ask_done(rule, Commit::Nothing, |done| Event::ConfigWritten {
            offset,
            bytes,
            migration,
            done,
        }))
    }

    /// The embedder checks which algorithms and key lengths are supported.
    pub(super) fn on_create_crypto_session(&mut self, create: CreateCryptoSession) -> Next {
        let CreateCryptoSession { form, setup } = create;
        self.ask(Echo::CryptoSession(form), Commit::Nothing, |answer| Event::CryptoSessionRequested {
            setup: setup.map(Box::new),
            answer,
        })
    }

    pub(super) fn on_get_inflight_fd(&mut self, rule: &Rule, asked: Inflight) -> Result<Next, Violation> {
        let queue_size = self.check_inflight(rule, &asked)?;
        let (layout, queue_count) = (layout_of(self.agreed.features), asked.queue_count);
        Ok(self.ask(Echo::Inflight(asked), Commit::Nothing, |answer| Event::InflightRequested {
            layout,
            queue_count,
            queue_size,
            answer,
        }))
    }

    pub(super) fn on_set_inflight_fd(
        &mut self,
        rule: &Rule,
        inflight: Inflight,
        fds: Vec<SharedFd>,
    ) -> Result<Next, Violation> {
        let queue_size = self.check_inflight(rule, &inflight)?;
        if self.any_ring_started() {
            return Err(rule.violation("queues", inflight.queue_count, "stopped queues"));
        }
        let layout = layout_of(self.agreed.features);
        if inflight.size_bytes < inflight::area_bytes(layout, inflight.queue_count, queue_size) {
            return Err(rule.violation("size", inflight.size_bytes, "room for all queues"));
        }
        rule.check_range("offset", inflight.offset, inflight.size_bytes)?;
        let file = only_fd(rule, fds)?;
        Ok(self.ask_done(rule, Commit::Nothing, |done| Event::InflightSet { inflight, file, done }))
    }

    fn check_inflight(&self, rule: &Rule, inflight: &Inflight) -> Result<QueueSize, Violation> {
        let queues = inflight.queue_count;
        if queues == 0 || queues > self.offer.queue_count() {
            return Err(rule.violation("number of queues", queues, "1 to the number of queues"));
        }
        QueueSize::of_any_layout(inflight.queue_size.into())
            .ok_or_else(|| rule.violation("queue size", inflight.queue_size, "a queue size of 1 to 32768"))
    }

    pub(super) fn on_set_status(&mut self, rule: &Rule, status: u64) -> Result<Next, Violation> {
        let status = u8::try_from(status)
            .map_err(|_| rule.violation("status", status, "eight bits (VIRTIO 1.3 §2.1)"))?;
        Ok(self.ask_done(rule, Commit::Nothing, |done| Event::StatusSet { status, done }))
    }

    pub(super) fn on_set_device_state_fd(
        &mut self,
        rule: &Rule,
        transfer: DeviceStateTransfer,
        fds: Vec<SharedFd>,
    ) -> Result<Next, Violation> {
        if let Some(running) = self.rings.iter().position(|ring| ring.is_started()) {
            return Err(rule.violation("queue", running as u64, "all queues stopped (suspended device)"));
        }
        let (direction, file) = (transfer.direction, only_fd(rule, fds)?);
        Ok(self.ask(Echo::Number, Commit::Nothing, |answer| Event::DeviceStateTransfer {
            direction,
            file,
            answer,
        }))
    }
}
