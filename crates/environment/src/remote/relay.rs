//! Bytes between two pipes and a TLS connection, on one thread, until either side ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustls::Connection;

/// Bytes: no more is read from a side while this much waits for the other.
const PENDING: usize = 64 << 10;

/// How long sending the rest may take, once one side has ended.
const FLUSH: Duration = Duration::from_secs(2);

/// A machine that vanished is noticed within about half a minute.
const KEEPALIVE: Duration = Duration::from_secs(10);
const PROBES: u32 = 2;

/// Which side ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The pipes: the process that reads or writes them is gone.
    Local,
    /// The connection.
    Peer,
}

fn nonblocking(fd: &impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?)
}

/// Relays from `input` to the connection and from there to `output`, until either side ends; returns which.
///
/// # Errors
/// The kernel refuses an option of the socket or a read, `poll` fails, or the peer's bytes are no TLS. A write that
/// fails is no error: its side has ended.
pub fn relay(
    tls: &mut Connection,
    socket: &mut TcpStream,
    input: &mut File,
    output: &mut File,
) -> io::Result<Ended> {
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(&*socket, true)?;
    sockopt::set_tcp_keepidle(&*socket, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(&*socket, KEEPALIVE)?;
    sockopt::set_tcp_keepcnt(&*socket, PROBES)?;
    sockopt::set_tcp_user_timeout(&*socket, KEEPALIVE.as_millis() as u32 * (PROBES + 1))?;
    nonblocking(input)?;
    nonblocking(output)?;
    tls.set_buffer_limit(None);
    let mut received = Vec::new();
    let mut buffer = vec![0; PENDING];
    // Which side has ended, and until when the rest may be sent.
    let mut ended: Option<(Ended, Instant)> = None;
    loop {
        if tls.wants_write() {
            match tls.write_tls(socket) {
                Ok(_) => {}
                Err(error) if try_again(&error) => {}
                Err(_) => return Ok(ended.map_or(Ended::Peer, |(who, _)| who)),
            }
        }
        if !received.is_empty() {
            match output.write(&received) {
                Ok(count) => drop(received.drain(..count)),
                Err(error) if try_again(&error) => {}
                Err(_) => ended = ended.or(Some((Ended::Local, Instant::now() + FLUSH))),
            }
        }
        if let Some((who, until)) = ended {
            let left = match who {
                Ended::Local => tls.wants_write(),
                Ended::Peer => !received.is_empty(),
            };
            if !left || Instant::now() > until {
                return Ok(who);
            }
        }
        let reads_peer = ended.is_none() && received.len() < PENDING;
        let reads_input = ended.is_none() && !tls.wants_write();
        let when = |wanted, flag| if wanted { flag } else { PollFlags::empty() };
        let (from_input, from_socket, from_output) = {
            let mut sources = [
                PollFd::new(&*input, when(reads_input, PollFlags::IN)),
                PollFd::new(
                    &*socket,
                    when(reads_peer, PollFlags::IN) | when(tls.wants_write(), PollFlags::OUT),
                ),
                PollFd::new(&*output, when(!received.is_empty(), PollFlags::OUT)),
            ];
            let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
            match poll(&mut sources, ended.is_some().then_some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            (sources[0].revents(), sources[1].revents(), sources[2].revents())
        };
        if ended.is_some() {
            continue;
        }
        let until = Instant::now() + FLUSH;
        if from_output.contains(PollFlags::ERR) {
            // The reader is gone.
            ended = Some((Ended::Local, until));
        }
        if from_socket.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && reads_peer {
            match tls.read_tls(socket) {
                Ok(0) => ended = Some((Ended::Peer, until)),
                Ok(_) => {
                    let state = match tls.process_new_packets() {
                        Ok(state) => state,
                        Err(error) => {
                            let _ = tls.write_tls(socket);
                            return Err(io::Error::other(error));
                        }
                    };
                    let start = received.len();
                    received.resize(start + state.plaintext_bytes_to_read(), 0);
                    tls.reader().read_exact(&mut received[start..])?;
                    if state.peer_has_closed() {
                        ended = Some((Ended::Peer, until));
                    }
                }
                Err(error) if try_again(&error) => {}
                Err(error) => return Err(error),
            }
        }
        if from_input.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) && reads_input {
            match input.read(&mut buffer) {
                Ok(0) => {
                    tls.send_close_notify();
                    ended = ended.or(Some((Ended::Local, until)));
                }
                Ok(count) => tls.writer().write_all(&buffer[..count])?,
                Err(error) if try_again(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn try_again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
