//! Messages between two processes over a stream socket, all of them by one deadline, whatever signals come.
//!
//! The kernel does not restart a call with a time limit after a signal (signal(7)). Each call here is begun again with
//! the time that is left, so that frequent signals do not extend the limit.
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg,
    socket_with,
};

/// The kernel's limit of descriptors in one message (`SCM_MAX_FD`, unix(7)).
const MAX_FILES: usize = 253;

/// A socket and the deadline of its exchange.
#[derive(Clone, Copy)]
pub struct Exchange<'a> {
    socket: &'a UnixStream,
    deadline: Instant,
}

/// Connects to the socket at a path by the deadline: a listener whose queue is full makes a connection wait.
///
/// # Errors
/// Nothing listens at the path, the listener does not take the connection by the deadline (`TimedOut`), or the path is
/// too long for a socket's address.
pub fn connect_by(deadline: Instant, path: &Path) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let (socket, address) = (UnixStream::from(socket), SocketAddrUnix::new(path)?);
    by(deadline, |left| {
        socket.set_write_timeout(Some(left))?;
        Ok(connect(&socket, &address)?)
    })?;
    Ok(socket)
}

impl<'a> Exchange<'a> {
    /// An exchange over a blocking socket.
    pub fn new(socket: &'a UnixStream, deadline: Instant) -> Self {
        Exchange { socket, deadline }
    }

    /// Sends all bytes; the descriptors, at most [`MAX_FILES`], go with the first byte.
    ///
    /// # Errors
    /// The other end does not read by the deadline (`TimedOut`), or has closed the connection.
    pub fn send(&self, mut bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut files = files;
        while !bytes.is_empty() {
            let sent = by(self.deadline, |left| {
                self.socket.set_write_timeout(Some(left))?;
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
                    return Err(io::ErrorKind::InvalidInput.into());
                }
                Ok(sendmsg(self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
            })?;
            files = &[];
            bytes = &bytes[sent..];
        }
        Ok(())
    }

    /// Receives bytes into the buffer, and the descriptors that come with them. Returns the number of bytes; 0 if the
    /// other end has closed the connection.
    ///
    /// # Errors
    /// Nothing comes by the deadline (`TimedOut`), or the connection broke.
    pub fn receive(&self, buffer: &mut [u8], files: &mut Vec<OwnedFd>) -> io::Result<usize> {
        by(self.deadline, |left| {
            self.socket.set_read_timeout(Some(left))?;
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let slices = &mut [IoSliceMut::new(buffer)];
            let received = recvmsg(self.socket.as_fd(), slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    files.extend(received);
                }
            }
            Ok(received.bytes)
        })
    }
}

/// Makes a call with the time that is left until the deadline, again after each signal.
fn by<T>(deadline: Instant, mut call: impl FnMut(Duration) -> io::Result<T>) -> io::Result<T> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match call(left) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(50);

    #[test]
    fn signals_do_not_extend_the_limit_and_the_call_gets_what_is_left() {
        let begin = Instant::now();
        let mut limits = Vec::new();
        let ended: io::Result<()> = by(begin + LIMIT, |left| {
            limits.push(left);
            assert!(begin.elapsed() < Duration::from_secs(60), "the limit is {LIMIT:?}");
            thread::sleep(Duration::from_millis(5));
            Err(io::ErrorKind::Interrupted.into())
        });
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(limits.len() > 1 && limits.is_sorted_by(|one, next| one > next), "{limits:?}");
        // A call that is not interrupted any more has its result.
        let mut calls = 0;
        let done = by(Instant::now() + Duration::from_secs(60), |_| {
            calls += 1;
            if calls < 3 { Err(io::ErrorKind::Interrupted.into()) } else { Ok(calls) }
        });
        assert_eq!(done.unwrap(), 3);
    }

    #[test]
    fn bytes_and_descriptors_arrive_and_a_silent_end_is_not_waited_for() {
        let (one, other) = UnixStream::pair().unwrap();
        let long = Instant::now() + Duration::from_secs(60);
        Exchange::new(&one, long).send(b"state", &[one.as_fd(), other.as_fd()]).unwrap();
        let (mut buffer, mut files) = ([0; 16], Vec::new());
        let received = Exchange::new(&other, long).receive(&mut buffer, &mut files).unwrap();
        assert_eq!((&buffer[..received], files.len()), (&b"state"[..], 2));
        let silent = Exchange::new(&other, Instant::now() + LIMIT).receive(&mut buffer, &mut files);
        assert_eq!(silent.unwrap_err().kind(), io::ErrorKind::TimedOut);
        // A full socket whose other end does not read.
        let full = Exchange::new(&one, Instant::now() + LIMIT).send(&vec![0; 16 << 20], &[]);
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop((one, files));
        while Exchange::new(&other, long).receive(&mut buffer, &mut Vec::new()).is_ok_and(|read| read > 0) {}
    }

    #[test]
    fn a_listener_with_a_full_queue_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        // The queue holds one more than its length.
        let _first = connect_by(Instant::now() + Duration::from_secs(60), &path).unwrap();
        let second = connect_by(Instant::now() + LIMIT, &path);
        assert_eq!(second.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let none = connect_by(Instant::now() + LIMIT, &folder.path().join("none"));
        assert_eq!(none.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
