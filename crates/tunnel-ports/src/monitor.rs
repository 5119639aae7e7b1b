//! The session with the other end of a tunnel (BFD).
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use frame::{FrameBatch, Sink};
use port::{Interest, PortContext, Token};
use tunnels::Mac;
use tunnels::bfd::{Session, State, Timing};

use crate::encapsulator::Encapsulator;
use crate::inbox::Inbox;

/// The other end has sent something.
const WAKE: Token = Token(1);
/// The session has something to do, or received packets may be looked at again.
const TICK: Token = Token(2);
/// Between two looks of the control side at received packets. A session with shorter intervals has lost nothing by then: up
/// to [`MAX_HEARD`](crate::inbox::MAX_HEARD) packets wait.
const PAUSE: Duration = Duration::from_millis(5);
/// Between two log lines: the other end chooses how often the state changes.
const LOG_PAUSE: Duration = Duration::from_secs(1);
/// The sender in the Ethernet header of control packets: locally administered, as their addresses of IPv4 are.
const SOURCE: Mac = [2, 0x23, 0x20, 0, 0, 2];

/// The control side of a session.
pub(crate) struct Monitor {
    session: Session,
    inbox: Arc<Inbox>,
    sink: Encapsulator,
    begin: Instant,
    /// When received packets were last looked at.
    looked: Option<Instant>,
    /// When the session's state was last logged, and the state.
    logged: Option<(Instant, State)>,
}

impl Monitor {
    /// A session, which sends through this sink. The first packet is sent by [`Monitor::run`].
    pub fn new(timing: Timing, inbox: Arc<Inbox>, sink: Encapsulator) -> Self {
        // The keys of a hasher are random.
        let seed = RandomState::new().hash_one("the number of a session");
        let session = Session::new(timing, seed, Duration::ZERO);
        Monitor { session, inbox, sink, begin: Instant::now(), looked: None, logged: None }
    }

    /// Starts to wait for packets.
    ///
    /// # Errors
    /// The descriptor cannot be watched.
    pub fn start(&mut self, context: &mut dyn PortContext) -> io::Result<()> {
        context.watch(WAKE, self.inbox.waker(), Interest::Readable)?;
        self.run(context);
        Ok(())
    }

    /// Stops waiting for packets.
    pub fn end(self, context: &mut dyn PortContext) {
        context.unwatch(WAKE);
        context.unwatch(TICK);
    }

    /// Receives, sends, and says when to be called again.
    pub fn run(&mut self, context: &mut dyn PortContext) {
        self.inbox.calm();
        let is_early = self.looked.is_some_and(|at| at.elapsed() < PAUSE);
        let now = self.begin.elapsed();
        if !is_early {
            let packets = self.inbox.take();
            if !packets.is_empty() {
                self.looked = Some(Instant::now());
            }
            packets.iter().for_each(|packet| self.session.receive(packet, now));
            self.send(now);
            self.log(context);
        }
        let next = self.session.deadline().saturating_sub(self.begin.elapsed());
        context.after(TICK, if is_early { PAUSE } else { next.max(Duration::from_millis(1)) });
    }

    /// Logs a state that is not logged yet.
    fn log(&mut self, context: &mut dyn PortContext) {
        let state = self.session.state();
        if self.logged.is_none_or(|(at, logged)| logged != state && at.elapsed() >= LOG_PAUSE) {
            self.logged = Some((Instant::now(), state));
            context.log(&format_args!("BFD session {}", state.name()));
        }
    }

    fn send(&mut self, now: Duration) {
        while let Some(packet) = self.session.advance(now) {
            // A packet that cannot be sent is as one that is lost: another one follows.
            if let Ok(batch) = FrameBatch::of_frame(&packet.frame(SOURCE)) {
                let _ = self.sink.accept(&batch, &[0]);
            }
        }
    }

    /// Whether frames of the tunnel arrive at the other end, as far as the session knows.
    pub fn forwards(&self) -> bool {
        self.session.forwards()
    }

    /// The values of Open vSwitch's column `bfd_status`.
    pub fn status(&self) -> BTreeMap<&'static str, String> {
        self.session.status()
    }
}
