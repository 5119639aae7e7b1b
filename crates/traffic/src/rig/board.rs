//! A test rig's ports: one thread runs them, and nothing is forwarded.
use std::time::{Duration, Instant};

use frame::{QueueError, Side, Sink, Source};
use port::{Context, Interest, Port, PortContext, PortError, SharedFd, Token, Watches};
use virtio::net::MacAddress;

use super::End;
use super::end::{place, take};
use crate::frames::StreamError;

/// Why a rig cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RigError {
    /// A port failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// No peer connected in time.
    #[error(
        "{port}: no peer was ready within {waited_s} s ({state}); start the switch first, and check the path"
    )]
    NotReady {
        /// The port's name.
        port: String,
        /// The port's last message, or its description.
        state: String,
        /// Seconds waited.
        waited_s: u64,
    },
    /// A queue that ran has stopped.
    #[error("{port}: {why}")]
    Stopped {
        /// The port's name.
        port: String,
        /// The queue's error.
        why: String,
    },
    /// The frames to send cannot be made.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// [`TestRig::stop_when`] says that the user wants to end.
    #[error("interrupted")]
    Interrupted,
    /// The system refused a call.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system answered.
        source: std::io::Error,
    },
}

/// The descriptors that one port watches, and the queues that it has attached.
#[derive(Default)]
struct Wiring {
    end: End,
    watches: Watches,
    said: Vec<String>,
}

impl Context for Wiring {
    fn watch(&mut self, token: Token, fd: &SharedFd, interest: Interest) -> std::io::Result<()> {
        self.watches.watch(token, fd, interest)
    }

    fn unwatch(&mut self, token: Token) {
        self.watches.unwatch(token);
    }

    fn after(&mut self, token: Token, time: Duration) {
        self.watches.after(token, time);
    }

    fn log(&mut self, message: &dyn std::fmt::Display) {
        self.said.push(message.to_string());
    }
}

impl PortContext for Wiring {
    fn attach_source(&mut self, pair: u16, mut source: Box<dyn Source>) {
        source.wake();
        place(&mut self.end.sources, pair, source);
    }

    fn attach_sink(&mut self, pair: u16, sink: Box<dyn Sink>) {
        place(&mut self.end.sinks, pair, sink);
    }

    fn detach_source(&mut self, pair: u16) -> Option<Box<dyn Source>> {
        take(&mut self.end.sources, pair)
    }

    fn detach_sink(&mut self, pair: u16) -> Option<Box<dyn Sink>> {
        take(&mut self.end.sinks, pair)
    }

    fn announce(&mut self, _: MacAddress) {}
}

struct Plugged {
    name: String,
    port: Box<dyn Port>,
    wiring: Wiring,
}

/// Ports for a generator and a receiver, run by the calling thread.
pub struct TestRig {
    ports: Vec<Plugged>,
    is_interrupted: fn() -> bool,
}

impl Default for TestRig {
    fn default() -> Self {
        TestRig { ports: Vec::new(), is_interrupted: || false }
    }
}

impl TestRig {
    /// A rig without ports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes waits and trials end with [`RigError::Interrupted`] once `is_interrupted` returns true. It is called
    /// whenever the ports' control sides are served: ten times a second while frames flow.
    pub fn stop_when(&mut self, is_interrupted: fn() -> bool) {
        self.is_interrupted = is_interrupted;
    }

    /// Starts a port and returns its number, which is that of its [`End`].
    ///
    /// # Errors
    /// The port cannot be started: its socket or interface cannot be opened.
    pub fn attach(&mut self, name: &str, mut port: Box<dyn Port>) -> Result<usize, RigError> {
        let mut wiring = Wiring::default();
        port.start(&mut wiring)?;
        self.ports.push(Plugged { name: name.to_owned(), port, wiring });
        Ok(self.ports.len() - 1)
    }

    /// The queues of a port.
    pub fn end(&mut self, number: usize) -> &mut End {
        &mut self.ports[number].wiring.end
    }

    /// The queues of two different ports.
    pub fn two_ends(&mut self, one: usize, other: usize) -> Option<(&mut End, &mut End)> {
        let [one, other] = self.ports.get_disjoint_mut([one, other]).ok()?;
        Some((&mut one.wiring.end, &mut other.wiring.end))
    }

    /// The description of a port.
    pub fn describe(&self, number: usize) -> String {
        self.ports[number].port.describe()
    }

    /// The port itself, for its counters.
    pub fn port(&self, number: usize) -> &dyn Port {
        &*self.ports[number].port
    }

    /// Waits until all queue pairs of all ports run.
    ///
    /// # Errors
    /// A port has queue pairs that do not run after `patience`; `poll` fails; a port's control side fails; or the run
    /// was interrupted.
    pub fn wait_until_up(&mut self, patience: Duration) -> Result<(), RigError> {
        let deadline = Instant::now() + patience;
        loop {
            let down = self.ports.iter().find(|p| !p.wiring.end.is_up(p.port.queue_pairs()));
            let Some(down) = down else { return Ok(()) };
            if Instant::now() >= deadline {
                let last = down.wiring.said.last().cloned();
                return Err(RigError::NotReady {
                    port: down.name.clone(),
                    state: last.unwrap_or_else(|| down.port.describe()),
                    waited_s: patience.as_secs(),
                });
            }
            self.attend(Duration::from_millis(20))?;
        }
    }

    /// Serves the control sides of the ports: waits up to `patience` for one of their descriptors to be ready.
    ///
    /// # Errors
    /// The run was interrupted, `poll` fails, or a port's control side fails.
    pub fn attend(&mut self, patience: Duration) -> Result<(), RigError> {
        if (self.is_interrupted)() {
            return Err(RigError::Interrupted);
        }
        let watches = self.ports.iter_mut().map(|plugged| &mut plugged.wiring.watches);
        let ready =
            Watches::wait(watches, patience).map_err(|source| RigError::System { what: "poll", source })?;
        for (number, token) in ready {
            let Plugged { port, wiring, .. } = &mut self.ports[number];
            port.ready(token, wiring)?;
        }
        Ok(())
    }

    /// Tells a port that one of its queues has stopped by itself.
    pub fn stopped(&mut self, number: usize, pair: u16, side: Side, why: QueueError) -> RigError {
        let Plugged { name, port, wiring } = &mut self.ports[number];
        let text = why.to_string();
        match side {
            Side::FromGuest => drop(wiring.detach_source(pair)),
            Side::ToGuest => drop(wiring.detach_sink(pair)),
        }
        port.stopped(pair, side, why, wiring);
        RigError::Stopped { port: name.clone(), why: text }
    }
}

impl Drop for TestRig {
    fn drop(&mut self) {
        for Plugged { port, wiring, .. } in &mut self.ports {
            port.end(wiring);
        }
    }
}
