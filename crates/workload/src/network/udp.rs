//! Datagrams: a sender, a receiver, an echo.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use measure::{Failure, Histogram};

use super::count::{Counts, NearOutcome};
use super::flow::Flow;
use super::message;
use super::outgoing::Outgoing;
use super::schedule::{LATE_NS, Schedule};
use crate::clock::now_ns;

/// The interval at which a receiver checks whether it is to end.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// An answer that is not there after this long does not come.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);

/// This number of sockets, each with a port of its own, connected to the peer.
pub(super) fn connected(
    local: SocketAddr,
    peer: SocketAddr,
    count: usize,
) -> Result<Vec<UdpSocket>, Failure> {
    (0..count)
        .map(|_| {
            let socket = UdpSocket::bind((local.ip(), 0))?;
            socket.connect(peer)?;
            socket.set_read_timeout(Some(ANSWER_LIMIT))?;
            Ok(socket)
        })
        .collect::<io::Result<_>>()
        .map_err(|error| {
            let tried = format!("opening {count} UDP sockets to {peer}");
            Failure::new(
                tried,
                error,
                "see that the address can be reached and the limit of open files (ulimit -n)",
            )
        })
}

/// Sends for the flow's duration, over the sockets in turn.
pub(super) fn send(sockets: &[UdpSocket], flow: &Flow) -> Result<Counts, Failure> {
    let mut outgoing = Outgoing::start(flow);
    let mut index = 0;
    while let Some(due_ns) = outgoing.wait(index) {
        let message = outgoing.message(outgoing.counts.sent);
        match sockets[(index % sockets.len() as u64) as usize].send(message) {
            Ok(_) => outgoing.sent(due_ns),
            Err(error) if is_passing(&error) => outgoing.counts.refused += 1,
            Err(error) => return Err(sending_failed(sockets, &error)),
        }
        outgoing.counts.calls += 1;
        index += 1;
    }
    Ok(outgoing.finish())
}

/// No room for now, or an ICMP error for an earlier datagram (udp(7)): nothing was sent, the next may pass.
fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [Errno::NOBUFS, Errno::AGAIN, Errno::CONNREFUSED, Errno::NOMEM];
    passing.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn sending_failed(sockets: &[UdpSocket], error: &io::Error) -> Failure {
    let peer = sockets.first().and_then(|socket| socket.peer_addr().ok());
    let peer = peer.map_or("its peer".to_owned(), |peer| peer.to_string());
    Failure::new(format!("sending a datagram to {peer}"), error, "see that the path between both ends is up")
}

/// Counts the datagrams that arrive, until `is_over` returns true.
pub(super) fn receive(
    socket: &UdpSocket,
    flow: &Flow,
    mut is_over: impl FnMut(Option<u64>) -> bool,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut bytes = vec![0; flow.message_bytes + 1];
    let (mut first_ns, mut last_ns, mut next) = (None, None, 0);
    socket.set_read_timeout(Some(TICK)).map_err(receiving_failed)?;
    loop {
        counts.calls += 1;
        match socket.recv(&mut bytes) {
            Ok(length) => {
                let Some(number) = message::read(&bytes[..length], flow.message_bytes) else {
                    counts.corrupt += u64::from(length > 1);
                    continue;
                };
                if flow.verify && !message::is_intact(&bytes[..length], number) {
                    counts.corrupt += 1;
                    continue;
                }
                counts.received += 1;
                counts.received_bytes += length as u64;
                counts.reordered += u64::from(number < next);
                next = next.max(number.saturating_add(1));
                let now = now_ns();
                first_ns.get_or_insert(now);
                last_ns = Some(now);
                // An unpaced sender may leave no pause at all.
                if counts.received % 1024 == 0 && is_over(last_ns) {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if is_over(last_ns) {
                    break;
                }
            }
            // An ICMP error for something that this socket sent (udp(7)).
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused || error.kind() == ErrorKind::Interrupted => {
            }
            Err(error) => return Err(receiving_failed(error)),
        }
    }
    counts.elapsed_ns = last_ns.unwrap_or(0) - first_ns.unwrap_or(0);
    Ok(counts)
}

fn receiving_failed(error: io::Error) -> Failure {
    Failure::new("receiving datagrams", error, "see that the path between both ends is up")
}

/// Sends each datagram back to its sender.
pub(super) fn echo(
    socket: &UdpSocket,
    flow: &Flow,
    mut is_over: impl FnMut() -> bool,
) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut bytes = vec![0; flow.message_bytes + 1];
    socket.set_read_timeout(Some(TICK)).map_err(receiving_failed)?;
    while !is_over() {
        counts.calls += 1;
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => {
                if message::read(&bytes[..length], flow.message_bytes).is_none() {
                    counts.corrupt += 1;
                    continue;
                }
                counts.received += 1;
                counts.received_bytes += length as u64;
                counts.calls += 1;
                match socket.send_to(&bytes[..length], from) {
                    Ok(_) => {
                        counts.sent += 1;
                        counts.sent_bytes += length as u64;
                    }
                    Err(_) => counts.refused += 1,
                }
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::ConnectionRefused | ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(receiving_failed(error)),
        }
    }
    Ok(counts)
}

/// Sends a request and waits for the answer, over the sockets in turn.
pub(super) fn ask(sockets: &[UdpSocket], flow: &Flow) -> Result<NearOutcome, Failure> {
    let mut latency = Histogram::new();
    let (mut counts, mut unanswered) = (Counts::default(), 0);
    let mut request = vec![0; flow.message_bytes];
    let mut answer = vec![0; flow.message_bytes + 1];
    message::write(&mut request, 0);
    let schedule = Schedule::start(flow.duration, flow.per_second);
    let start_ns = now_ns();
    let mut index = 0;
    while let Some(due_ns) = schedule.wait(index) {
        let socket = &sockets[(index % sockets.len() as u64) as usize];
        if flow.verify {
            message::write(&mut request, index)
        } else {
            message::write_header(&mut request, index)
        };
        socket.send(&request).map_err(|error| sending_failed(sockets, &error))?;
        let sent_ns = now_ns();
        counts.sent += 1;
        counts.calls += 2;
        counts.sent_bytes += request.len() as u64;
        counts.late += u64::from(sent_ns.saturating_sub(due_ns) > LATE_NS);
        match answer_to(socket, &mut answer, flow, index)? {
            Answer::Right(length) => {
                counts.received += 1;
                counts.received_bytes += length as u64;
                latency.record_ns(now_ns().saturating_sub(due_ns));
            }
            Answer::Wrong => counts.corrupt += 1,
            Answer::None => unanswered += 1,
        }
        index += 1;
    }
    counts.elapsed_ns = now_ns() - start_ns;
    Ok(NearOutcome { counts, latency: Some(latency), unanswered })
}

enum Answer {
    Right(usize),
    Wrong,
    None,
}

/// The answer to request `number`; those to earlier ones, which were given up, are passed over.
fn answer_to(socket: &UdpSocket, bytes: &mut [u8], flow: &Flow, number: u64) -> Result<Answer, Failure> {
    loop {
        match socket.recv(bytes) {
            Ok(length) => match message::read(&bytes[..length], flow.message_bytes) {
                Some(other) if other < number => {}
                Some(same)
                    if same == number && (!flow.verify || message::is_intact(&bytes[..length], number)) =>
                {
                    return Ok(Answer::Right(length));
                }
                _ => return Ok(Answer::Wrong),
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Answer::None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(Answer::None),
            Err(error) => return Err(receiving_failed(error)),
        }
    }
}
