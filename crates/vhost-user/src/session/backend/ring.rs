//! One ring: its set-up by the front-end, or its running state.

use super::event::VringConfig;
use crate::SharedFd;
use crate::codec::table::Rule;
use crate::violation::Violation;
use crate::vring::{QueueSize, RingLayout, VringAddresses, VringBase};

/// The state of a ring in a session.
#[derive(Debug, Default)]
pub(super) struct Ring {
    pub(super) state: State,
    /// Whether the ring is enabled. This has an effect once the ring runs (vhost-user text, "Ring states").
    pub(super) enabled: bool,
    /// The call, which is kept when the ring stops: QEMU sets it once and starts the ring often.
    pub(super) call: Option<SharedFd>,
    /// Kept likewise.
    pub(super) err: Option<SharedFd>,
}

/// A ring is either stopped and being set up, or started with fixed parameters.
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

/// The parameters of a stopped ring, which are not checked together yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setup {
    pub(super) size: Option<QueueSize>,
    pub(super) addresses: Option<VringAddresses>,
    pub(super) log: Option<u64>,
    /// The base as received: its meaning depends on the layout.
    pub(super) base: Option<u32>,
}

impl Setup {
    /// Checks that the parameters are complete and right for the layout.
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
    /// The setup of a stopped ring, for changing it.
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
