//! `virtio-user:` the port that is a driver: the back-end at the other end of a vhost-user socket is the
//! device. A container's process, DPDK's vhost library, OVS, or another switch's `vhost-user:` port.
//!
//! ```text
//!        start
//!          |
//!          v     nobody there, or refused: again in 200 ms
//!        away <------------------------------------------------+
//!          |  connected, or accepted                           |
//!          v                                                   | a mistake, the end, or
//!       talking   Handshake: one message, one answer           | too long a silence
//!          |                                                   |
//!          v                                                   |
//!       running   queues are plugged in -----------------------+ the end, or a malformed ring
//! ```
//!
//! Each connection has memory, rings and eventfds of its own.
mod handshake;
mod options;
mod socket;
mod spec;

use std::fmt::{self, Display};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memory::{Loss, LossCause, PeerMemory, Size};
use vhost_user::session::SessionError;
use vhost_user::socket::{Connection, Listener, SocketError};
use virtio::Feature;

pub use crate::driver::Pages;
pub use options::VirtioUserOptions;

use crate::event_fd::EventFd;
use crate::rate::LogRateLimiter;
use crate::{Interest, Plugboard, Port, PortError, QueueCounters, QueueError, Side, Token};
use handshake::{Agreement, Handshake, HandshakeError, PairCounters};
use socket::dial;

const CONNECTION: Token = Token(0);
const LISTENER: Token = Token(1);
const TIMER: Token = Token(2);
const RING_ERROR: Token = Token(3);
const MEMORY: Token = Token(4);

/// From one attempt to the next.
const AGAIN: Duration = Duration::from_millis(200);

/// For the whole handshake: a back-end that maps memory and starts queues needs far less.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection and how far it has come.
enum State {
    /// Not started, or ended.
    Off,
    /// No peer.
    Away,
    /// Some of it is still to be agreed on.
    Talking(Connection, Box<Handshake>),
    /// Queues run.
    Running {
        connection: Connection,
        agreement: Agreement,
        /// The back-end's word that a queue is malformed: watched, and closed with the connection.
        _error: EventFd,
        memory: Arc<PeerMemory>,
    },
}

/// Why a connection is closed.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("cannot wait for the socket: {0}; raise the limit of open files (ulimit -n) if it is low")]
    Watch(std::io::Error),
    #[error("the back-end did not answer within {} s", PATIENCE.as_secs())]
    Silence,
    #[error("the back-end said something unasked (message {0})")]
    Unasked(u32),
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
    /// Pairs that are plugged in.
    plugged: u16,
    /// What the connection is watched for.
    interest: Interest,
    /// What was said last: the same is not said again every 200 ms.
    said: String,
    /// What a back-end may have said about itself, over all its connections.
    log: LogRateLimiter,
}

impl VirtioUser {
    /// A port that is yet to be started.
    pub fn new(options: VirtioUserOptions) -> Result<Self, PortError> {
        options.check()?;
        let counters = (0..options.queue_pairs).map(|_| PairCounters::default()).collect();
        Ok(VirtioUser {
            options: Arc::new(options),
            counters,
            listener: None,
            state: State::Off,
            plugged: 0,
            interest: Interest::Readable,
            said: String::new(),
            log: LogRateLimiter::new(),
        })
    }

    fn say(&mut self, board: &mut dyn Plugboard, what: impl Display) {
        let text = format!("virtio-user {}: {what}", self.options.path.display());
        if text != self.said {
            if let Some(line) = self.log.admit(Instant::now(), &text) {
                board.say(&line);
            }
            self.said = text;
        }
    }

    /// Looks for a peer: connects, or waits for one that connects.
    fn seek(&mut self, board: &mut dyn Plugboard) -> Result<(), PortError> {
        self.state = State::Away;
        let Some(listener) = &self.listener else {
            self.try_to_connect(board);
            return Ok(());
        };
        board.watch(LISTENER, listener.as_fd(), Interest::Readable).map_err(|error| self.unwatched(error))
    }

    /// The same for a port that runs: what the system refuses now it may allow later.
    fn seek_or_retry(&mut self, board: &mut dyn Plugboard) {
        if let Err(error) = self.seek(board) {
            self.say(board, error);
            board.after(TIMER, AGAIN);
        }
    }

    fn unwatched(&self, error: std::io::Error) -> PortError {
        let what = format!("virtio-user {}: wait for the socket", self.options.path.display());
        PortError::new(what, error, "raise the limit of open files (ulimit -n) if it is low")
    }

    fn try_to_connect(&mut self, board: &mut dyn Plugboard) {
        match dial(&self.options.path) {
            Ok(connection) => self.talk(connection, board),
            Err(error) => {
                let ms = AGAIN.as_millis();
                self.say(
                    board,
                    format_args!(
                        "cannot connect: {error}; start the back-end, it is looked for every {ms} ms"
                    ),
                );
                board.after(TIMER, AGAIN);
            }
        }
    }

    fn accept(&mut self, board: &mut dyn Plugboard) {
        if !matches!(self.state, State::Away) {
            return;
        }
        match self.listener.as_ref().map(Listener::try_accept) {
            Some(Ok(Some(connection))) => {
                // The next one waits until this one is gone.
                board.unwatch(LISTENER);
                self.talk(connection, board);
            }
            Some(Err(error)) => {
                // It would come again at once.
                board.unwatch(LISTENER);
                self.say(board, error);
                board.after(TIMER, AGAIN);
            }
            Some(Ok(None)) | None => {}
        }
    }

    fn talk(&mut self, connection: Connection, board: &mut dyn Plugboard) {
        if let Err(error) = board.watch(CONNECTION, connection.as_fd(), Interest::Readable) {
            let error = self.unwatched(error);
            self.say(board, error);
            board.after(TIMER, AGAIN);
            return;
        }
        self.interest = Interest::Readable;
        board.after(TIMER, PATIENCE);
        let handshake = Handshake::new(Arc::clone(&self.options), Arc::clone(&self.counters));
        self.state = State::Talking(connection, Box::new(handshake));
        self.go_on(board);
    }

    /// Says and hears what can be said and heard now.
    fn go_on(&mut self, board: &mut dyn Plugboard) {
        let outcome = match &mut self.state {
            State::Talking(connection, handshake) => converse(connection, handshake),
            State::Running { connection, .. } => listen(connection).map(|()| true),
            State::Off | State::Away => return,
        };
        match outcome.and_then(|all_sent| self.watch_for(all_sent, board)) {
            Err(why) => self.lose(why, board),
            Ok(true) if matches!(&self.state, State::Talking(_, handshake) if handshake.is_done()) => {
                self.run(board);
            }
            Ok(_) => {}
        }
    }

    /// Watches for room to write too while something waits to be sent.
    fn watch_for(&mut self, all_sent: bool, board: &mut dyn Plugboard) -> Result<bool, Lost> {
        let interest = if all_sent { Interest::Readable } else { Interest::ReadableOrWritable };
        if let State::Talking(connection, _) = &self.state
            && interest != self.interest
        {
            board.watch(CONNECTION, connection.as_fd(), interest).map_err(Lost::Watch)?;
            self.interest = interest;
        }
        Ok(all_sent)
    }

    /// The handshake is done: frames may pass.
    fn run(&mut self, board: &mut dyn Plugboard) {
        let State::Talking(connection, handshake) = std::mem::replace(&mut self.state, State::Away) else {
            return;
        };
        let Some(running) = handshake.finish() else { return };
        let (agreement, error) = (running.agreement, running.error);
        let memory = running.memory;
        let watched = board
            .watch(RING_ERROR, error.as_fd(), Interest::Readable)
            .and_then(|()| board.watch(MEMORY, memory.as_fd(), Interest::Readable));
        self.state = State::Running { connection, agreement, _error: error, memory };
        if let Err(error) = watched {
            return self.lose(Lost::Watch(error), board);
        }
        for (pair, queues) in (0..).zip(running.pairs) {
            board.plug_source(pair, Box::new(queues.receive));
            board.plug_sink(pair, Box::new(queues.transmit));
            self.plugged = pair + 1;
        }
        self.say(board, agreement);
    }

    /// Closes the connection and begins anew after a while.
    fn lose(&mut self, why: Lost, board: &mut dyn Plugboard) {
        self.let_go(board);
        self.say(board, why);
        board.after(TIMER, AGAIN);
    }

    /// Unplugs everything, then closes the connection, whose peer sees all of it end at once.
    fn let_go(&mut self, board: &mut dyn Plugboard) {
        for pair in 0..std::mem::take(&mut self.plugged) {
            board.unplug_source(pair);
            board.unplug_sink(pair);
        }
        board.unwatch(CONNECTION);
        board.unwatch(RING_ERROR);
        board.unwatch(MEMORY);
        self.state = State::Away;
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
fn converse(connection: &mut Connection, handshake: &mut Handshake) -> Result<bool, Lost> {
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

/// Nothing is asked while queues run, so nothing may come but the end.
fn listen(connection: &mut Connection) -> Result<(), Lost> {
    match connection.try_receive()? {
        Some(message) => Err(Lost::Unasked(message.header.id)),
        None => Ok(()),
    }
}

impl Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layout = if self.features.has(Feature::RING_PACKED) { "packed" } else { "split" };
        let pairs = if self.pairs == 1 { "pair" } else { "pairs" };
        write!(f, "connected, {} {layout} queue {pairs}, {}", self.pairs, self.features)
    }
}

impl Port for VirtioUser {
    fn queue_pairs(&self) -> u16 {
        self.options.queue_pairs
    }

    fn describe(&self) -> String {
        let state: &dyn Display = match &self.state {
            State::Off => &"not started",
            State::Away if self.options.server => &"waiting for a back-end",
            State::Away => &"no back-end yet",
            State::Talking(..) => &"connected, not yet agreed",
            State::Running { agreement, .. } => agreement,
        };
        format!("virtio-user {}: {state}", self.options.path.display())
    }

    fn counters(&self, pair: u16, side: Side) -> Option<Arc<QueueCounters>> {
        let (source, sink) = self.counters.get(usize::from(pair))?;
        Some(Arc::clone(match side {
            Side::FromGuest => source,
            Side::ToGuest => sink,
        }))
    }

    fn start(&mut self, board: &mut dyn Plugboard) -> Result<(), PortError> {
        if self.options.server {
            let listener = Listener::bind(&self.options.path).map_err(|error| {
                let what = format!("virtio-user {}: listen", self.options.path.display());
                PortError::new(what, error, "choose a path in a folder that you may write to")
            })?;
            self.listener = Some(listener);
        }
        self.seek(board)
    }

    fn ready(&mut self, token: Token, board: &mut dyn Plugboard) -> Result<(), PortError> {
        match (token, &self.state) {
            (CONNECTION, _) => self.go_on(board),
            (LISTENER, _) => self.accept(board),
            (RING_ERROR, State::Running { .. }) => self.lose(Lost::Malformed, board),
            (MEMORY, State::Running { memory, .. }) => {
                if let Some(loss) = memory.take_loss() {
                    self.lose(Lost::Memory(loss), board);
                }
            }
            (TIMER, State::Away) => self.seek_or_retry(board),
            (TIMER, State::Talking(..)) => self.lose(Lost::Silence, board),
            // The time of a handshake that came to its end.
            _ => {}
        }
        Ok(())
    }

    fn stopped(&mut self, pair: u16, side: Side, why: QueueError, board: &mut dyn Plugboard) {
        if matches!(self.state, State::Running { .. }) {
            let side = match side {
                Side::FromGuest => "receiveq",
                Side::ToGuest => "transmitq",
            };
            self.lose(Lost::Queue { pair, side, why }, board);
        }
    }

    fn end(&mut self, board: &mut dyn Plugboard) {
        self.let_go(board);
        board.unwatch(LISTENER);
        self.listener = None;
        self.state = State::Off;
    }
}
