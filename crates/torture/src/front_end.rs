//! The socket of a hostile front-end, and the session of one that is right up to a point.

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

use crate::memory::{BYTES, GUEST, Memory, Ring, SIZE, USER};
use crate::message::{self, HEADER_BYTES, VERSION, id, state, words};

/// How long an answer may take in a session that is right.
const ANSWER: Duration = Duration::from_secs(2);
/// Descriptors of a message at most (SCM_MAX_FD is 253).
const MOST_DESCRIPTORS: usize = 64;
/// Bit 8 of a kick, call or error message: no descriptor comes along.
const NO_DESCRIPTOR: u64 = 1 << 8;

/// A connection.
pub struct FrontEnd {
    stream: UnixStream,
    /// Messages sent.
    pub messages: u64,
}

impl FrontEnd {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_nonblocking(true)?;
        Ok(FrontEnd { stream, messages: 0 })
    }

    /// Sends bytes with descriptors; `false` if the other end has closed, or takes no more.
    pub fn send(&mut self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> bool {
        let descriptors = &descriptors[..descriptors.len().min(MOST_DESCRIPTORS)];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        self.messages += 1;
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

    /// Sends as much as the other end takes at once, and reads no answer meanwhile.
    pub fn send_unread(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Ok(sent) = rustix::net::send(&self.stream, rest, SendFlags::NOSIGNAL) {
            rest = &rest[sent..];
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Reads and forgets what is there; `false` at the end of the connection.
    pub fn drain(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    fn wait(&self, flags: PollFlags, limit: Duration) {
        let limit = Timespec::try_from(limit).ok();
        let _ = poll(&mut [PollFd::new(&self.stream, flags)], limit.as_ref());
    }

    /// Whether the other end closes the connection by then.
    pub fn is_closed_within(&mut self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        loop {
            if !self.drain() {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.wait(PollFlags::IN, left);
        }
    }

    /// Asks and hears a number.
    ///
    /// # Errors
    /// No answer, or another one.
    pub fn ask(&mut self, request: u32) -> io::Result<u64> {
        if !self.send(&message::message(request, VERSION, &[]), &[]) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut answer = [0; HEADER_BYTES + 8];
        let mut got = 0;
        let until = Instant::now() + ANSWER;
        while got < answer.len() {
            match self.stream.read(&mut answer[got..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => got += bytes,
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
        let [.., a, b, c, d, e, f, g, h] = answer;
        Ok(u64::from_ne_bytes([a, b, c, d, e, f, g, h]))
    }

    /// A message without descriptors.
    pub fn say(&mut self, request: u32, payload: &[u8]) -> bool {
        self.send(&message::message(request, VERSION, payload), &[])
    }
}

/// A front-end whose session was right so far.
pub struct Session {
    pub front_end: FrontEnd,
    pub memory: Memory,
    /// What was agreed on.
    pub features: Features,
    kicks: Vec<OwnedFd>,
}

impl Session {
    /// Agrees on `wanted` as far as it is offered, and shares memory.
    ///
    /// # Errors
    /// The back-end does not answer.
    pub fn begin(path: &Path, wanted: Features) -> io::Result<Self> {
        let mut front_end = FrontEnd::connect(path)?;
        let offered = Features::from_bits_retain(front_end.ask(id::GET_FEATURES)?);
        let features = offered & (wanted | Features::VERSION_1 | Features::VHOST_PROTOCOL_FEATURES);
        if offered.contains(Features::VHOST_PROTOCOL_FEATURES) {
            let offered = front_end.ask(id::GET_PROTOCOL_FEATURES)?;
            let agreed = offered & (ProtocolFeatures::REPLY_ACK | ProtocolFeatures::INFLIGHT_SHMFD).bits();
            front_end.say(id::SET_PROTOCOL_FEATURES, &words(&[agreed]));
        }
        front_end.say(id::SET_FEATURES, &words(&[features.bits()]));
        front_end.say(id::SET_OWNER, &[]);
        let memory = Memory::new()?;
        let table = words(&[1, GUEST, BYTES, USER, 0]);
        front_end.send(&message::message(id::SET_MEM_TABLE, VERSION, &table), &[memory.file().as_fd()]);
        Ok(Session { front_end, memory, features, kicks: Vec::new() })
    }

    /// Starts a queue where [`Ring::of`] says, with a call of its own or the given one.
    ///
    /// # Errors
    /// The system has no descriptors.
    pub fn start_queue(&mut self, index: u32, call: Option<&OwnedFd>) -> io::Result<()> {
        let own = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let kick = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let ring = Ring::of(index);
        let front_end = &mut self.front_end;
        front_end.say(id::SET_VRING_NUM, &state(index, SIZE.into()));
        front_end.say(
            id::SET_VRING_BASE,
            &state(index, if self.features.contains(Features::RING_PACKED) { 0x8000_8000 } else { 0 }),
        );
        let mut address = state(index, 0);
        address.extend(words(&[USER + ring.descriptors, USER + ring.device, USER + ring.driver, 0]));
        front_end.say(id::SET_VRING_ADDR, &address);
        let number = words(&[u64::from(index)]);
        let call = call.unwrap_or(&own);
        front_end.send(&message::message(id::SET_VRING_CALL, VERSION, &number), &[call.as_fd()]);
        front_end.send(&message::message(id::SET_VRING_KICK, VERSION, &number), &[kick.as_fd()]);
        front_end.say(id::SET_VRING_ERR, &words(&[u64::from(index) | NO_DESCRIPTOR]));
        front_end.say(id::SET_VRING_ENABLE, &state(index, 1));
        self.kicks.push(kick);
        Ok(())
    }

    /// Kicks all queues that were started.
    pub fn kick(&self) {
        for kick in &self.kicks {
            let _ = rustix::io::write(kick, &1u64.to_ne_bytes());
        }
    }
}
