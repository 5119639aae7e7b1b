//! One connection to the control socket, within limits of bytes and time. No function here blocks.
use std::io::{self, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::protocol::{Outcome, REQUEST_BYTES};
use memory::DropQueue;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::capture::Capture;
use super::passed_file::PassedFile;

/// The most bytes that wait to be read by the client.
const ANSWER_BYTES: usize = 8 << 20;

/// The most bytes of events that wait to be read by a client: some hundred events. More end its subscription.
const EVENT_BYTES: usize = 64 << 10;

/// A request must be whole, and an answer be read, within this.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection may be silent for so long.
const IDLE: Duration = Duration::from_secs(60);

pub struct Connection {
    socket: UnixStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// The file that came with a request.
    file: Option<PassedFile>,
    closer: Arc<DropQueue>,
    /// When the present incomplete request or unread answer began. If there is none, when the last one ended.
    since: Instant,
    pub capture: Option<Capture>,
    subscription: Subscription,
}

/// Whether a client gets events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subscription {
    None,
    /// It does. `waiting` counts their bytes since no answer last waited to be read.
    Open {
        waiting: usize,
    },
    /// The client did not read events. The reason has been sent to it.
    Lost,
}

/// Why a connection is over.
pub enum End {
    /// The client closed the connection, the socket failed, or more than 8 MiB wait to be read.
    Gone,
    /// The client broke a rule: it is sent this reason.
    Told(&'static str),
}

impl Connection {
    /// A connection of a client that was accepted. `closer` closes the files that come with requests.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(socket: UnixStream, closer: &Arc<DropQueue>) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Connection {
            socket,
            request: Vec::new(),
            answer: Vec::new(),
            file: None,
            closer: Arc::clone(closer),
            since: Instant::now(),
            capture: None,
            subscription: Subscription::None,
        })
    }

    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Whether an answer waits for room in the socket.
    pub fn wants_to_write(&self) -> bool {
        !self.answer.is_empty()
    }

    /// Reads the available bytes once. Returns at once if nothing has.
    ///
    /// # Errors
    /// [`End::Gone`] if the client closed the connection or the socket failed. [`End::Told`] if more than 64 KiB of
    /// requests wait.
    pub fn read(&mut self) -> Result<(), End> {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let slices = &mut [IoSliceMut::new(&mut bytes)];
        let received = match recvmsg(&self.socket, slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => received.bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(()),
            Err(_) => return Err(End::Gone),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                files.for_each(|file| self.file = Some(PassedFile::new(file, &self.closer)));
            }
        }
        if received == 0 {
            return Err(End::Gone);
        }
        if self.request.is_empty() {
            self.since = Instant::now();
        }
        self.request.extend_from_slice(&bytes[..received]);
        if self.request.len() > REQUEST_BYTES {
            return Err(End::Told(match self.request.contains(&b'\n') {
                true => "more than 64 KiB of requests wait: read the answers before you send more",
                false => "a request is longer than 64 KiB",
            }));
        }
        Ok(())
    }

    /// The next whole request, while no answer waits to be read.
    pub fn next_request(&mut self) -> Option<(Vec<u8>, Option<PassedFile>)> {
        if self.wants_to_write() {
            return None;
        }
        let end = self.request.iter().position(|byte| *byte == b'\n')?;
        let rest = self.request.split_off(end + 1);
        let line = std::mem::replace(&mut self.request, rest);
        self.since = Instant::now();
        Some((line, self.file.take()))
    }

    /// Whether another whole request waits.
    pub fn has_request(&self) -> bool {
        !self.wants_to_write() && self.request.contains(&b'\n')
    }

    /// Sends an answer. If the socket has no room, the rest waits for [`Connection::write`]. If an answer has more than
    /// 8 MiB, the client instead gets its size and the limit.
    ///
    /// # Errors
    /// [`End::Gone`] if more than 8 MiB would wait to be read, or the socket failed.
    pub fn put(&mut self, answer: &[u8]) -> Result<(), End> {
        if answer.len() > ANSWER_BYTES {
            let (size, limit) = (answer.len(), ANSWER_BYTES >> 20);
            let why = format!("the answer has {size} bytes, and {limit} MiB is the limit: ask for less");
            return self.put(&Outcome::Error(why).line());
        }
        if self.answer.len() + answer.len() > ANSWER_BYTES {
            return Err(End::Gone);
        }
        if self.answer.is_empty() {
            self.since = Instant::now();
        }
        self.answer.extend_from_slice(answer);
        self.write()
    }

    /// Whether the client has subscribed to events.
    pub fn has_subscribed(&self) -> bool {
        self.subscription != Subscription::None
    }

    /// Sends events from now on.
    pub fn subscribe(&mut self) {
        self.subscription = Subscription::Open { waiting: 0 };
    }

    /// Sends an event to a client that has subscribed. A client that leaves more than 64 KiB of events unread loses
    /// its subscription and is sent the reason.
    ///
    /// # Errors
    /// The causes of [`Connection::put`].
    pub fn put_event(&mut self, line: &[u8]) -> Result<(), End> {
        let Subscription::Open { waiting } = self.subscription else { return Ok(()) };
        let waiting = if self.answer.is_empty() { line.len() } else { waiting + line.len() };
        if waiting <= EVENT_BYTES {
            self.subscription = Subscription::Open { waiting };
            return self.put(line);
        }
        (self.subscription, self.since) = (Subscription::Lost, Instant::now());
        let kib = EVENT_BYTES >> 10;
        let why = format!(
            "{kib} KiB of events were not read: the subscription has ended; read faster, and subscribe again"
        );
        self.put(&Outcome::Error(why).line())
    }

    /// Writes as much of the waiting answer as the socket has room for.
    ///
    /// # Errors
    /// [`End::Gone`] if the client closed the connection or the socket failed.
    pub fn write(&mut self) -> Result<(), End> {
        while !self.answer.is_empty() {
            match self.socket.write(&self.answer) {
                Ok(0) => return Err(End::Gone),
                Ok(written) => {
                    self.answer.drain(..written);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Gone),
            }
            if self.answer.is_empty() {
                self.since = Instant::now();
            }
        }
        Ok(())
    }

    /// Whether the client has exceeded its time limit.
    pub fn is_overdue(&self, now: Instant) -> bool {
        let captures = self.capture.as_ref().is_some_and(Capture::runs);
        let has_subscribed = matches!(self.subscription, Subscription::Open { .. });
        let limit = match (self.request.is_empty(), self.answer.is_empty()) {
            (true, true) if captures || has_subscribed => return false,
            // The waiting bytes have a limit, and then this time to be read.
            (true, false) if has_subscribed => return false,
            (true, false) if self.subscription == Subscription::Lost => IDLE,
            (true, true) => IDLE,
            _ => PATIENCE,
        };
        now.saturating_duration_since(self.since) > limit
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Connection, UnixStream) {
        let (own, other) = UnixStream::pair().unwrap();
        (Connection::new(own, &Arc::new(DropQueue::new("closer", 1))).unwrap(), other)
    }

    #[test]
    fn silence_and_half_a_request_have_their_time() {
        let (mut connection, mut other) = pair();
        let after = |limit: Duration, more: Duration| Instant::now() + limit + more;
        assert!(!connection.is_overdue(after(IDLE, Duration::from_secs(0)) - Duration::from_secs(1)));
        assert!(connection.is_overdue(after(IDLE, Duration::from_secs(1))));
        other.write_all(b"{").unwrap();
        assert!(connection.read().is_ok());
        assert!(!connection.is_overdue(after(PATIENCE, Duration::from_secs(0)) - Duration::from_secs(1)));
        assert!(connection.is_overdue(after(PATIENCE, Duration::from_secs(1))));
    }

    #[test]
    fn a_request_and_an_answer_that_come_in_crumbs_have_no_more() {
        let (mut connection, mut other) = pair();
        let mut crumb = |connection: &mut Connection| {
            other.write_all(b"x").unwrap();
            assert!(connection.read().is_ok());
        };
        crumb(&mut connection);
        let later = Instant::now() + PATIENCE;
        std::thread::sleep(Duration::from_millis(20));
        crumb(&mut connection);
        assert!(connection.is_overdue(later + Duration::from_millis(10)), "the first one counts");
        let (mut connection, mut other) = pair();
        assert!(connection.put(&vec![b'x'; 4 << 20]).is_ok() && connection.wants_to_write());
        let later = Instant::now() + PATIENCE;
        std::thread::sleep(Duration::from_millis(20));
        std::io::Read::read_exact(&mut other, &mut vec![0; 1 << 16]).unwrap();
        assert!(connection.write().is_ok() && connection.wants_to_write());
        assert!(connection.is_overdue(later + Duration::from_millis(10)), "its beginning counts");
    }

    #[test]
    fn a_client_that_does_not_read_events_loses_them_and_is_told() {
        let (mut connection, other) = pair();
        let line = [b"x".repeat(999), b"\n".to_vec()].concat();
        assert!(connection.put_event(&line).is_ok() && !connection.wants_to_write());
        connection.subscribe();
        let mut most = 0;
        for _ in 0..10_000 {
            assert!(connection.put_event(&line).is_ok());
            most = most.max(connection.answer.len());
        }
        assert!((EVENT_BYTES / 2..EVENT_BYTES + 1000).contains(&most), "{most} bytes wait");
        assert_eq!(connection.subscription, Subscription::Lost);
        // It has a minute to read what waits, and no more.
        assert!(!connection.is_overdue(Instant::now() + PATIENCE * 2));
        assert!(connection.is_overdue(Instant::now() + IDLE + PATIENCE));
        other.set_nonblocking(true).unwrap();
        let mut read = Vec::new();
        while connection.wants_to_write() {
            let _ = std::io::Read::read_to_end(&mut &other, &mut read);
            assert!(connection.write().is_ok());
        }
        let _ = std::io::Read::read_to_end(&mut &other, &mut read);
        let text = String::from_utf8(read).unwrap();
        assert!(
            text.ends_with("\"}\n")
                && text.lines().last().unwrap().contains("64 KiB of events were not read")
        );
    }

    #[test]
    fn a_client_that_reads_its_events_keeps_them_however_long_it_is_silent() {
        let (mut connection, mut other) = pair();
        connection.subscribe();
        let line = [b"x".repeat(999), b"\n".to_vec()].concat();
        for _ in 0..1000 {
            assert!(connection.put_event(&line).is_ok());
            std::io::Read::read_exact(&mut other, &mut vec![0; line.len()]).unwrap();
        }
        assert!(matches!(connection.subscription, Subscription::Open { .. }));
        assert!(!connection.is_overdue(Instant::now() + IDLE * 10));
    }

    #[test]
    fn neither_reading_nor_writing_waits_for_the_other_end() {
        let (own, _other) = UnixStream::pair().unwrap();
        // A socket that waits after all does so for this long.
        own.set_read_timeout(Some(PATIENCE)).unwrap();
        own.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut connection = Connection::new(own, &Arc::new(DropQueue::new("closer", 1))).unwrap();
        let since = Instant::now();
        assert!(connection.read().is_ok() && connection.put(&vec![b'x'; 4 << 20]).is_ok());
        assert!(connection.wants_to_write() && since.elapsed() < PATIENCE / 2, "{:?}", since.elapsed());
    }

    #[test]
    fn one_long_request_is_told_from_many_that_wait() {
        for (part, said) in
            [(vec![b'x'; 4096], "a request is longer"), (b"{}\n".repeat(1365), "requests wait")]
        {
            let (mut connection, mut other) = pair();
            let why = loop {
                other.write_all(&part).unwrap();
                match connection.read() {
                    Ok(()) => {}
                    Err(End::Told(why)) => break why,
                    Err(End::Gone) => panic!("it is gone"),
                }
            };
            assert!(why.contains(said), "{why}");
        }
    }

    #[test]
    fn an_answer_over_the_limit_is_named_and_the_next_request_answered() {
        let (mut connection, other) = pair();
        other.set_nonblocking(true).unwrap();
        assert!(connection.put(&vec![b'x'; ANSWER_BYTES + 1]).is_ok() && !connection.wants_to_write());
        assert!(connection.put(b"next\n").is_ok());
        let mut read = Vec::new();
        let _ = std::io::Read::read_to_end(&mut &other, &mut read);
        let text = String::from_utf8(read).unwrap();
        assert!(text.contains("8 MiB is the limit") && text.ends_with("\nnext\n"), "{text}");
    }

    #[test]
    fn answers_that_nobody_reads_have_their_limit_and_end_the_requests() {
        let (mut connection, mut other) = pair();
        other.write_all(b"one\ntwo\n").unwrap();
        assert!(connection.read().is_ok());
        assert_eq!(connection.next_request().unwrap().0, b"one\n");
        // The system takes some of them, and no more.
        let answer = vec![b'x'; 1 << 20];
        let taken = (0..20).take_while(|_| connection.put(&answer).is_ok()).count();
        assert!((8..=10).contains(&taken), "{taken} MiB");
        assert!(connection.next_request().is_none() && !connection.has_request());
    }
}
