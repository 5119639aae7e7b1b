//! `virtio-user:` — the port is a driver; the back-end at the other end of a vhost-user socket is the device. The
//! back-end may be a container's process, DPDK's vhost library, OVS, or another switch's `vhost-user:` port.
//!
//! ```text
//!        start
//!          |
//!          v     no server, or refused: again in 200 ms
//!        away <------------------------------------------------+
//!          |  connected, or accepted                           |
//!          v                                                   | a mistake, the end, or
//!       handshaking   Handshake: one message, one answer           | too long a silence
//!          |                                                   |
//!          v                                                   |
//!       running   queues are attached -----------------------+ the end, or a malformed ring
//! ```
//!
//! Each connection has memory, rings and eventfds of its own.
mod handshake;
mod options;
mod spec;

use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory::{Loss, LossCause, PeerMemory, Size};
use vhost_device::EventFd;
use vhost_device::descriptors::DescriptorGuard;
use vhost_device::rate::LogRateLimiter;
use vhost_device::unix_socket::connect_now;
use vhost_user::SharedFd;
use vhost_user::session::SessionError;
use vhost_user::socket::{Connection, Listener, SocketError};
use virtio::{Features, NetFeatures};

pub use net_queues::driver::Pages;
pub use options::VirtioUserOptions;

use frame::{PairCounters, QueueCounters, QueueError, Side};

use crate::{Interest, Port, PortContext, PortError, Token};
use handshake::{Agreement, Handshake, HandshakeError};
use net_queues::driver::LentPages;

const CONNECTION: Token = Token(0);
const LISTENER: Token = Token(1);
const TIMER: Token = Token(2);
const RING_ERROR: Token = Token(3);
const MEMORY: Token = Token(4);

/// The time from one attempt to the next.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

/// For the whole handshake: a back-end that maps memory and starts queues needs far less.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection and how far it has come.
enum State {
    /// The port is not started, or has ended.
    Off,
    /// No peer.
    Disconnected,
    /// The handshake is in progress.
    Handshaking(Connection, Box<Handshake>),
    /// Queues run.
    Running {
        connection: Connection,
        agreement: Agreement,
        /// The back-end's notification that a queue is malformed; watched, and closed with the connection.
        _error: EventFd,
        memory: Arc<PeerMemory>,
        _lent: LentPages,
    },
}

/// Why a connection is closed.
#[derive(Debug, thiserror::Error)]
enum CloseReason {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("cannot wait for the socket: {0}; raise the limit of open files (ulimit -n) if it is low")]
    Watch(std::io::Error),
    #[error("the back-end did not answer within {} s", HANDSHAKE_TIMEOUT.as_secs())]
    Timeout,
    #[error("the back-end said something unasked (message {0})")]
    Unexpected(u32),
    #[error("{}", lost_memory(.0))]
    Memory(Loss),
    #[error("the back-end finds a queue malformed")]
    Malformed,
    #[error("{side} of pair {pair} stopped: {why}")]
    Queue { pair: u16, side: &'static str, why: QueueError },
}

/// The port.
pub struct VirtioUser {
    options: Arc<VirtioUserOptions>,
    counters: Arc<[PairCounters]>,
    listener: Option<Listener>,
    state: State,
    /// The number of attached pairs.
    attached: u16,
    /// The events for which the connection is watched.
    interest: Interest,
    /// The last log line, so that the same line is not logged again every 200 ms.
    last_logged: String,
    /// Limits the log lines that a back-end may cause, over all its connections.
    log: LogRateLimiter,
    guard: Arc<DescriptorGuard>,
}

impl VirtioUser {
    /// Checks the options. The port opens nothing before it is started.
    ///
    /// # Errors
    /// The path is too long for a socket; or the number of queue pairs, the queue size, the number or size of
    /// buffers, or the MTU is outside its range.
    pub fn new(options: VirtioUserOptions) -> Result<Self, PortError> {
        options.check()?;
        let counters = (0..options.queue_pairs).map(|_| PairCounters::default()).collect();
        Ok(VirtioUser {
            options: Arc::new(options),
            counters,
            listener: None,
            state: State::Off,
            attached: 0,
            interest: Interest::Readable,
            last_logged: String::new(),
            log: LogRateLimiter::new(),
            guard: Arc::default(),
        })
    }

    fn log(&mut self, context: &mut dyn PortContext, what: impl Display) {
        let text = format!("virtio-user {}: {what}", self.options.path.display());
        if text != self.last_logged {
            if let Some(line) = self.log.admit(Instant::now(), &text) {
                context.log(&line);
            }
            self.last_logged = text;
        }
    }

    /// Searches for a peer: connects, or waits for one that connects.
    fn find_peer(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        self.state = State::Disconnected;
        let Some(listener) = &self.listener else {
            self.try_to_connect(context);
            return Ok(());
        };
        context.watch(LISTENER, listener.socket(), Interest::Readable).map_err(|error| self.unwatched(error))
    }

    /// As `find_peer`, for a port that runs: tries again later if the system refuses.
    fn find_peer_or_retry(&mut self, context: &mut dyn PortContext) {
        if let Err(error) = self.find_peer(context) {
            self.log(context, error);
            context.after(TIMER, RETRY_INTERVAL);
        }
    }

    fn unwatched(&self, error: std::io::Error) -> PortError {
        let what = format!("virtio-user {}: wait for the socket", self.options.path.display());
        PortError::new(what, error, "raise the limit of open files (ulimit -n) if it is low")
    }

    fn try_to_connect(&mut self, context: &mut dyn PortContext) {
        match connect_now(&self.options.path, &self.guard) {
            Ok(connection) => self.begin_handshake(connection, context),
            Err(error) => {
                let ms = RETRY_INTERVAL.as_millis();
                self.log(
                    context,
                    format_args!(
                        "cannot connect: {error}; start the back-end, it is looked for every {ms} ms"
                    ),
                );
                context.after(TIMER, RETRY_INTERVAL);
            }
        }
    }

    fn accept(&mut self, context: &mut dyn PortContext) {
        if !matches!(self.state, State::Disconnected) {
            return;
        }
        match self.listener.as_ref().map(Listener::try_accept) {
            Some(Ok(Some(connection))) => {
                // The next one waits until this one is gone.
                context.unwatch(LISTENER);
                self.begin_handshake(connection, context);
            }
            Some(Err(error)) => {
                // The event would come again at once.
                context.unwatch(LISTENER);
                self.log(context, error);
                context.after(TIMER, RETRY_INTERVAL);
            }
            Some(Ok(None)) | None => {}
        }
    }

    fn begin_handshake(&mut self, connection: Connection, context: &mut dyn PortContext) {
        if let Err(error) = context.watch(CONNECTION, connection.socket(), Interest::Readable) {
            let error = self.unwatched(error);
            self.log(context, error);
            context.after(TIMER, RETRY_INTERVAL);
            return;
        }
        self.interest = Interest::Readable;
        context.after(TIMER, HANDSHAKE_TIMEOUT);
        let handshake = Handshake::new(Arc::clone(&self.options), Arc::clone(&self.counters));
        self.state = State::Handshaking(connection, Box::new(handshake));
        self.process(context);
    }

    /// Says and hears what can be said and heard now.
    fn process(&mut self, context: &mut dyn PortContext) {
        let outcome = match &mut self.state {
            State::Handshaking(connection, handshake) => exchange(connection, handshake),
            State::Running { connection, .. } => expect_nothing(connection).map(|()| true),
            State::Off | State::Disconnected => return,
        };
        match outcome.and_then(|all_sent| self.watch_for(all_sent, context)) {
            Err(why) => self.close(why, context),
            Ok(true) if matches!(&self.state, State::Handshaking(_, handshake) if handshake.is_done()) => {
                self.run(context);
            }
            Ok(_) => {}
        }
    }

    /// Watches for room to write too while something waits to be sent.
    fn watch_for(&mut self, all_sent: bool, context: &mut dyn PortContext) -> Result<bool, CloseReason> {
        let interest = if all_sent { Interest::Readable } else { Interest::ReadableOrWritable };
        if let State::Handshaking(connection, _) = &self.state
            && interest != self.interest
        {
            context.watch(CONNECTION, connection.socket(), interest).map_err(CloseReason::Watch)?;
            self.interest = interest;
        }
        Ok(all_sent)
    }

    /// The handshake is done: frames may pass.
    fn run(&mut self, context: &mut dyn PortContext) {
        let State::Handshaking(connection, handshake) =
            std::mem::replace(&mut self.state, State::Disconnected)
        else {
            return;
        };
        let Some(running) = handshake.finish() else { return };
        let (agreement, error) = (running.agreement, running.error);
        let (memory, _lent) = (running.memory, running.lent);
        let watched = context
            .watch(RING_ERROR, error.shared(), Interest::Readable)
            .and_then(|()| context.watch(MEMORY, &SharedFd::new(Arc::clone(&memory)), Interest::Readable));
        self.state = State::Running { connection, agreement, _error: error, memory, _lent };
        if let Err(error) = watched {
            return self.close(CloseReason::Watch(error), context);
        }
        for (pair, queues) in (0..).zip(running.pairs) {
            context.attach_source(pair, Box::new(queues.receive));
            context.attach_sink(pair, Box::new(queues.transmit));
            self.attached = pair + 1;
        }
        self.log(context, agreement);
    }

    /// Closes the connection and begins anew after a while.
    fn close(&mut self, why: CloseReason, context: &mut dyn PortContext) {
        self.detach(context);
        self.log(context, why);
        context.after(TIMER, RETRY_INTERVAL);
    }

    /// Detaches everything, then closes the connection, whose peer sees all of it end at once.
    fn detach(&mut self, context: &mut dyn PortContext) {
        for pair in 0..std::mem::take(&mut self.attached) {
            context.detach_source(pair);
            context.detach_sink(pair);
        }
        context.unwatch(CONNECTION);
        context.unwatch(RING_ERROR);
        context.unwatch(MEMORY);
        self.state = State::Disconnected;
    }
}

fn lost_memory(loss: &Loss) -> String {
    let size = Size(loss.bytes);
    match loss.cause {
        LossCause::Shortened => format!(
            "the back-end took pages away from the {size} that it shares, and the system has no others; give the \
             pool more huge pages, or take small ones (pages=small), and look at what the back-end does"
        ),
        LossCause::HardwareError => format!(
            "this machine's memory has failed under the {size} that the back-end shares; see the kernel's log for \
             the failed memory"
        ),
    }
}

/// Exchanges messages as long as there are any. True if nothing waits to be sent.
fn exchange(connection: &mut Connection, handshake: &mut Handshake) -> Result<bool, CloseReason> {
    loop {
        let mut all_sent = connection.flush()?;
        while all_sent && let Some(message) = handshake.next_message()? {
            all_sent = connection.try_send(message)?;
        }
        match connection.try_receive()? {
            Some(message) => handshake.receive(message)?,
            None => return Ok(all_sent),
        }
    }
}

/// While queues run, no request is pending, so nothing may arrive except the end of the connection.
fn expect_nothing(connection: &mut Connection) -> Result<(), CloseReason> {
    match connection.try_receive()? {
        Some(message) => Err(CloseReason::Unexpected(message.header.id)),
        None => Ok(()),
    }
}

impl Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = if self.features.contains(Features::RING_PACKED) { "packed" } else { "split" };
        let pairs = if self.pairs == 1 { "pair" } else { "pairs" };
        write!(f, "connected, {} {layout} queue {pairs}, {}", self.pairs, NetFeatures(self.features))
    }
}

impl Port for VirtioUser {
    fn queue_pairs(&self) -> u16 {
        self.options.queue_pairs
    }

    fn describe(&self) -> String {
        let state: &dyn Display = match &self.state {
            State::Off => &"not started",
            State::Disconnected if self.options.server => &"waiting for a back-end",
            State::Disconnected => &"no back-end yet",
            State::Handshaking(..) => &"connected, not yet agreed",
            State::Running { agreement, .. } => agreement,
        };
        format!("virtio-user {}: {state}", self.options.path.display())
    }

    fn features(&self) -> Option<Features> {
        match &self.state {
            State::Running { agreement, .. } => Some(agreement.features),
            _ => None,
        }
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        Some(Arc::clone(self.counters.get(usize::from(pair))?.of(side)))
    }

    fn start(&mut self, context: &mut dyn PortContext) -> Result<(), PortError> {
        if self.options.server {
            let listener = Listener::bind_with(&self.options.path, Some(Arc::clone(&self.guard) as _))
                .map_err(|error| {
                    let what = format!("virtio-user {}: listen", self.options.path.display());
                    PortError::new(what, error, "choose a path in a folder that you may write to")
                })?;
            self.listener = Some(listener);
        }
        self.find_peer(context)
    }

    fn ready(&mut self, token: Token, context: &mut dyn PortContext) -> Result<(), PortError> {
        match (token, &self.state) {
            (CONNECTION, _) => self.process(context),
            (LISTENER, _) => self.accept(context),
            (RING_ERROR, State::Running { .. }) => self.close(CloseReason::Malformed, context),
            (MEMORY, State::Running { memory, .. }) => {
                if let Some(loss) = memory.take_loss() {
                    self.close(CloseReason::Memory(loss), context);
                }
            }
            (TIMER, State::Disconnected) => self.find_peer_or_retry(context),
            (TIMER, State::Handshaking(..)) => self.close(CloseReason::Timeout, context),
            // The time of a handshake that came to its end.
            _ => {}
        }
        self.guard.check(&format!("virtio-user {}", self.options.path.display()))
    }

    fn stopped(&mut self, pair: u16, side: Side, why: QueueError, context: &mut dyn PortContext) {
        if matches!(self.state, State::Running { .. }) {
            let side = match side {
                Side::FromGuest => "receiveq",
                Side::ToGuest => "transmitq",
            };
            self.close(CloseReason::Queue { pair, side, why }, context);
        }
    }

    fn end(&mut self, context: &mut dyn PortContext) {
        self.detach(context);
        context.unwatch(LISTENER);
        self.listener = None;
        self.state = State::Off;
    }
}
