//! The far end: listens, admits peers that prove their key, and runs one agent at a time for them.

use std::fs::File;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use linux::interrupt;
use measure::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::{Connection, ServerConfig};

use super::relay::relay;
use super::tls;
use crate::{Agent, spawn};

/// The time limit for a connection to prove a key; after it the connection is dropped.
pub const LIMIT: Duration = Duration::from_secs(5);

/// The most connections that have not proved a key yet. One more drops the oldest, so that silent connections block no
/// peer.
const UNPROVED: usize = 16;

/// The most log lines in one second. Further lines are counted.
const TOLD: u32 = 5;

/// Listens at an address. The socket is bound before `serve` is called.
pub struct Listener {
    socket: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    config: Arc<ServerConfig>,
    agent: Agent,
    /// The line of the agent's protocol that an authenticated peer receives while another run uses the agent.
    busy_line: String,
    busy: AtomicBool,
    unproved: Mutex<Vec<(u64, TcpStream)>>,
    log: Mutex<Log>,
}

impl Listener {
    /// Binds the address; no connection is answered yet.
    ///
    /// # Errors
    /// The key file is missing or unusable, or the address is taken or not of this machine.
    pub fn bind(address: &str, key: &Path, agent: Agent, busy_line: String) -> Result<Self, Failure> {
        let config = tls::far(key)?;
        let failed = |error: io::Error| {
            Failure::new(
                format!("listening on {address}"),
                error,
                "choose an address of this machine, as ADDRESS:PORT, with a free port",
            )
        };
        let socket = TcpListener::bind(address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        let shared = Shared {
            config,
            agent,
            busy_line,
            busy: AtomicBool::new(false),
            unproved: Mutex::default(),
            log: Mutex::new(Log { second: Instant::now(), told: 0, left_out: 0 }),
        };
        Ok(Listener { socket, shared: Arc::new(shared) })
    }

    /// The address at which the listener is bound, with the port that the system chose for port 0.
    ///
    /// # Errors
    /// The kernel refuses `getsockname`.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until the process is interrupted.
    pub fn serve(&self) {
        let slice = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let mut number = 0;
        while !interrupt::is_set() {
            let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&slice));
            match self.socket.accept() {
                Ok((socket, peer)) => {
                    number += 1;
                    self.shared.clone().admit(number, socket, peer);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.shared.tell(&format!("accepting a connection: {error}; trying again"));
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }
}

impl Shared {
    fn admit(self: Arc<Self>, number: u64, socket: TcpStream, peer: SocketAddr) {
        let Ok(copy) = socket.try_clone() else { return };
        if socket.set_nonblocking(false).is_err() {
            return;
        }
        {
            let mut unproved = self.unproved.lock().unwrap_or_else(PoisonError::into_inner);
            if unproved.len() >= UNPROVED {
                let (_, oldest) = unproved.remove(0);
                let _ = oldest.shutdown(Shutdown::Both);
            }
            unproved.push((number, copy));
        }
        let shared = self.clone();
        let serving = std::thread::Builder::new()
            .name("connection".into())
            .spawn(move || shared.serve(number, socket, peer));
        if let Err(error) = serving {
            self.proved(number);
            self.tell(&format!("serving {peer}: {error}; it may try again"));
        }
    }

    /// The connection no longer counts among those that have not proved a key.
    fn proved(&self, number: u64) {
        self.unproved.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| *other != number);
    }

    fn serve(&self, number: u64, mut socket: TcpStream, peer: SocketAddr) {
        let mut tls = match tls::accept(&self.config) {
            Ok(tls) => tls,
            Err(error) => {
                self.proved(number);
                return self.tell(&format!("serving {peer}: {error}"));
            }
        };
        let proved = tls::handshake(&mut tls, &mut socket, LIMIT);
        self.proved(number);
        if let Err(error) = proved {
            return self.tell(&format!("refused {peer}: {error}"));
        }
        if self.busy.swap(true, Ordering::AcqRel) {
            self.tell(&format!("refused {peer}: another run has the agent"));
            // The line is small; a peer that does not read it is not waited for beyond the limit.
            let _ = socket.set_write_timeout(Some(LIMIT));
            let _ = tls.writer().write_all(self.busy_line.as_bytes());
            tls.send_close_notify();
            while tls.wants_write() && tls.write_tls(&mut socket).is_ok() {}
            return;
        }
        self.tell(&format!("serving {peer}"));
        let ended = self.run(&mut tls, &mut socket);
        self.busy.store(false, Ordering::Release);
        match ended {
            Ok(()) => self.tell(&format!("served {peer}")),
            Err(error) => self.tell(&format!("serving {peer}: {error}; ready for the next")),
        }
    }

    fn run(&self, tls: &mut Connection, socket: &mut TcpStream) -> io::Result<()> {
        let mut command = Command::new(&self.agent.binary);
        command.args(&self.agent.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        // This thread is the agent's parent, and does not end before the agent has ended.
        let mut child = spawn::spawn(&mut command)?;
        let to_agent = OwnedFd::from(child.take_stdin().expect("piped above"));
        let from_agent = OwnedFd::from(child.take_stdout().expect("piped above"));
        let (mut input, mut output) = (File::from(from_agent), File::from(to_agent));
        let ended = relay(tls, socket, &mut input, &mut output);
        let _ = child.kill();
        ended.map(drop)
    }

    /// Writes a log line for the operator, at most [`TOLD`] in a second. A failed write stops nothing.
    fn tell(&self, text: &str) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if log.second.elapsed() > Duration::from_secs(1) {
            if log.left_out > 0 {
                let _ = writeln!(io::stderr(), "tautline agent: {} more lines left out", log.left_out);
            }
            *log = Log { second: Instant::now(), told: 0, left_out: 0 };
        }
        if log.told == TOLD {
            log.left_out += 1;
            return;
        }
        log.told += 1;
        let _ = writeln!(io::stderr(), "tautline agent: {text}");
    }
}

struct Log {
    second: Instant,
    told: u32,
    left_out: u64,
}
