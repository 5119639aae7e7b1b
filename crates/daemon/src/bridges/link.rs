//! A socket of a connection with a controller, with or without TLS. No function here blocks.
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tls::Session;

/// A connected socket, or one whose connection is in progress.
pub struct Link {
    socket: Socket,
    tls: Option<Box<Session>>,
}

/// A socket that never waits, and whose end is an error and no signal.
struct Socket(OwnedFd);

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(recv(&self.0, buffer, RecvFlags::DONTWAIT)?.1)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(send(&self.0, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Link {
    /// The bytes of the largest buffer that one read fills.
    pub const READ_BYTES: usize = Session::READ_BYTES;

    /// A socket whose bytes are the controller's, or with a session those of TLS.
    pub fn new(socket: OwnedFd, tls: Option<Session>) -> Self {
        Link { socket: Socket(socket), tls: tls.map(Box::new) }
    }

    /// Whether the ends have not proved their keys yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Whether bytes wait for room in the socket: of `bytes`, or of TLS itself.
    pub fn waits(&self, bytes: &[u8]) -> bool {
        self.tls.as_ref().map_or(!bytes.is_empty(), |tls| tls.waits(bytes))
    }

    /// Reads once into a buffer of [`Link::READ_BYTES`]. Returns 0 if nothing has come.
    ///
    /// # Errors
    /// The controller has closed the connection, its certificate is refused, or the socket failed.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(tls) = &mut self.tls {
            return tls.read(&mut self.socket, buffer);
        }
        match self.socket.read(buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => Ok(count),
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::AGAIN | Errno::INTR)) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Sends bytes as far as the socket has room, and removes what was sent.
    ///
    /// # Errors
    /// The controller has closed the connection, or the socket failed.
    pub fn write(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            return tls.write(&mut self.socket, bytes);
        }
        let mut sent = 0;
        let result = loop {
            if sent == bytes.len() {
                break Ok(());
            }
            match self.socket.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        bytes.drain(..sent);
        result
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.0.as_fd()
    }
}
