//! TCP connections: a source, a sink, an echo, and a connection for each message.
//!
//! A stream is a series of messages of one size, numbered for each connection, so that a missing or changed byte is
//! detected. One thread serves all connections of an end: it asks epoll which connections are ready.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use measure::{Failure, Histogram};
use rustix::event::{Timespec, epoll};

use super::count::{Counts, NearOutcome};
use super::flow::Flow;
use super::message;
use super::outgoing::Outgoing;
use super::schedule::{LATE_NS, Schedule};
use super::udp::TICK;
use crate::clock::now_ns;

/// A peer that says nothing for so long is gone.
const SILENCE_LIMIT: Duration = Duration::from_secs(5);
/// A connection that has not ended is waited for so long after its last byte.
const RESIDUE_NS: u64 = 1_000_000_000;
const EVENTS: usize = 64;
const LISTENER: u64 = u64::MAX;
/// A connection of its own: socket, connect and its wait, four options, linger, close.
const CALLS_OF_CONNECTION: u64 = 9;

pub(super) fn connect(peer: SocketAddr, count: usize) -> Result<Vec<TcpStream>, Failure> {
    let connected: io::Result<Vec<_>> = (0..count)
        .map(|_| {
            let stream = TcpStream::connect_timeout(&peer, SILENCE_LIMIT)?;
            prepare(&stream)?;
            Ok(stream)
        })
        .collect();
    connected.map_err(|error| {
        let tried = format!("opening {count} TCP connections to {peer}");
        Failure::new(
            tried,
            error,
            "see that the address can be reached and the limit of open files (ulimit -n)",
        )
    })
}

/// Requests leave at once (TCP_NODELAY), and no end waits for ever.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_LIMIT))?;
    stream.set_write_timeout(Some(SILENCE_LIMIT))
}

fn broken(error: io::Error) -> Failure {
    Failure::new("exchanging bytes over a TCP connection", error, "see that the path between both ends is up")
}

/// Sends messages over the connections in turn for the flow's duration, then closes each.
pub(super) fn send(streams: &mut [TcpStream], flow: &Flow) -> Result<Counts, Failure> {
    let mut outgoing = Outgoing::start(flow);
    let count = streams.len() as u64;
    while let Some(due_ns) = outgoing.wait(outgoing.counts.sent) {
        let sent = outgoing.counts.sent;
        let message = outgoing.message(sent / count);
        streams[(sent % count) as usize].write_all(message).map_err(broken)?;
        outgoing.counts.calls += 1;
        outgoing.sent(due_ns);
    }
    for stream in streams {
        stream.shutdown(std::net::Shutdown::Write).map_err(broken)?;
    }
    Ok(outgoing.finish())
}

/// One connection, as a receiver sees it.
struct Incoming {
    stream: TcpStream,
    /// The message that is being received.
    bytes: Vec<u8>,
    /// The number of its bytes that have arrived.
    filled: usize,
    /// The number that the message must have.
    next: u64,
}

impl Incoming {
    fn new(stream: TcpStream, flow: &Flow) -> io::Result<Self> {
        prepare(&stream)?;
        stream.set_nonblocking(true)?;
        Ok(Incoming { stream, bytes: vec![0; flow.message_bytes], filled: 0, next: 0 })
    }

    /// Reads what is there. Whole messages are handed on; `false` at the end of the connection.
    fn read(
        &mut self,
        flow: &Flow,
        counts: &mut Counts,
        mut whole: impl FnMut(&mut TcpStream, &[u8], &mut Counts) -> io::Result<()>,
    ) -> io::Result<bool> {
        // A bounded number of turns: no connection keeps the thread from the others.
        for _ in 0..EVENTS {
            counts.calls += 1;
            let room = &mut self.bytes[self.filled..];
            let wanted = room.len();
            match self.stream.read(room) {
                Ok(0) => {
                    counts.corrupt += u64::from(self.filled != 0);
                    return Ok(false);
                }
                Ok(length) => {
                    self.filled += length;
                    // There was no more; epoll says when there is.
                    if length < wanted {
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if self.filled == self.bytes.len() {
                self.filled = 0;
                let number = message::read(&self.bytes, flow.message_bytes);
                let right = number.is_some_and(|number| {
                    (flow.class.is_stream().then_some(self.next).is_none_or(|next| next == number))
                        && (!flow.verify || message::is_intact(&self.bytes, number))
                });
                self.next += 1;
                if right {
                    counts.received += 1;
                    counts.received_bytes += self.bytes.len() as u64;
                } else {
                    counts.corrupt += 1;
                }
                whole(&mut self.stream, &self.bytes, counts)?;
            }
        }
        Ok(true)
    }
}

/// The action for a complete message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Count,
    SendBack,
}

/// Receives over existing connections and over connections that a listener accepts (at most the flow's number at
/// once), until all existing connections have ended or `is_over` returns true.
pub(super) fn receive(
    streams: Vec<TcpStream>,
    listener: Option<&TcpListener>,
    flow: &Flow,
    then: Then,
    mut is_over: impl FnMut() -> bool,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut connections = Connections::new(flow).map_err(broken)?;
    let from_listener = listener.is_some();
    if let Some(listener) = listener {
        connections.watch(listener).map_err(broken)?;
    }
    for stream in streams {
        connections.add(stream).map_err(broken)?;
    }
    let (mut first_ns, mut last_ns) = (None, None::<u64>);
    let mut ready = Vec::with_capacity(EVENTS);
    let mut over_since = None;
    while from_listener || connections.open > 0 {
        connections.wait(&mut ready).map_err(broken)?;
        counts.calls += 1;
        if is_over() {
            // Bytes that were sent may still lie in the sockets. They are read to their end, but not for ever.
            let since = *over_since.get_or_insert_with(now_ns);
            let silent_ns = now_ns() - last_ns.unwrap_or(0).max(since);
            let all_ended = ready.is_empty() && (connections.open == 0 || silent_ns > RESIDUE_NS);
            if all_ended || now_ns() - since > SILENCE_LIMIT.as_nanos() as u64 {
                break;
            }
        }
        for &key in &ready {
            if key == LISTENER {
                if let Some(listener) = listener {
                    connections.accept(listener).map_err(broken)?;
                }
                continue;
            }
            let before = counts.received_bytes;
            connections.serve(key as usize, then, &mut counts);
            if counts.received_bytes != before {
                let now = now_ns();
                first_ns.get_or_insert(now);
                last_ns = Some(now);
            }
        }
    }
    counts.elapsed_ns = last_ns.unwrap_or(0) - first_ns.unwrap_or(0);
    Ok(counts)
}

/// The connections of an end, and an epoll set that reports which are readable.
struct Connections<'a> {
    flow: &'a Flow,
    epoll: std::os::fd::OwnedFd,
    slots: Vec<Option<Incoming>>,
    open: usize,
}

impl<'a> Connections<'a> {
    fn new(flow: &'a Flow) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Connections { flow, epoll, slots: Vec::new(), open: 0 })
    }

    fn watch(&self, listener: &TcpListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        Ok(epoll::add(&self.epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?)
    }

    fn add(&mut self, stream: TcpStream) -> io::Result<()> {
        let incoming = Incoming::new(stream, self.flow)?;
        let free = self.slots.iter().position(Option::is_none);
        let key = free.unwrap_or(self.slots.len());
        let data = epoll::EventData::new_u64(key as u64);
        epoll::add(&self.epoll, incoming.stream.as_fd(), data, epoll::EventFlags::IN)?;
        match free {
            Some(key) => self.slots[key] = Some(incoming),
            None => self.slots.push(Some(incoming)),
        }
        self.open += 1;
        Ok(())
    }

    /// Takes one connection; above the flow's number it is closed at once.
    fn accept(&mut self, listener: &TcpListener) -> io::Result<()> {
        match listener.accept() {
            Ok((stream, _)) if self.open < self.flow.connections => self.add(stream),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn wait(&self, ready: &mut Vec<u64>) -> io::Result<()> {
        let limit = Timespec { tv_sec: 0, tv_nsec: TICK.as_nanos() as i64 };
        let mut events = Vec::with_capacity(EVENTS);
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&limit)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        ready.clear();
        ready.extend(events.iter().map(|event: &epoll::Event| event.data.u64()));
        Ok(())
    }

    /// Reads from one. What breaks it ends it alone.
    fn serve(&mut self, key: usize, then: Then, counts: &mut Counts) {
        let Some(incoming) = self.slots[key].as_mut() else { return };
        let stays = incoming.read(self.flow, counts, |stream, bytes, counts| {
            if then == Then::SendBack {
                send_back(stream, bytes)?;
                counts.sent += 1;
                // Blocking, the write, not blocking again.
                counts.calls += 3;
                counts.sent_bytes += bytes.len() as u64;
            }
            Ok(())
        });
        if !matches!(stays, Ok(true)) {
            // Closing takes it out of epoll.
            self.slots[key] = None;
            self.open -= 1;
        }
    }
}

/// Writes an answer whole: it fits the send buffer unless the peer has stopped reading.
fn send_back(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let written = stream.write_all(bytes);
    stream.set_nonblocking(true)?;
    written
}

/// Sends a request and waits for the answer, over the connections in turn; without connections, over a new connection
/// each time.
pub(super) fn ask(streams: &mut [TcpStream], peer: SocketAddr, flow: &Flow) -> Result<NearOutcome, Failure> {
    let mut latency = Histogram::new();
    let mut counts = Counts::default();
    let (mut request, mut answer) = (vec![0; flow.message_bytes], vec![0; flow.message_bytes]);
    message::write(&mut request, 0);
    let schedule = Schedule::start(flow.duration, flow.per_second);
    let start_ns = now_ns();
    while let Some(due_ns) = schedule.wait(counts.sent) {
        let number = counts.sent;
        if flow.verify {
            message::write(&mut request, number)
        } else {
            message::write_header(&mut request, number)
        };
        let count = streams.len() as u64;
        let mut own;
        let stream = if streams.is_empty() {
            own = connect(peer, 1)?.remove(0);
            &mut own
        } else {
            &mut streams[(number % count) as usize]
        };
        let sent_ns = now_ns();
        stream.write_all(&request).and_then(|()| stream.read_exact(&mut answer)).map_err(broken)?;
        counts.sent += 1;
        counts.calls += if count == 0 { CALLS_OF_CONNECTION } else { 0 } + 2;
        counts.sent_bytes += request.len() as u64;
        counts.late += u64::from(sent_ns.saturating_sub(due_ns) > LATE_NS);
        if answer == request {
            counts.received += 1;
            counts.received_bytes += answer.len() as u64;
            latency.record_ns(now_ns().saturating_sub(due_ns));
        } else {
            counts.corrupt += 1;
        }
        if count == 0 {
            reset(stream).map_err(broken)?;
        }
    }
    counts.elapsed_ns = now_ns() - start_ns;
    Ok(NearOutcome { counts, latency: Some(latency), unanswered: 0 })
}

/// Closing resets the connection: no port stays behind in TIME_WAIT, of which there are only 28,232.
fn reset(stream: &TcpStream) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO))?)
}
