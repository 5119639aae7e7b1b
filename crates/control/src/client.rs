//! A client of a switch's control socket.
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::Value;

use crate::port_description::PortDescription;
use crate::protocol::{Add, Answer, Applied, Call, Event, FlowsChange, Outcome, Request, VERSION};

/// A switch that works answers within this time.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of ports in one [`Request::Change`], about. A request has at most 64 KiB, and the switch serves nothing else
/// while it carries one out.
const CHANGE_BYTES: usize = 8 << 10;

/// Bytes of the longest text of flows in a request itself. JSON may make it twice as long.
const INLINE_BYTES: usize = 24 << 10;

/// The time between two checks for an interrupt.
const TICK: Duration = Duration::from_millis(100);

/// A memory file with this text, sealed against changes.
fn sealed(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("flows", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// Why a request could not be sent, or had no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No switch listens at the path.
    #[error("connecting to {path}; is it what a running switch was given as --control?: {source}")]
    Connect {
        /// The control socket.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The request could not be sent, or the answer not be received.
    #[error("{action} the switch at {path}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The control socket.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The switch ended the connection.
    #[error("the switch at {0} has closed the connection; see what it logs")]
    Closed(PathBuf),
    /// No answer came in time.
    #[error("the switch at {path} has not answered for {} s; is it stopped?", limit.as_secs())]
    Silent {
        /// The control socket.
        path: PathBuf,
        /// For how long the client waited.
        limit: Duration,
    },
    /// The answer is not of this protocol.
    #[error("the switch's answer is not understood: {0}")]
    NotUnderstood(serde_json::Error),
    /// The switch has another version of the protocol.
    #[error("the switch speaks version {switch}, this program {VERSION}; use the switch's own")]
    Version {
        /// The version of the switch.
        switch: u32,
    },
    /// The switch answered with an error.
    #[error("{0}")]
    Refused(String),
    /// The function of [`Client::end_waiting_if`] said so.
    #[error("interrupted")]
    Interrupted,
}

/// A connection to a running switch.
pub struct Client {
    path: PathBuf,
    socket: BufReader<UnixStream>,
    line: Vec<u8>,
    is_interrupted: fn() -> bool,
}

impl Client {
    /// Connects to the control socket of a running switch.
    ///
    /// # Errors
    /// No switch listens there, or this user may not connect.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let open = || {
            let socket = UnixStream::connect(path)?;
            socket.set_read_timeout(Some(TICK))?;
            socket.set_write_timeout(Some(PATIENCE))?;
            Ok(socket)
        };
        let socket = open().map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        Ok(Client {
            path: path.to_owned(),
            socket: BufReader::new(socket),
            line: Vec::new(),
            is_interrupted: || false,
        })
    }

    /// Ends waits with [`ClientError::Interrupted`] once `is_interrupted` returns true. The client calls it every
    /// 100 ms.
    pub fn end_waiting_if(&mut self, is_interrupted: fn() -> bool) {
        self.is_interrupted = is_interrupted;
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// The switch refused, did not answer within 10 s, or the connection is over.
    pub fn ask(&mut self, request: Request) -> Result<Value, ClientError> {
        self.send(request, None)?;
        self.answer(Some(PATIENCE))
    }

    /// Adds a port.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn add(&mut self, name: &str, port: PortDescription) -> Result<(), ClientError> {
        self.ask(Request::Add(Add::Described { name: name.to_owned(), port })).map(drop)
    }

    /// Makes the switch have these ports, and no others but those of its configuration file. Wires stay as they are.
    ///
    /// # Errors
    /// As [`Client::ask`]. Failures of single ports are no error here: the answer lists them.
    pub fn apply(&mut self, ports: BTreeMap<String, PortDescription>) -> Result<Applied, ClientError> {
        self.ask_to_apply(Request::Apply { ports, wires: None })
    }

    /// As [`Client::apply`], and makes the wires between the ports exactly these.
    ///
    /// # Errors
    /// As [`Client::apply`].
    pub fn apply_with_wires(
        &mut self,
        ports: BTreeMap<String, PortDescription>,
        wires: Vec<(String, String)>,
    ) -> Result<Applied, ClientError> {
        self.ask_to_apply(Request::Apply { ports, wires: Some(wires) })
    }

    fn ask_to_apply(&mut self, request: Request) -> Result<Applied, ClientError> {
        serde_json::from_value(self.ask(request)?).map_err(ClientError::NotUnderstood)
    }

    /// Changes ports of one owner, in as many requests as they take. `None` removes a port; ports that are not named
    /// stay.
    ///
    /// # Errors
    /// As [`Client::ask`]. Failures of single ports are no error here: the answer lists them.
    pub fn change(
        &mut self,
        owner: &str,
        ports: BTreeMap<String, Option<PortDescription>>,
    ) -> Result<Applied, ClientError> {
        let mut all = Applied { changes: Vec::new() };
        let mut ports = ports.into_iter().peekable();
        while ports.peek().is_some() {
            let (mut part, mut bytes) = (BTreeMap::new(), 0);
            while bytes < CHANGE_BYTES
                && let Some((name, port)) = ports.next()
            {
                bytes += name.len() + serde_json::to_vec(&port).unwrap_or_default().len();
                part.insert(name, port);
            }
            let answer = self.ask(Request::Change { owner: owner.to_owned(), ports: part })?;
            let Applied { changes } = serde_json::from_value(answer).map_err(ClientError::NotUnderstood)?;
            all.changes.extend(changes);
        }
        Ok(all)
    }

    /// Changes flows of a bridge; without a name, of the only one. `text` has a flow or a match on each line.
    ///
    /// # Errors
    /// As [`Client::ask`], or the system refuses a memory file for a long text.
    pub fn change_flows(
        &mut self,
        bridge: Option<&str>,
        change: FlowsChange,
        text: &str,
    ) -> Result<Value, ClientError> {
        let bridge = bridge.map(str::to_owned);
        if text.len() <= INLINE_BYTES {
            return self.ask(Request::FlowsChange { bridge, change, text: Some(text.to_owned()) });
        }
        let file = sealed(text).map_err(|source| self.system("making a memory file for", source))?;
        self.send(Request::FlowsChange { bridge, change, text: None }, Some(file.as_fd()))?;
        self.answer(Some(PATIENCE))
    }

    /// Follows what happens to the ports from now on.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn subscribe(mut self) -> Result<Events, ClientError> {
        self.ask(Request::Subscribe)?;
        Ok(Events { client: self })
    }

    /// Sends a request, with the descriptor of a file.
    ///
    /// # Errors
    /// The switch does not read, or the connection is over.
    pub fn send(&mut self, request: Request, file: Option<BorrowedFd<'_>>) -> Result<(), ClientError> {
        let mut line = serde_json::to_vec(&Call { version: VERSION, request }).unwrap_or_default();
        line.push(b'\n');
        self.send_line(&line, file).map_err(|source| self.system("asking", source))
    }

    fn send_line(&self, line: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut socket = self.socket.get_ref();
        let Some(file) = file else { return socket.write_all(line) };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file];
        control.push(SendAncillaryMessage::ScmRights(&files));
        let sent = sendmsg(socket, &[IoSlice::new(line)], &mut control, SendFlags::NOSIGNAL)?;
        socket.write_all(&line[sent..])
    }

    /// Waits for an answer, at most for `limit`; without a limit, until one comes.
    ///
    /// # Errors
    /// The switch refused, did not answer in time, or the connection is over.
    pub fn answer(&mut self, limit: Option<Duration>) -> Result<Value, ClientError> {
        let line = self.line(limit)?;
        let answer: Answer = serde_json::from_slice(&line).map_err(ClientError::NotUnderstood)?;
        if answer.version != VERSION {
            return Err(ClientError::Version { switch: answer.version });
        }
        match answer.outcome {
            Outcome::Ok(value) => Ok(value),
            Outcome::Error(why) => Err(ClientError::Refused(why)),
        }
    }

    fn line(&mut self, limit: Option<Duration>) -> Result<Vec<u8>, ClientError> {
        let since = Instant::now();
        loop {
            match self.socket.read_until(b'\n', &mut self.line) {
                Ok(_) if self.line.ends_with(b"\n") => return Ok(std::mem::take(&mut self.line)),
                Ok(_) => return Err(ClientError::Closed(self.path.clone())),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.system("reading the answer of", error)),
            }
            if (self.is_interrupted)() {
                return Err(ClientError::Interrupted);
            }
            if let Some(limit) = limit.filter(|limit| since.elapsed() > *limit) {
                return Err(ClientError::Silent { path: self.path.clone(), limit });
            }
        }
    }

    fn system(&self, action: &'static str, source: io::Error) -> ClientError {
        ClientError::System { action, path: self.path.clone(), source }
    }
}

/// The events of a switch's ports.
pub struct Events {
    client: Client,
}

impl Events {
    /// Waits for the next event, at most for `limit`; without a limit, until one comes.
    ///
    /// # Errors
    /// No event came in time, the connection is over, or the switch has ended the subscription because events were
    /// not read.
    pub fn next(&mut self, limit: Option<Duration>) -> Result<Event, ClientError> {
        serde_json::from_value(self.client.answer(limit)?).map_err(ClientError::NotUnderstood)
    }
}
