//! One connection: whole messages in, whole messages out.
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, take};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};

use super::{SocketError, system};
use crate::SharedFd;
use crate::codec::header::Header;
use crate::codec::{MAX_FDS, Message};

/// Messages that may wait for a peer that does not read; more than any exchange has under way. Each may hold
/// descriptors open.
const MAX_BACKLOG: usize = 64;

/// Bytes of sent messages that the kernel keeps for a peer that does not read. It rounds this up, to room for
/// about six. More would serve no purpose: descriptors in them count against a limit of this user.
const UNREAD_BYTES: usize = 2048;

/// Most descriptors that the kernel passes with one message (`SCM_MAX_FD`, unix(7)). There is room for all: those
/// without are closed by the kernel, before any filter sees them.
const MAX_FDS_OF_KERNEL: usize = 253;

/// Checks each descriptor before any other use, because the peer determines how long closing a descriptor takes.
pub trait DescriptorFilter: std::fmt::Debug + Send + Sync {
    /// Admits a descriptor that was received over this socket, wrapped so that the filter decides how it is closed.
    /// If the filter rejects the descriptor, it also closes it.
    ///
    /// # Errors
    /// The kind of the descriptor, if the filter rejects it.
    fn admit(&self, fd: OwnedFd, socket: BorrowedFd<'_>) -> Result<SharedFd, String>;

    /// Wraps a socket to a peer. Closing it also closes all descriptors that were sent over it and never received.
    fn hold(&self, socket: OwnedFd) -> SharedFd;
}

/// A connected socket, with messages that are sent or received only in part.
#[derive(Debug)]
pub struct Connection {
    stream: SharedFd,
    /// Received bytes of an incomplete message, never more than one message.
    bytes: Vec<u8>,
    fds: Vec<SharedFd>,
    header: Option<Header>,
    outbox: VecDeque<Outgoing>,
    filter: Option<Arc<dyn DescriptorFilter>>,
}

/// Messages in transit on a connection that is handed over to another process.
#[derive(Debug, Default)]
pub struct UnderWay {
    /// Bytes of a message that was received in part.
    pub received: Vec<u8>,
    /// Descriptors that were received with these bytes.
    pub received_fds: Vec<SharedFd>,
    /// Unsent messages or their unsent parts, with their descriptors.
    pub unsent: Vec<(Vec<u8>, Vec<SharedFd>)>,
}

#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    fds: Vec<SharedFd>,
}

impl Drop for Connection {
    /// Shuts the socket down, so that the peer sees the end at once. Closing alone would not do: a process that
    /// another thread is just starting holds a copy of the descriptor until `execve`, and a back-end that takes one
    /// front-end at a time may meet the next one before it sees that the last is gone.
    fn drop(&mut self) {
        // Fails if the peer has gone first.
        let _ = shutdown(&self.stream, Shutdown::Both);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl From<UnixStream> for Connection {
    fn from(stream: UnixStream) -> Self {
        OwnedFd::from(stream).into()
    }
}

impl From<OwnedFd> for Connection {
    fn from(fd: OwnedFd) -> Self {
        SharedFd::from(fd).into()
    }
}

impl From<SharedFd> for Connection {
    /// Serves the socket of SET_BACKEND_REQ_FD too. If the descriptor is no socket, the first use returns the error.
    fn from(stream: SharedFd) -> Self {
        Self {
            stream,
            bytes: Vec::new(),
            fds: Vec::new(),
            header: None,
            outbox: VecDeque::new(),
            filter: None,
        }
    }
}

impl Connection {
    /// Connects to the server that listens at the path.
    ///
    /// # Errors
    /// No server listens at the path, or the path may not be accessed.
    pub fn connect(path: &Path) -> Result<Self, SocketError> {
        UnixStream::connect(path).map(Self::from).map_err(|source| SocketError::System {
            what: format!("connect to the vhost-user socket {} (is its server running?)", path.display()),
            source,
        })
    }

    /// The messages in transit, for the process that takes over the connection ([`Self::take_over`]).
    pub fn under_way(&self) -> UnderWay {
        let mut received = self.header.map_or_else(Vec::new, |header| header.to_bytes().to_vec());
        received.extend_from_slice(&self.bytes);
        let unsent = |waiting: &Outgoing| (waiting.bytes[waiting.sent..].to_vec(), waiting.fds.clone());
        UnderWay {
            received,
            received_fds: self.fds.clone(),
            unsent: self.outbox.iter().map(unsent).collect(),
        }
    }

    /// Continues a connection that another process had.
    ///
    /// # Errors
    /// The received bytes are no valid header or exceed one message, or there are more than 8 descriptors or 64
    /// unsent messages. No connection hands over such a state.
    pub fn take_over(stream: SharedFd, under_way: UnderWay) -> Result<Self, SocketError> {
        let mut connection = Self::from(stream);
        let UnderWay { received, received_fds, unsent } = under_way;
        connection.bytes = received;
        if connection.bytes.len() >= Header::BYTES {
            let rest = connection.bytes.split_off(Header::BYTES);
            if let Ok(header) = <[u8; Header::BYTES]>::try_from(&connection.bytes[..]) {
                connection.header = Some(Header::parse(header)?);
            }
            connection.bytes = rest;
        }
        // Bytes beyond the message that was begun were never taken from the socket.
        let longest = connection.header.map_or(Header::BYTES, |header| header.size as usize);
        if connection.bytes.len() > longest || received_fds.len() > MAX_FDS || unsent.len() > MAX_BACKLOG {
            return Err(SocketError::TooManyFds);
        }
        connection.fds = received_fds;
        connection.outbox = unsent.into_iter().map(|(bytes, fds)| Outgoing { bytes, sent: 0, fds }).collect();
        Ok(connection)
    }

    /// Gives up a connection that another process continues. The socket is not shut down, so the peer notices
    /// nothing.
    pub fn leave(self) {
        // `drop` would shut the socket down for all its holders.
        std::mem::forget(self);
    }

    /// The socket, with its other holders.
    pub fn socket(&self) -> &SharedFd {
        &self.stream
    }

    /// Passes all descriptors received from now on through a filter.
    pub fn set_filter(&mut self, filter: Arc<dyn DescriptorFilter>) {
        self.filter = Some(filter);
    }

    /// Whether the peer has closed the connection, even if there are unread messages.
    pub fn has_gone(&self) -> bool {
        let mut polled = [PollFd::new(&self.stream, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&at_once)).is_ok() && polled[0].revents().contains(PollFlags::HUP)
    }

    /// Limits the bytes that the kernel keeps for a peer that does not read. Further messages wait in this process,
    /// and [`Self::flush`] reports that.
    ///
    /// # Errors
    /// `setsockopt(SO_SNDBUF)` is refused: the descriptor is no open socket.
    pub fn limit_unread(&self) -> Result<(), SocketError> {
        set_socket_send_buffer_size(&self.stream, UNREAD_BYTES).map_err(system("limit the unread messages"))
    }

    /// The next message. Waits for it until the deadline, or without a limit if there is none.
    ///
    /// # Errors
    /// The causes of [`Self::try_receive`], the deadline has passed, or `poll` is refused.
    pub fn receive(&mut self, deadline: Option<Instant>) -> Result<Message, SocketError> {
        loop {
            if let Some(message) = self.try_receive()? {
                return Ok(message);
            }
            self.wait(PollFlags::IN, deadline, "send a whole message")?;
        }
    }

    /// The next message, or `None` if it has not arrived. Call again when the socket is readable.
    ///
    /// # Errors
    /// The peer has closed the connection, or the header has another version or too long a payload. A descriptor
    /// was rejected by the filter, dropped by the kernel, or is one of more than 8. Or `recvmsg` is refused.
    pub fn try_receive(&mut self) -> Result<Option<Message>, SocketError> {
        loop {
            let missing = match &self.header {
                None => Header::BYTES - self.bytes.len(),
                Some(header) => header.size as usize - self.bytes.len(),
            };
            if missing > 0 && !self.read(missing)? {
                return Ok(None);
            }
            match self.header {
                None => {
                    let Ok(bytes) = <[u8; Header::BYTES]>::try_from(&self.bytes[..]) else { continue };
                    self.header = Some(Header::parse(bytes)?);
                    self.bytes.clear();
                }
                Some(header) if self.bytes.len() == header.size as usize => {
                    self.header = None;
                    return Ok(Some(Message {
                        header,
                        payload: take(&mut self.bytes),
                        fds: take(&mut self.fds),
                    }));
                }
                Some(_) => {}
            }
        }
    }

    /// Reads up to `missing` bytes; false if none are there.
    fn read(&mut self, missing: usize) -> Result<bool, SocketError> {
        let have = self.bytes.len();
        self.bytes.resize(have + missing, 0);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS_OF_KERNEL))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let result =
            recvmsg(&self.stream, &mut [IoSliceMut::new(&mut self.bytes[have..])], &mut control, flags);
        self.bytes.truncate(have + result.as_ref().map_or(0, |received| received.bytes));
        let received = match result {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(false),
            Err(Errno::INTR) => return Ok(true),
            Err(Errno::CONNRESET) => return Err(self.ended()),
            Err(errno) => return Err(system("receive a vhost-user message")(errno)),
        };
        let mut refused = None;
        for message in control.drain() {
            let RecvAncillaryMessage::ScmRights(fds) = message else { continue };
            for fd in fds {
                let admitted = match &self.filter {
                    Some(filter) => filter.admit(fd, self.stream.as_fd()),
                    None => Ok(fd.into()),
                };
                match admitted {
                    Ok(fd) => self.fds.push(fd),
                    Err(kind) => refused = Some(kind),
                }
            }
        }
        if let Some(kind) = refused {
            return Err(SocketError::FdRefused(kind));
        }
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return Err(SocketError::FdsLost);
        }
        if self.fds.len() > MAX_FDS {
            return Err(SocketError::TooManyFds);
        }
        if received.bytes == 0 {
            return Err(self.ended());
        }
        Ok(true)
    }

    fn ended(&self) -> SocketError {
        let have = self.header.map_or(0, |_| Header::BYTES) + self.bytes.len();
        if have == 0 { SocketError::Closed } else { SocketError::Truncated { have } }
    }

    /// Sends the queued messages and this one. Waits for the peer until the deadline, or without a limit if there
    /// is none.
    ///
    /// # Errors
    /// The causes of [`Self::try_send`], the deadline has passed, or `poll` is refused. The message stays queued if
    /// the deadline has passed.
    pub fn send(&mut self, message: Message, deadline: Option<Instant>) -> Result<(), SocketError> {
        self.enqueue(message)?;
        while !self.flush()? {
            self.wait(PollFlags::OUT, deadline, "read")?;
        }
        Ok(())
    }

    /// Sends as much as possible now. 64 messages wait already, or a cause of [`Self::flush`].
    ///
    /// # Errors
    /// 64 messages wait already; or as [`Self::flush`].
    pub fn try_send(&mut self, message: Message) -> Result<bool, SocketError> {
        self.enqueue(message)?;
        self.flush()
    }

    fn enqueue(&mut self, message: Message) -> Result<(), SocketError> {
        if self.outbox.len() >= MAX_BACKLOG {
            return Err(SocketError::Backlog(self.outbox.len()));
        }
        let bytes = message.to_bytes();
        self.outbox.push_back(Outgoing { bytes, sent: 0, fds: message.fds });
        Ok(())
    }

    /// Sends queued messages as far as the peer has room. Returns true once the queue is empty.
    ///
    /// # Errors
    /// The peer has closed the connection, a message has more than 8 descriptors, or `sendmsg` is refused.
    pub fn flush(&mut self) -> Result<bool, SocketError> {
        while let Some(next) = self.outbox.front_mut() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let borrowed: Vec<_> = next.fds.iter().map(AsFd::as_fd).collect();
            if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
                return Err(SocketError::TooManyFds);
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(&self.stream, &[IoSlice::new(&next.bytes[next.sent..])], &mut control, flags) {
                Ok(count) => {
                    next.sent += count;
                    // Descriptors travel with the first byte; they must not go twice.
                    next.fds.clear();
                    if next.sent == next.bytes.len() {
                        self.outbox.pop_front();
                    }
                }
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(SocketError::Closed),
                Err(errno) => return Err(system("send a vhost-user message")(errno)),
            }
        }
        Ok(true)
    }

    fn wait(
        &self,
        events: PollFlags,
        deadline: Option<Instant>,
        what: &'static str,
    ) -> Result<(), SocketError> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Err(SocketError::Deadline { what });
        }
        let timeout = left.map(|left| Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::new(&self.stream, events)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(system("wait for the vhost-user socket")(errno)),
        }
    }
}
