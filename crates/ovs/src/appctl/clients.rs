//! The clients of the socket, on one thread.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use ovsdb::{Framer, Limits, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;

use super::commands;
use super::room::Room;

/// The most clients at once. A further client ends the connection of the client that has been silent for the longest
/// time.
const CLIENTS: usize = 16;

/// The time between two checks whether to continue.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Bytes read at once; what a client sends beyond its present request waits in the socket.
const READ_BYTES: usize = 4096;
/// The most memory that a client can make this thread use, except for the answer.
const LIMITS: Limits =
    Limits { message_bytes: 64 << 10, message_values: 1024, nesting: 8, rows: 0, cache_bytes: 0 };
/// How long the answer to `exit` may take to be read.
const PATIENCE: Duration = Duration::from_secs(1);

/// A client, and the bytes that it has not read yet.
struct Client {
    socket: UnixStream,
    framer: Framer,
    /// Bytes received after the request that is being answered.
    received: Vec<u8>,
    answer: Vec<u8>,
    /// When the client last sent or received something.
    heard: Instant,
}

/// The connection is over.
struct Over;

/// Answers clients as long as `goes_on` returns true.
pub fn answer(listener: &UnixListener, mut room: Room, goes_on: impl Fn() -> bool) {
    let mut clients: Vec<Client> = Vec::new();
    while goes_on() {
        wait(listener, &clients);
        while let Ok((socket, _)) = listener.accept() {
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            if clients.len() == CLIENTS {
                let longest = (0..CLIENTS).min_by_key(|&index| clients[index].heard);
                longest.map(|index| clients.swap_remove(index));
            }
            clients.push(Client::new(socket));
        }
        clients.retain_mut(|client| client.step(&mut room).is_ok());
        if room.ends {
            let deadline = Instant::now() + PATIENCE;
            while Instant::now() < deadline && clients.iter().any(|client| !client.answer.is_empty()) {
                clients.retain_mut(|client| client.send().is_ok());
                std::thread::yield_now();
            }
            // As on a signal from the service manager: open connections are closed in order.
            let _ = kill_process(getpid(), Signal::TERM);
            return;
        }
        room.sample(Instant::now());
    }
}

/// Waits until something can be done, at most for a tick.
fn wait(listener: &UnixListener, clients: &[Client]) {
    let of = |client: &'_ Client| if client.answer.is_empty() { PollFlags::IN } else { PollFlags::OUT };
    if clients.iter().any(|client| client.answer.is_empty() && !client.received.is_empty()) {
        return;
    }
    let mut all: Vec<PollFd<'_>> =
        clients.iter().map(|client| PollFd::new(&client.socket, of(client))).collect();
    all.push(PollFd::new(listener, PollFlags::IN));
    // An interrupted wait only ends earlier.
    let _ = poll(&mut all, Some(&TICK));
}

impl Client {
    fn new(socket: UnixStream) -> Self {
        Client {
            socket,
            framer: Framer::new(LIMITS),
            received: Vec::new(),
            answer: Vec::new(),
            heard: Instant::now(),
        }
    }

    /// Sends waiting bytes; if there are none, handles at most one request.
    fn step(&mut self, room: &mut Room) -> Result<(), Over> {
        self.send()?;
        if !self.answer.is_empty() {
            return Ok(());
        }
        if self.received.is_empty() {
            let mut bytes = [0; READ_BYTES];
            match again_later(self.socket.read(&mut bytes))? {
                None => return Ok(()),
                Some(0) => return Err(Over),
                Some(count) => self.received.extend_from_slice(&bytes[..count]),
            }
            self.heard = Instant::now();
        }
        let mut rest = &self.received[..];
        let message = self.framer.next(&mut rest).map_err(|_| Over)?;
        self.received = rest.to_vec();
        let Some(message) = message else { return Ok(()) };
        let Ok(Message::Request { id, method, params }) = Message::from_bytes(&message) else {
            return Err(Over);
        };
        let words: Option<Vec<&str>> =
            params.as_array().map(Vec::as_slice).unwrap_or_default().iter().map(Value::as_str).collect();
        let result = match words {
            Some(words) => commands::carry_out(room, &method, &words),
            None => Err("arguments of a command are strings".to_owned()),
        };
        let result = result.map(Value::from).map_err(Value::from);
        self.answer = Message::Answer { id, result }.to_bytes();
        self.send()
    }

    fn send(&mut self) -> Result<(), Over> {
        while !self.answer.is_empty() {
            match again_later(self.socket.write(&self.answer))? {
                None => break,
                Some(0) => return Err(Over),
                Some(count) => drop(self.answer.drain(..count)),
            }
            self.heard = Instant::now();
        }
        Ok(())
    }
}

/// `None` where the socket has nothing or no room now.
fn again_later(done: io::Result<usize>) -> Result<Option<usize>, Over> {
    match done {
        Ok(count) => Ok(Some(count)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
        Err(_) => Err(Over),
    }
}
