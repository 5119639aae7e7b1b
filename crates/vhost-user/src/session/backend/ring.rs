//! One ring: what the front-end has said so far, or what runs.

use super::event::VringConfig;
use crate::SharedFd;
use crate::codec::table::Rule;
use crate::violation::Violation;
use crate::vring::{QueueSize, RingLayout, VringAddresses, VringBase};

/// All that the session knows of a ring.
#[derive(Debug, Default)]
pub(super) struct Ring {
    pub(super) state: State,
    /// Counts once the ring runs (vhost-user text, "Ring states").
    pub(super) enabled: bool,
    /// Kept over a stop: QEMU sets it once and starts the ring often.
    pub(super) call: Option<SharedFd>,
    /// Kept likewise.
    pub(super) err: Option<SharedFd>,
}

/// Stopped and being set up, or started and fixed.
#[derive(Debug)]
pub(super) enum State {
    Stopped(Setup),
    Started(VringConfig),
}

impl Default for State {
    fn default() -> Self {
        Self::Stopped(Setup::default())
    }
}

/// What a stopped ring has been told; nothing of it is known to fit together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setup {
    pub(super) size: Option<QueueSize>,
    pub(super) addresses: Option<VringAddresses>,
    pub(super) log: Option<u64>,
    /// As it came: its meaning depends on the layout.
    pub(super) base: Option<u32>,
}

impl Setup {
    /// Everything that a start needs, and all of it right for the layout.
    pub(super) fn configure(
        &self,
        rule: &Rule,
        index: u8,
        layout: RingLayout,
    ) -> Result<VringConfig, Violation> {
        let size = self
            .size
            .ok_or_else(|| rule.violation("queue", index, "a queue whose size SET_VRING_NUM has set"))?;
        let addresses = self.addresses.ok_or_else(|| {
            rule.violation("queue", index, "a queue whose addresses SET_VRING_ADDR has set")
        })?;
        if !size.fits(layout) {
            return Err(Violation::new(
                "SET_VRING_NUM",
                "num",
                size.get(),
                "a power of two (VIRTIO 1.3 §2.7)",
            ));
        }
        if let Some((field, address)) = addresses.misaligned(layout) {
            return Err(Violation::new(
                "SET_VRING_ADDR",
                field,
                address,
                "the alignment of VIRTIO 1.3 §2.7, §2.8",
            ));
        }
        let base = match self.base {
            None => Some(VringBase::start(layout)),
            Some(num) => VringBase::from_wire(layout, num).filter(|base| base.fits(layout, size)),
        };
        let base = base.ok_or_else(|| {
            Violation::new("SET_VRING_BASE", "num", self.base.unwrap_or(0), "a position within the ring")
        })?;
        Ok(VringConfig { layout, size, addresses, log: self.log, base })
    }
}

impl Ring {
    /// The setup of a stopped ring, to change it.
    pub(super) fn setup(&mut self, rule: &Rule, index: u8) -> Result<&mut Setup, Violation> {
        match &mut self.state {
            State::Stopped(setup) => Ok(setup),
            State::Started(_) => Err(rule.violation("queue", index, "a queue that is stopped")),
        }
    }

    pub(super) fn is_started(&self) -> bool {
        matches!(self.state, State::Started(_))
    }
}
