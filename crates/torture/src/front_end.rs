//! The socket of a hostile front-end, and a session that is correct at its start.

use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use vhost_user::bits::ProtocolFeatures;
use virtio::Features;

use crate::answers::Answers;
use crate::memory::{BYTES, GUEST, MARGIN, Memory, Ring, SIZE, USER};
use crate::message::{self, HEADER_BYTES, VERSION, id, state, words};

/// How long an answer may take in a correct session.
const ANSWER: Duration = Duration::from_secs(2);
/// Descriptors of a message at most (SCM_MAX_FD is 253).
const MOST_DESCRIPTORS: usize = 64;

/// A connection.
pub struct FrontEnd {
    stream: UnixStream,
    answers: Answers,
}

impl FrontEnd {
    /// Connects to a back-end's socket.
    ///
    /// # Errors
    /// The socket does not exist, or no process listens on it.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_nonblocking(true)?;
        Ok(FrontEnd { stream, answers: Answers::default() })
    }

    /// Sends bytes with descriptors. Returns `false` if the other end has closed the connection, or accepts no more.
    pub fn send(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
        let descriptors = &descriptors[..descriptors.len().min(MOST_DESCRIPTORS)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let until = Instant::now() + Duration::from_millis(200);
        loop {
            match sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
                Ok(sent) => return sent == bytes.len(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if Instant::now() < until => {
                    self.drain();
                    self.wait(PollFlags::OUT, Duration::from_millis(20));
                }
                Err(_) => return false,
            }
        }
    }

    /// Sends as much as the other end accepts at once, without reading answers.
    pub fn send_unread(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Ok(sent) = rustix::net::send(&self.stream, rest, SendFlags::NOSIGNAL) {
            rest = &rest[sent..];
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Reads the available answers and counts them. Returns `false` at the end of the connection.
    pub fn drain(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(read) => self.answers.take(&bytes[..read]),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    /// The number of answers so far.
    pub fn answered(&self) -> u64 {
        self.answers.whole
    }

    fn wait(&self, flags: PollFlags, limit: Duration) {
        let limit = Timespec::try_from(limit).ok();
        let _ = poll(&mut [PollFd::new(&self.stream, flags)], limit.as_ref());
    }

    /// Whether the other end closes the connection within `limit`.
    pub fn is_closed_within(&mut self, limit: Duration) -> bool {
        !self.hears(u64::MAX, limit)
    }

    /// Waits until `answers` answers have come in total, or `limit` has passed. Returns `false` at the end of the
    /// connection.
    pub fn hears(&mut self, answers: u64, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            if !self.drain() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.answered() >= answers {
                return true;
            }
            self.wait(PollFlags::IN, left);
        }
    }

    /// Sends a request without a payload and returns the number of 64 bits in the answer.
    ///
    /// # Errors
    /// As [`Self::ask_with`].
    pub fn ask(&mut self, request: u32) -> io::Result<u64> {
        self.ask_with(request, &[], 8)
    }

    /// Sends a request and returns the 64-bit number at the end of the answer, whose payload has `answer_bytes` bytes.
    ///
    /// # Errors
    /// The request cannot be sent, the back-end closes the connection, the answer is not whole within 2 s, or its header
    /// is not that of an answer to this request.
    pub fn ask_with(&mut self, request: u32, payload: &[u8], answer_bytes: usize) -> io::Result<u64> {
        if !self.say(request, payload) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut answer = vec![0; HEADER_BYTES + answer_bytes];
        let (mut got, mut is_checked) = (0, false);
        let until = Instant::now() + ANSWER;
        while got < answer.len() {
            match self.stream.read(&mut answer[got..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => {
                    got += bytes;
                    // At once: a wrong answer may be shorter than the right one.
                    if let (false, Some(header)) = (is_checked, answer[..got].first_chunk()) {
                        message::check_answer(*header, request, answer_bytes)
                            .map_err(|wrong| io::Error::new(io::ErrorKind::InvalidData, wrong))?;
                        is_checked = true;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    self.wait(PollFlags::IN, left);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(answer.last_chunk().map_or(0, |number| u64::from_ne_bytes(*number)))
    }

    /// Sends a message without descriptors.
    pub fn say(&mut self, request: u32, payload: &[u8]) -> bool {
        self.send(&message::message(request, VERSION, payload), &[])
    }
}

/// A ring that was started, and the notifications of both ends.
struct Started {
    index: u32,
    kick: OwnedFd,
    call: OwnedFd,
    err: OwnedFd,
}

/// The back-end's reaction to a state of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The back-end has called: buffers were used.
    Used,
    /// The back-end has stopped the ring and signalled that.
    Stopped,
    /// The back-end did not react.
    No,
    /// The back-end has closed the connection.
    Closed,
}

/// A front-end whose session was correct so far.
pub struct Session {
    pub front_end: FrontEnd,
    pub memory: Memory,
    /// The negotiated features.
    pub features: Features,
    /// Whether a message may ask for an answer.
    pub answers: bool,
    /// Whether the back-end is a crypto device.
    pub has_crypto: bool,
    started: Vec<Started>,
}

fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)
}

impl Session {
    /// Connects, negotiates those of the features `wanted` that are offered, and shares memory.
    ///
    /// # Errors
    /// The back-end cannot be connected to or does not answer within 2 s, or the memory cannot be made.
    pub fn begin(path: &Path, wanted: Features) -> io::Result<Self> {
        let mut front_end = FrontEnd::connect(path)?;
        let offered = Features::from_bits_retain(front_end.ask(id::GET_FEATURES)?);
        let features = offered & (wanted | Features::VERSION_1 | Features::VHOST_PROTOCOL_FEATURES);
        let (mut answers, mut has_crypto) = (false, false);
        if offered.contains(Features::VHOST_PROTOCOL_FEATURES) {
            let offered = ProtocolFeatures::from_bits_retain(front_end.ask(id::GET_PROTOCOL_FEATURES)?);
            let wanted = ProtocolFeatures::REPLY_ACK
                | ProtocolFeatures::INFLIGHT_SHMFD
                | ProtocolFeatures::CRYPTO_SESSION;
            let agreed = offered & wanted;
            front_end.say(id::SET_PROTOCOL_FEATURES, &words(&[agreed.bits()]));
            answers = agreed.contains(ProtocolFeatures::REPLY_ACK);
            has_crypto = agreed.contains(ProtocolFeatures::CRYPTO_SESSION);
        }
        let memory = Memory::new()?;
        let mut session = Session { front_end, memory, features, answers, has_crypto, started: Vec::new() };
        session.say_right(id::SET_FEATURES, 0);
        session.front_end.say(id::SET_OWNER, &[]);
        session.share_memory(None);
        Ok(session)
    }

    /// Shares the session's memory, and behind it a second one, if there is one. What was shared before is withdrawn.
    pub fn share_memory(&mut self, second: Option<&Memory>) -> bool {
        let mut table = self.right(id::SET_MEM_TABLE, 0);
        let mut files = vec![self.memory.file().as_fd()];
        if let Some(second) = second {
            table[..8].copy_from_slice(&2u64.to_ne_bytes());
            table.extend(words(&[GUEST + BYTES, BYTES, USER + BYTES, MARGIN]));
            files.push(second.file().as_fd());
        }
        self.front_end.send(&message::message(id::SET_MEM_TABLE, VERSION, &table), &files)
    }

    /// The payload with which this session correctly sends a message; empty for messages that it does not use.
    pub fn right(&self, request: u32, index: u32) -> Vec<u8> {
        let ring = Ring::of(index);
        match request {
            id::SET_FEATURES => words(&[self.features.bits()]),
            id::SET_MEM_TABLE => words(&[1, GUEST, BYTES, USER, MARGIN]),
            id::ADD_MEM_REG => words(&[0, GUEST + BYTES, BYTES, USER + BYTES, MARGIN]),
            id::SET_VRING_NUM => state(index, SIZE.into()),
            id::SET_VRING_BASE if self.features.contains(Features::RING_PACKED) => state(index, 0x8000_8000),
            id::SET_VRING_BASE | id::GET_VRING_BASE => state(index, 0),
            id::SET_VRING_ADDR => {
                let places = [ring.descriptors, ring.device, ring.driver].map(|offset| USER + offset);
                [state(index, 0), words(&places), words(&[0])].concat()
            }
            id::SET_VRING_KICK..=id::SET_VRING_ERR => words(&[u64::from(index)]),
            id::SET_VRING_ENABLE => state(index, 1),
            _ => Vec::new(),
        }
    }

    fn say_right(&mut self, request: u32, index: u32) -> bool {
        let payload = self.right(request, index);
        self.front_end.say(request, &payload)
    }

    /// Starts a queue at the addresses of [`Ring::of`], with the given call eventfd or a new one. Whether the
    /// back-end accepts the messages is not checked.
    ///
    /// # Errors
    /// No eventfd can be made or duplicated: too many open files.
    pub fn start_queue(&mut self, index: u32, call: Option<&OwnedFd>) -> io::Result<()> {
        let call = call.map_or_else(event, OwnedFd::try_clone)?;
        self.started.push(Started { index, kick: event()?, call, err: event()? });
        self.set_up(self.started.len() - 1);
        Ok(())
    }

    /// The messages that start a queue.
    fn set_up(&mut self, at: usize) {
        let index = self.started[at].index;
        for request in [id::SET_VRING_NUM, id::SET_VRING_BASE, id::SET_VRING_ADDR] {
            self.say_right(request, index);
        }
        let number = self.right(id::SET_VRING_KICK, index);
        let Started { kick, call, err, .. } = &self.started[at];
        for (request, descriptor) in
            [(id::SET_VRING_CALL, call), (id::SET_VRING_ERR, err), (id::SET_VRING_KICK, kick)]
        {
            self.front_end.send(&message::message(request, VERSION, &number), &[descriptor.as_fd()]);
        }
        self.say_right(id::SET_VRING_ENABLE, index);
    }

    /// Stops the queue that was started with number `at`, from 0. Returns `false` if the back-end does not answer.
    pub fn stop_queue(&mut self, at: usize) -> bool {
        let index = self.started[at].index;
        self.hears_after(id::GET_VRING_BASE, index)
    }

    /// Starts a stopped queue again, from its beginning. Returns `false` if the back-end does not answer.
    pub fn start_again(&mut self, at: usize) -> bool {
        self.set_up(at);
        self.settles()
    }

    /// Waits until the back-end has read all messages so far. Returns whether it has. Calls
    /// before that are discarded, because a queue may call when it starts.
    pub fn settles(&mut self) -> bool {
        let answered = self.hears_after(id::GET_FEATURES, 0);
        (0..self.started.len()).for_each(|at| self.forget(at));
        answered
    }

    /// Sends a correct message and waits up to 2 s. Returns whether it was answered.
    fn hears_after(&mut self, request: u32, index: u32) -> bool {
        self.front_end.drain();
        let wanted = self.front_end.answered() + 1;
        self.say_right(request, index)
            && self.front_end.hears(wanted, ANSWER)
            && self.front_end.answered() >= wanted
    }

    /// Kicks all started queues.
    pub fn kick(&self) {
        (0..self.started.len()).for_each(|at| self.kick_one(at));
    }

    /// Kicks the queue that was started with number `at`, from 0.
    pub fn kick_one(&self, at: usize) {
        let _ = rustix::io::write(&self.started[at].kick, &1u64.to_ne_bytes());
    }

    /// Waits up to `limit` for the back-end's reaction on a queue.
    pub fn look(&mut self, at: usize, limit: Duration) -> Seen {
        let Started { call, err, .. } = &self.started[at];
        let limit = Timespec::try_from(limit).ok();
        let mut fds = [
            PollFd::new(&self.front_end.stream, PollFlags::IN),
            PollFd::new(err, PollFlags::IN),
            PollFd::new(call, PollFlags::IN),
        ];
        let _ = poll(&mut fds, limit.as_ref());
        let [socket, stopped, used] = fds.map(|fd| !fd.revents().is_empty());
        if socket && !self.front_end.drain() {
            return Seen::Closed;
        }
        match (stopped, used) {
            (true, _) => Seen::Stopped,
            (false, true) => Seen::Used,
            (false, false) => Seen::No,
        }
    }

    /// Discards a queue's notifications so far.
    pub fn forget(&self, at: usize) {
        for event in [&self.started[at].call, &self.started[at].err] {
            let _ = rustix::io::read(event, &mut [0; 8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::{NEED_REPLY, REPLY, with_size};

    /// The result of a request for features that is answered with these bytes.
    fn asked(answer: &[u8]) -> io::Result<u64> {
        let (ours, mut theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        std::io::Write::write_all(&mut theirs, answer)?;
        FrontEnd { stream: ours, answers: Answers::default() }.ask(id::GET_FEATURES)
    }

    #[test]
    fn an_answer_counts_only_with_the_header_of_an_answer_to_the_request() {
        let number = words(&[7]);
        let answer = |id, flags| message::message(id, flags, &number);
        assert_eq!(asked(&answer(id::GET_FEATURES, VERSION | REPLY)).unwrap(), 7);
        assert_eq!(asked(&answer(id::GET_FEATURES, VERSION | REPLY | NEED_REPLY)).unwrap(), 7);
        for wrong in [
            answer(id::GET_PROTOCOL_FEATURES, VERSION | REPLY),
            answer(id::GET_FEATURES, VERSION),
            answer(id::GET_FEATURES, 2 | REPLY),
            answer(id::GET_FEATURES, REPLY),
            with_size(id::GET_FEATURES, VERSION | REPLY, 4, &number),
            // No more than a header.
            with_size(id::GET_FEATURES, VERSION | REPLY, 0, &[]),
        ] {
            let error = asked(&wrong).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{wrong:?}: {error}");
            assert!(error.to_string().starts_with("the answer to request 1 has request "), "{error}");
        }
    }
}
