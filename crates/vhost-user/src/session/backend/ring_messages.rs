//! Setting up, starting, stopping and enabling of rings.

use super::answer::Echo;
use super::memory_messages::only_fd;
use super::ring::{Ring, Setup, State};
use super::{BackendSession, Commit, Event, Kick, Next};
use crate::SharedFd;
use crate::bits::ProtocolFeatures;
use crate::codec::payload::{VringAddress, VringFd, VringState};
use crate::codec::reply::ReplyBody;
use crate::codec::table::Rule;
use crate::session::{Outcome, Ticket};
use crate::violation::Violation;
use crate::vring::{QueueSize, RingLayout, VringAddresses, VringBase, VringIndex, layout_of};
use virtio::Features;

/// What a front-end without any shared memory lacks, which QEMU is until it is told otherwise.
const SHARED_MEMORY: &str = "shared memory before a queue starts (QEMU: \
                             -object memory-backend-memfd,id=mem,size=SIZE,share=on -machine memory-backend=mem)";

/// Descriptors that came with a message.
type Fds = Vec<SharedFd>;
/// What a message led to.
type Answered = Result<Next, Violation>;

impl BackendSession {
    fn index(&self, rule: &Rule, index: u32) -> Result<VringIndex, Violation> {
        VringIndex::new(index, self.offer.queue_count())
            .ok_or_else(|| rule.violation("index", index, "below the number of queues"))
    }

    fn layout(&self) -> RingLayout {
        layout_of(self.agreed.features)
    }

    pub(super) fn on_set_vring_num(&mut self, rule: &Rule, state: VringState) -> Result<Next, Violation> {
        let index = self.index(rule, state.index)?;
        let size = QueueSize::of_any_layout(state.num)
            .ok_or_else(|| rule.violation("num", state.num, "a queue size of 1 to 32768"))?;
        self.rings[index.as_usize()].setup(rule, index.get())?.size = Some(size);
        Ok(Next::Done)
    }

    /// While a ring runs only its log may change: migration sends the same addresses again.
    pub(super) fn on_set_vring_addr(&mut self, rule: &Rule, wire: VringAddress) -> Result<Next, Violation> {
        let index = self.index(rule, wire.index)?;
        let addresses =
            VringAddresses { descriptor: wire.descriptor, driver: wire.available, device: wire.used };
        let log = wire.log_used.then_some(wire.log);
        match &mut self.rings[index.as_usize()].state {
            State::Stopped(setup) => {
                setup.addresses = Some(addresses);
                setup.log = log;
                Ok(Next::Done)
            }
            State::Started(config) if config.addresses == addresses && config.log == log => Ok(Next::Done),
            State::Started(config) if config.addresses == addresses => {
                let commit = Commit::Log(index, log);
                Ok(self.ask_done(rule, commit, |done| Event::VringLogChanged { index, log, done }))
            }
            State::Started(_) => {
                Err(rule.violation("queue", index.get(), "the same addresses while it runs"))
            }
        }
    }

    pub(super) fn on_set_vring_base(&mut self, rule: &Rule, state: VringState) -> Result<Next, Violation> {
        let index = self.index(rule, state.index)?;
        self.rings[index.as_usize()].setup(rule, index.get())?.base = Some(state.num);
        Ok(Next::Done)
    }

    /// A ring that does not run is answered too, because QEMU stops queues that were never started.
    pub(super) fn on_get_vring_base(&mut self, rule: &Rule, state: VringState) -> Result<Next, Violation> {
        let index = self.index(rule, state.index)?;
        match &self.rings[index.as_usize()].state {
            State::Started(_) => {
                let echo = Echo::Vring(state.index);
                Ok(self.ask(echo, Commit::Stop(index), |answer| Event::VringStopped { index, answer }))
            }
            State::Stopped(setup) => {
                let num = setup.base.unwrap_or_else(|| VringBase::start(self.layout()).to_wire());
                Ok(Next::Reply(ReplyBody::VringState(VringState { index: state.index, num })))
            }
        }
    }

    pub(super) fn stopped(&mut self, index: VringIndex, reply: Option<&ReplyBody>) {
        let ring = &mut self.rings[index.as_usize()];
        if let State::Started(config) = &ring.state {
            let base = match reply {
                Some(ReplyBody::VringState(state)) => state.num,
                _ => config.base.to_wire(),
            };
            self.journal.stopped_at(index.get().into(), base);
            ring.state = State::Stopped(Setup {
                size: Some(config.size),
                addresses: Some(config.addresses),
                log: config.log,
                base: Some(base),
            });
        }
    }

    /// The vhost-user text long said that a ring starts when its kick descriptor becomes readable. Implementations
    /// start it at this message: libvhost-user's `vu_set_vring_kick_exec` and DPDK's `vhost_user_set_vring_kick` both
    /// do. A driver that polls would never make the descriptor readable.
    pub(super) fn on_set_vring_kick(
        &mut self,
        rule: &Rule,
        vring: VringFd,
        fds: Vec<SharedFd>,
    ) -> Result<Next, Violation> {
        let index = self.index(rule, vring.index.into())?;
        let kick = match optional_fd(rule, vring, fds)? {
            Some(fd) => Kick::Event(fd),
            None => Kick::Poll,
        };
        if self.rings[index.as_usize()].is_started() {
            return Ok(self.ask_done(rule, Commit::Nothing, |done| Event::VringKickChanged {
                index,
                kick,
                done,
            }));
        }
        self.start(rule, index, kick)
    }

    /// Also starts a stopped ring: with in-band notifications SET_VRING_KICK may never come.
    pub(super) fn on_vring_kick(&mut self, rule: &Rule, state: VringState) -> Result<Next, Violation> {
        let index = self.index(rule, state.index)?;
        if state.num != 0 {
            return Err(rule.violation("num", state.num, "0"));
        }
        if self.rings[index.as_usize()].is_started() {
            return Ok(self.ask_done(rule, Commit::Nothing, |done| Event::VringKicked { index, done }));
        }
        self.start(rule, index, Kick::InBand)
    }

    fn start(&mut self, rule: &Rule, index: VringIndex, kick: Kick) -> Result<Next, Violation> {
        if !self.features_set {
            return Err(rule.violation("queue", index.get(), "SET_FEATURES before a queue starts"));
        }
        if self.memory.is_empty() {
            return Err(rule.violation("queue", index.get(), SHARED_MEMORY));
        }
        let layout = self.layout();
        let ring = &mut self.rings[index.as_usize()];
        let config = ring.setup(rule, index.get())?.configure(rule, index.get(), layout)?;
        let (call, err, enabled) = (ring.call.clone(), ring.err.clone(), ring.enabled);
        Ok(self.ask_done(rule, Commit::Start(index, config), |done| Event::VringStarted {
            index,
            config,
            kick,
            call,
            err,
            enabled,
            done,
        }))
    }

    pub(super) fn on_set_vring_call(&mut self, rule: &Rule, vring: VringFd, fds: Fds) -> Answered {
        self.set_notifier(
            rule,
            (vring, fds),
            |ring| &mut ring.call,
            |index, call, done| Event::VringCallChanged { index, call, done },
        )
    }

    pub(super) fn on_set_vring_err(&mut self, rule: &Rule, vring: VringFd, fds: Fds) -> Answered {
        self.set_notifier(
            rule,
            (vring, fds),
            |ring| &mut ring.err,
            |index, err, done| Event::VringErrChanged { index, err, done },
        )
    }

    /// Keeps an eventfd to the front-end, and passes it to the code that runs the ring.
    fn set_notifier(
        &mut self,
        rule: &Rule,
        (vring, fds): (VringFd, Vec<SharedFd>),
        place: impl FnOnce(&mut Ring) -> &mut Option<SharedFd>,
        event: impl FnOnce(VringIndex, Option<SharedFd>, Ticket<Outcome>) -> Event,
    ) -> Result<Next, Violation> {
        let index = self.index(rule, vring.index.into())?;
        let notifier = optional_fd(rule, vring, fds)?;
        let ring = &mut self.rings[index.as_usize()];
        place(ring).clone_from(&notifier);
        if !ring.is_started() {
            return Ok(Next::Done);
        }
        Ok(self.ask_done(rule, Commit::Nothing, |done| event(index, notifier, done)))
    }

    /// QEMU's network device enables queues before it sets features. The feature therefore counts as agreed on until
    /// SET_FEATURES leaves it out.
    pub(super) fn on_set_vring_enable(&mut self, rule: &Rule, state: VringState) -> Result<Next, Violation> {
        let index = self.index(rule, state.index)?;
        let enabled = match state.num {
            0 => false,
            1 => true,
            num => return Err(rule.violation("num", num, "0 or 1")),
        };
        if self.features_set && !self.agreed.features.contains(Features::VHOST_PROTOCOL_FEATURES) {
            return Err(rule.violation("feature bit", 30u64, "a feature that was agreed on"));
        }
        let ring = &mut self.rings[index.as_usize()];
        if !ring.is_started() {
            ring.enabled = enabled;
            return Ok(Next::Done);
        }
        let commit = Commit::Enable(index, enabled);
        Ok(self.ask_done(rule, commit, |done| Event::VringEnabled { index, enabled, done }))
    }

    /// Whether calls and errors of this ring may be sent as messages.
    pub(super) fn in_band(&self) -> bool {
        self.agreed.protocol.contains(ProtocolFeatures::INBAND_NOTIFICATIONS)
    }
}

/// The descriptor that the payload announces, and none that it does not (bit 8).
fn optional_fd(rule: &Rule, vring: VringFd, fds: Vec<SharedFd>) -> Result<Option<SharedFd>, Violation> {
    if !vring.has_fd && !fds.is_empty() {
        return Err(rule.violation("file descriptors", fds.len() as u64, "none, for bit 8 is set"));
    }
    if !vring.has_fd {
        return Ok(None);
    }
    only_fd(rule, fds).map(Some)
}
