//! Lines to and from an agent, with deadlines.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use linux::interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// No line of an agent is longer.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Pause between two reads of a line that is not complete yet. A guest's serial port delivers single bytes, and a
/// reader that wakes for each of them takes CPU time from the guest.
const REST: Duration = Duration::from_millis(1);

/// How long a wait blocks before it checks for SIGINT again.
const SLICE: Duration = Duration::from_millis(50);

/// The reason why no line was received or sent.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The agent's end of the channel is closed.
    #[error("the agent closed its channel")]
    Closed,
    /// The time limit passed without a line, or without space to send one.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The received bytes are not a line of text.
    #[error("the agent sent {0}")]
    Malformed(&'static str),
    /// The system refused the read or write.
    #[error("channel: {0}")]
    System(#[from] io::Error),
}

/// A two-way channel of lines over a pair of file descriptors.
#[derive(Debug)]
pub struct Channel {
    from_agent: std::fs::File,
    to_agent: std::fs::File,
    pending: VecDeque<u8>,
    /// The number of bytes of `pending` that were already searched for a line end.
    searched: usize,
}

impl Channel {
    /// Makes a channel from the descriptor that the agent writes to and the descriptor that the agent reads from.
    /// Both descriptors become non-blocking.
    ///
    /// # Errors
    /// The kernel refuses to make a descriptor non-blocking.
    pub fn new(from_agent: OwnedFd, to_agent: OwnedFd) -> io::Result<Self> {
        for fd in [&from_agent, &to_agent] {
            fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        }
        Ok(Channel {
            from_agent: from_agent.into(),
            to_agent: to_agent.into(),
            pending: VecDeque::new(),
            searched: 0,
        })
    }

    /// Sends one line; `line` must not hold a line end.
    ///
    /// # Errors
    /// The agent closed its end, does not read for `limit`, the user interrupts, or the system refuses the write.
    pub fn send(&mut self, line: &str, limit: Duration) -> Result<(), ChannelError> {
        let deadline = Instant::now() + limit;
        let message = [line.as_bytes(), b"\n"].concat();
        let mut rest = &message[..];
        while !rest.is_empty() {
            match self.to_agent.write(rest) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(n) => rest = &rest[n..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    wait(&self.to_agent, PollFlags::OUT, deadline, limit)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Err(ChannelError::Closed),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Returns the next line, without its line end. Waits up to `limit` for the first byte and again for each further
    /// part, because a long answer through a slow guest's serial port takes a minute.
    ///
    /// # Errors
    /// The agent closed its end, sends nothing for `limit`, sends a line of more than 16 MiB or one that is not
    /// UTF-8, the user interrupts, or the system refuses the read.
    pub fn receive(&mut self, limit: Duration) -> Result<String, ChannelError> {
        let mut deadline = Instant::now() + limit;
        loop {
            if let Some(line) = self.take_line()? {
                return Ok(line);
            }
            let mut buffer = [0; 16 << 10];
            match self.from_agent.read(&mut buffer) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(n) => {
                    self.pending.extend(&buffer[..n]);
                    deadline = Instant::now() + limit;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !self.pending.is_empty() {
                        std::thread::sleep(REST);
                    }
                    wait(&self.from_agent, PollFlags::IN, deadline, limit)?;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Err(ChannelError::Closed),
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn take_line(&mut self) -> Result<Option<String>, ChannelError> {
        let end = self.pending.iter().skip(self.searched).position(|&byte| byte == b'\n');
        let Some(end) = end.map(|offset| self.searched + offset) else {
            self.searched = self.pending.len();
            if self.pending.len() > MAX_LINE_BYTES {
                return Err(ChannelError::Malformed("a line of more than 16 MiB"));
            }
            return Ok(None);
        };
        self.searched = 0;
        let mut line: Vec<u8> = self.pending.drain(..=end).collect();
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        let line =
            String::from_utf8(line).map_err(|_| ChannelError::Malformed("a line that is not UTF-8"))?;
        Ok(Some(line))
    }
}

fn wait(fd: &impl AsFd, events: PollFlags, deadline: Instant, limit: Duration) -> Result<(), ChannelError> {
    loop {
        interrupt::check().map_err(|_| ChannelError::Interrupted)?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ChannelError::Late(limit));
        }
        let slice = Timespec::try_from(left.min(SLICE)).ok();
        match poll(&mut [PollFd::new(fd, events)], slice.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(io::Error::from(e).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Channel, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let write = ours.try_clone().unwrap();
        (Channel::new(ours.into(), write.into()).unwrap(), theirs)
    }

    #[test]
    fn lines_arrive_whole_however_they_were_cut() {
        let (mut channel, mut peer) = pair();
        peer.write_all(b"first\r\nsec").unwrap();
        assert_eq!(channel.receive(Duration::from_secs(1)).unwrap(), "first");
        let short = channel.receive(Duration::from_millis(20));
        assert!(matches!(short, Err(ChannelError::Late(_))), "{short:?}");
        peer.write_all(b"ond\n").unwrap();
        assert_eq!(channel.receive(Duration::from_secs(1)).unwrap(), "second");
    }

    #[test]
    fn a_line_that_goes_on_is_waited_for() {
        let (mut channel, mut peer) = pair();
        let slow = std::thread::spawn(move || {
            for byte in b"slowly\n" {
                peer.write_all(&[*byte]).unwrap();
                std::thread::sleep(Duration::from_millis(100));
            }
            peer
        });
        assert_eq!(channel.receive(Duration::from_millis(400)).unwrap(), "slowly");
        let _open = slow.join().unwrap();
        let silent = channel.receive(Duration::from_millis(20));
        assert!(matches!(silent, Err(ChannelError::Late(_))), "{silent:?}");
    }

    #[test]
    fn a_closed_end_is_said() {
        let (mut channel, peer) = pair();
        drop(peer);
        assert!(matches!(channel.receive(Duration::from_secs(1)), Err(ChannelError::Closed)));
        assert!(matches!(channel.send("x", Duration::from_secs(1)), Err(ChannelError::Closed)));
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error() {
        let (mut channel, mut peer) = pair();
        peer.write_all(b"\xff\xfe\n").unwrap();
        assert!(matches!(channel.receive(Duration::from_secs(1)), Err(ChannelError::Malformed(_))));
    }
}
