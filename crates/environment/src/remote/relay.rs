//! Relays bytes between two pipes and a TLS connection, on one thread, until either side ends.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustls::Connection;

/// If this many bytes wait to be written to one side, no more are read from the other side.
const PENDING: usize = 64 << 10;

/// How long sending the rest may take, once one side has ended.
const FLUSH: Duration = Duration::from_secs(2);

/// A machine that vanished is noticed within about half a minute.
const KEEPALIVE: Duration = Duration::from_secs(10);
const PROBES: u32 = 2;

/// The side that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The pipes: the process that reads or writes them has ended.
    Local,
    /// The connection.
    Peer,
}

fn nonblocking(fd: &impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?)
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepcnt(socket, PROBES)?;
    Ok(sockopt::set_tcp_user_timeout(socket, KEEPALIVE.as_millis() as u32 * (PROBES + 1))?)
}

/// Waits until one of the descriptors has one of its wanted events. A descriptor without wanted events (`None`) is left
/// out: poll(2) would report its hang-up at once, again and again.
fn wait(
    wanted: [(BorrowedFd<'_>, Option<PollFlags>); 3],
    limit: Option<&Timespec>,
) -> io::Result<[PollFlags; 3]> {
    let watched = wanted.iter().filter_map(|(fd, flags)| Some(PollFd::from_borrowed_fd(*fd, (*flags)?)));
    let mut watched: Vec<PollFd<'_>> = watched.collect();
    match poll(&mut watched, limit) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let mut found = watched.iter().map(PollFd::revents);
    Ok(wanted.map(|(_, flags)| flags.and_then(|_| found.next()).unwrap_or(PollFlags::empty())))
}

/// Relays from `input` to the connection and from the connection to `output`, until either side ends. Returns the
/// side that ended.
///
/// # Errors
/// The kernel refuses an option of the socket or a read, `poll` fails, or the peer's bytes are not TLS. A failed
/// write is not an error: it means that the side has ended.
pub fn relay(
    tls: &mut Connection,
    socket: &mut TcpStream,
    input: &mut File,
    output: &mut File,
) -> io::Result<Ended> {
    prepare(socket)?;
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
                Err(_) => {
                    received.clear();
                    ended = ended.or(Some((Ended::Local, Instant::now() + FLUSH)));
                }
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
        let writes_peer = tls.wants_write();
        let on_socket = [(reads_peer, PollFlags::IN), (writes_peer, PollFlags::OUT)];
        let on_socket: PollFlags =
            on_socket.into_iter().filter_map(|(is, flag)| is.then_some(flag)).collect();
        let on_output = if received.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let moment = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let wanted = [
            (input.as_fd(), reads_input.then_some(PollFlags::IN)),
            (socket.as_fd(), (!on_socket.is_empty()).then_some(on_socket)),
            // Also while nothing is written: that its reader is gone is an end.
            (output.as_fd(), (ended.is_none() || !received.is_empty()).then_some(on_output)),
        ];
        let [from_input, from_socket, from_output] = wait(wanted, ended.map(|_| &moment))?;
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::sync::mpsc;
    use std::thread;

    use super::super::{keys, tls};
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    /// Both ends of a connection that have proved their keys; the far end reads nothing more.
    fn connected() -> (Connection, TcpStream, TcpStream) {
        let folder = tempfile::tempdir().unwrap();
        let [near, far] = keys::make(folder.path(), 1).unwrap();
        let (near, far) = (tls::near(&near).unwrap(), tls::far(&far).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut peer = listener.accept().unwrap().0;
        let other_end = thread::spawn(move || {
            tls::handshake(&mut tls::accept(&far).unwrap(), &mut peer, LIMIT).unwrap();
            peer
        });
        let mut session = tls::connect(&near).unwrap();
        tls::handshake(&mut session, &mut socket, LIMIT).unwrap();
        (session, socket, other_end.join().unwrap())
    }

    /// How long a thread has run, by proc(5).
    fn ran(thread: &Path) -> Duration {
        let text = std::fs::read_to_string(Path::new("/proc").join(thread).join("schedstat")).unwrap();
        Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
    }

    #[test]
    fn a_process_that_hangs_up_costs_no_cpu_while_the_peer_does_not_read() {
        let (mut session, mut socket, _peer) = connected();
        let (from_process, mut process) = io::pipe().unwrap();
        let (reader, to_process) = io::pipe().unwrap();
        let (tell, told) = mpsc::channel();
        let relayed = thread::spawn(move || {
            tell.send(std::fs::read_link("/proc/thread-self").unwrap()).unwrap();
            let [mut input, mut output] =
                [OwnedFd::from(from_process), OwnedFd::from(to_process)].map(File::from);
            relay(&mut session, &mut socket, &mut input, &mut output)
        });
        let thread = told.recv().unwrap();
        // Until neither the socket nor the pipe has room.
        nonblocking(&process).unwrap();
        let mut since = Instant::now();
        while since.elapsed() < Duration::from_millis(500) {
            match process.write(&[0; 4096]) {
                Ok(1..) => since = Instant::now(),
                _ => thread::sleep(Duration::from_millis(10)),
            }
        }
        drop(process);
        let (before, since) = (ran(&thread), Instant::now());
        thread::sleep(Duration::from_millis(500));
        let busy = ran(&thread) - before;
        assert!(busy < Duration::from_millis(100), "it ran for {busy:?} of {:?}", since.elapsed());
        // The process has gone as well.
        drop(reader);
        assert_eq!(relayed.join().unwrap().unwrap(), Ended::Local);
    }
}
