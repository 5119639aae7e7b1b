//! Where a database server is, and the connection to it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tls::Keys;

/// The port of a database server that names none (IANA).
const PORT: u16 = 6640;
/// The folder of Open vSwitch's sockets.
const RUN_FOLDER: &str = "/var/run/openvswitch";

/// Where a database server is.
#[derive(Clone, Debug)]
pub enum Server {
    /// `unix:PATH`.
    Unix(PathBuf),
    /// `tcp:ADDRESS:PORT`, without protection.
    Tcp(SocketAddr),
    /// `ssl:ADDRESS:PORT`: both ends prove their keys.
    Ssl(SocketAddr, Arc<ClientConfig>),
}

impl Server {
    /// Reads the words in which Open vSwitch names a server. `keys` reads the keys of `ssl:`.
    ///
    /// # Errors
    /// The words name no server, or the causes of `keys`. The error is a text for the user.
    pub fn read(words: &str, keys: impl FnOnce() -> Result<Keys, String>) -> Result<Self, String> {
        let wrong = || {
            "write unix:PATH, tcp:ADDRESS:PORT or ssl:ADDRESS:PORT, as in unix:/var/run/openvswitch/db.sock or \
             ssl:192.0.2.1:6640"
                .to_owned()
        };
        match words.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => Ok(Server::Unix(path.into())),
            Some(("tcp", place)) => address(place).map(Server::Tcp).ok_or_else(|| named(place, wrong())),
            Some(("ssl", place)) => {
                let address = address(place).ok_or_else(|| named(place, wrong()))?;
                Ok(Server::Ssl(address, keys()?.client))
            }
            _ => Err(wrong()),
        }
    }

    /// The TCP port that the server listens on, if it listens on one.
    pub fn tcp_port(&self) -> Option<u16> {
        match self {
            Server::Unix(_) => None,
            Server::Tcp(address) | Server::Ssl(address, _) => Some(address.port()),
        }
    }

    /// The folder of the sockets of Open vSwitch: that of the server's own socket, or `OVS_RUNDIR`.
    pub fn folder(&self) -> PathBuf {
        match self {
            Server::Unix(path) => path.parent().unwrap_or(Path::new("/")).to_owned(),
            _ => std::env::var_os("OVS_RUNDIR").map_or_else(|| RUN_FOLDER.into(), PathBuf::from),
        }
    }

    /// The words that name the server.
    pub fn words(&self) -> String {
        match self {
            Server::Unix(path) => format!("unix:{}", path.display()),
            Server::Tcp(address) => format!("tcp:{address}"),
            Server::Ssl(address, _) => format!("ssl:{address}"),
        }
    }

    /// Connects. A read that finds nothing ends after `tick`; the connection is made, and a write ends, within
    /// `patience`.
    ///
    /// # Errors
    /// No server listens there, or one end does not accept the other's certificate.
    pub(crate) fn connect(&self, tick: Duration, patience: Duration) -> io::Result<Stream> {
        match self {
            Server::Unix(path) => {
                let socket = UnixStream::connect(path)?;
                socket.set_read_timeout(Some(tick))?;
                socket.set_write_timeout(Some(patience))?;
                Ok(Stream::Unix(socket))
            }
            Server::Tcp(address) => {
                let socket = tcp(*address, patience)?;
                socket.set_read_timeout(Some(tick))?;
                Ok(Stream::Tcp(socket))
            }
            Server::Ssl(address, keys) => {
                let mut socket = tcp(*address, patience)?;
                let name = address.ip().into();
                let session = ClientConnection::new(Arc::clone(keys), name).map_err(io::Error::other)?;
                let mut stream = StreamOwned::new(session, socket.try_clone()?);
                let since = Instant::now();
                while stream.conn.is_handshaking() {
                    if since.elapsed() > patience {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    stream.conn.complete_io(&mut socket)?;
                }
                socket.set_read_timeout(Some(tick))?;
                Ok(Stream::Ssl(Box::new(stream)))
            }
        }
    }
}

fn tcp(address: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, patience)?;
    socket.set_read_timeout(Some(patience))?;
    socket.set_write_timeout(Some(patience))?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// The advice on what to write in place of the name of a machine; `wrong` if there is no name.
fn named(place: &str, wrong: String) -> String {
    let (host, port) = place.split_once(':').unwrap_or((place, ""));
    let is_label = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if !host.bytes().all(is_label) || !host.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return wrong;
    }
    let port = if port.is_empty() { String::new() } else { format!(":{port}") };
    format!(
        "{host} is a name, which is not looked up: write ADDRESS{port} with what `getent hosts {host}` prints"
    )
}

/// An address with or without a port. Names are refused: a switch that confines itself has no access to the files and
/// servers of names, and the address of a name may change while the database is followed.
fn address(place: &str) -> Option<SocketAddr> {
    let bare = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(place);
    let with_port = || bare.parse::<IpAddr>().ok().map(|address| SocketAddr::new(address, PORT));
    place.parse().ok().or_else(with_port)
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Ssl(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => socket.read(bytes),
            Stream::Tcp(socket) => socket.read(bytes),
            Stream::Ssl(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => socket.write(bytes),
            Stream::Tcp(socket) => socket.write(bytes),
            Stream::Ssl(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Unix(socket) => socket.flush(),
            Stream::Tcp(socket) => socket.flush(),
            Stream::Ssl(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<String, String> {
        Server::read(words, || Err("no keys".to_owned())).map(|server| server.words())
    }

    #[test]
    fn servers_are_named_as_in_open_vswitch() {
        for (words, said) in [
            ("unix:/run/db.sock", "unix:/run/db.sock"),
            ("tcp:127.0.0.1:6641", "tcp:127.0.0.1:6641"),
            ("tcp:127.0.0.1", "tcp:127.0.0.1:6640"),
            ("tcp:[::1]", "tcp:[::1]:6640"),
            ("tcp:::1", "tcp:[::1]:6640"),
            ("tcp:[::1]:7", "tcp:[::1]:7"),
        ] {
            assert_eq!(read(words).as_deref(), Ok(said), "{words}");
        }
        assert_eq!(read("ssl:127.0.0.1:6640"), Err("no keys".to_owned()));
        for words in ["db.sock", "unix:db.sock", "tcp:", "tcp:a b:6640", "ssl:127.0.0.1:x", "ptcp:6640"] {
            assert!(read(words).unwrap_err().contains("write unix:PATH"), "{words}");
        }
        for (words, said) in [
            ("tcp:db.example.org:6640", "write ADDRESS:6640 with what `getent hosts db.example.org` prints"),
            ("ssl:localhost", "write ADDRESS with what `getent hosts localhost` prints"),
        ] {
            assert!(read(words).unwrap_err().ends_with(said), "{words}");
        }
    }
}
