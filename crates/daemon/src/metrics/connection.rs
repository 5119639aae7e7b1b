//! One HTTP client: a request within limits of bytes, one answer, and the end. No function here blocks.
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// No request is longer.
const REQUEST_BYTES: usize = 8 << 10;
const MOST_HEADERS: usize = 64;

pub struct Connection {
    socket: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// What the caller does next with a connection.
pub enum Next {
    /// Wait for more of the request, or for room to write the answer.
    Wait,
    /// Answer a request for this path.
    Answer(String),
    /// Close the connection.
    End,
}

impl Connection {
    /// A connection of a client that was accepted.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Connection { socket, request: Vec::new(), answer: Vec::new() })
    }

    /// Whether the answer waits for room in the socket.
    pub fn wants_to_write(&self) -> bool {
        !self.answer.is_empty()
    }

    /// Reads or writes once, as far as possible without waiting.
    pub fn go_on(&mut self) -> Next {
        if self.wants_to_write() {
            return self.write();
        }
        let mut bytes = [0; 4096];
        match self.socket.read(&mut bytes) {
            Ok(0) => return Next::End,
            Ok(length) => self.request.extend_from_slice(&bytes[..length]),
            Err(error) if is_for_now(&error) => return Next::Wait,
            Err(_) => return Next::End,
        }
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&self.request) {
            Ok(httparse::Status::Complete(_)) if request.method == Some("GET") => {
                Next::Answer(request.path.unwrap_or_default().to_owned())
            }
            Ok(httparse::Status::Complete(_)) => {
                self.put("405 Method Not Allowed", "text/plain", "GET only\n")
            }
            Ok(httparse::Status::Partial) if self.request.len() <= REQUEST_BYTES => Next::Wait,
            _ => self.put("400 Bad Request", "text/plain", "no request that is understood\n"),
        }
    }

    /// Queues the answer. The connection ends after it.
    pub fn put(&mut self, status: &str, kind: &str, body: &str) -> Next {
        let length = body.len();
        self.answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
        .into_bytes();
        self.write()
    }

    fn write(&mut self) -> Next {
        while !self.answer.is_empty() {
            match self.socket.write(&self.answer) {
                Ok(0) => return Next::End,
                Ok(written) => drop(self.answer.drain(..written)),
                Err(error) if is_for_now(&error) => return Next::Wait,
                Err(_) => return Next::End,
            }
        }
        Next::End
    }
}

fn is_for_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn neither_reading_nor_writing_waits_for_the_client() {
        const LONG: Duration = Duration::from_secs(5);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = listener.accept().unwrap().0;
        // A socket that waits after all does so for this long.
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket.set_write_timeout(Some(LONG)).unwrap();
        let mut connection = Connection::new(socket).unwrap();
        let since = Instant::now();
        assert!(matches!(connection.go_on(), Next::Wait));
        assert!(matches!(connection.put("200 OK", "text/plain", &"x".repeat(32 << 20)), Next::Wait));
        assert!(connection.wants_to_write() && since.elapsed() < LONG / 2);
    }
}
