//! The targets of controllers: where they are, or where a bridge waits for them.
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use linux::local_listener::LocalListener;
use linux::local_socket::connect_local;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt::set_tcp_nodelay};

/// The port of OpenFlow.
const PORT: u16 = 6653;

/// Where a controller is, or where a bridge waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
    ListenTcp(SocketAddr),
    ListenUnix(PathBuf),
}

/// An address, or an address and a port behind a colon.
fn address(text: &str) -> Option<SocketAddr> {
    let alone = text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    text.parse().ok().or_else(|| Some(SocketAddr::new(alone.ok()?, PORT)))
}

/// A port, or a port and an address behind a colon; both may be missing.
fn own_address(text: &str) -> Option<SocketAddr> {
    let (port, host) = text.split_once(':').unwrap_or((text, ""));
    let port = if port.is_empty() { PORT } else { port.parse().ok()? };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.is_empty() { Ipv4Addr::UNSPECIFIED.into() } else { host.parse().ok()? };
    Some(SocketAddr::new(host, port))
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = |rest: &str| Path::new(rest).is_absolute().then(|| PathBuf::from(rest));
        let parsed = match text.split_once(':') {
            Some(("tcp", rest)) => address(rest).map(Target::Tcp),
            Some(("ptcp", rest)) => own_address(rest).map(Target::ListenTcp),
            Some(("unix", rest)) => path(rest).map(Target::Unix),
            Some(("punix", rest)) => path(rest).map(Target::ListenUnix),
            _ => None,
        };
        parsed.ok_or_else(|| {
            format!("target {text}: write tcp:IP:PORT, unix:/PATH, ptcp:PORT:IP or punix:/PATH")
        })
    }
}

impl Target {
    /// The target, if it is no socket or one directly in this folder: a database reaches no socket elsewhere, as in Open
    /// vSwitch. The error is a text for the user.
    pub fn within(self, folder: Option<&Path>) -> Result<Self, String> {
        match &self {
            Target::Unix(path) | Target::ListenUnix(path)
                if path.file_name().is_none() || path.parent() != folder =>
            {
                let folder = folder.unwrap_or(Path::new("a folder")).display();
                Err(format!(
                    "{}: name a socket in {folder}, where the bridge has its sockets",
                    path.display()
                ))
            }
            _ => Ok(self),
        }
    }

    /// Begins to connect, or to wait. A connection may still be in progress when the function returns.
    ///
    /// # Errors
    /// Another process listens where the bridge is to wait, or the system refuses the socket.
    pub fn open(&self) -> io::Result<Opened> {
        let address = match self {
            Target::Tcp(address) => address,
            Target::Unix(path) => return Ok(Opened::Connection(connect_local(path)?)),
            Target::ListenTcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                return Ok(Opened::Listening(ListeningSocket::Tcp(listener)));
            }
            Target::ListenUnix(path) => {
                return LocalListener::bind(path).map(ListeningSocket::Local).map(Opened::Listening);
            }
        };
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        set_tcp_nodelay(&socket, true)?;
        match connect(&socket, address) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(Opened::Connection(socket)),
            Err(error) => Err(error.into()),
        }
    }
}

/// The socket of a target.
pub enum Opened {
    Connection(OwnedFd),
    Listening(ListeningSocket),
}

/// A socket at which a bridge waits for controllers.
pub enum ListeningSocket {
    Local(LocalListener),
    Tcp(TcpListener),
}

impl ListeningSocket {
    /// Accepts the next connection; `None` if its user may not connect.
    ///
    /// # Errors
    /// No connection waits (`WouldBlock`), or the system has no descriptor for it.
    pub fn accept(&self) -> io::Result<Option<OwnedFd>> {
        match self {
            ListeningSocket::Local(listener) => {
                let socket = listener.accept()?;
                Ok(listener.allows(&socket).then(|| socket.into()))
            }
            ListeningSocket::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                let _ = socket.set_nodelay(true);
                Ok(Some(socket.into()))
            }
        }
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ListeningSocket::Local(listener) => listener.as_fd(),
            ListeningSocket::Tcp(listener) => listener.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_those_of_the_database() {
        let tcp = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (text, target) in [
            ("tcp:192.0.2.1:6633", Target::Tcp(tcp("192.0.2.1:6633"))),
            ("tcp:192.0.2.1", Target::Tcp(tcp("192.0.2.1:6653"))),
            ("tcp:[2001:db8::1]:6633", Target::Tcp(tcp("[2001:db8::1]:6633"))),
            ("tcp:[2001:db8::1]", Target::Tcp(tcp("[2001:db8::1]:6653"))),
            ("ptcp:", Target::ListenTcp(tcp("0.0.0.0:6653"))),
            ("ptcp:6633", Target::ListenTcp(tcp("0.0.0.0:6633"))),
            ("ptcp:6633:127.0.0.1", Target::ListenTcp(tcp("127.0.0.1:6633"))),
            ("ptcp:6633:[::1]", Target::ListenTcp(tcp("[::1]:6633"))),
            ("unix:/run/c", Target::Unix("/run/c".into())),
            ("punix:/run/c", Target::ListenUnix("/run/c".into())),
        ] {
            assert_eq!(text.parse(), Ok(target), "{text}");
        }
        for text in ["ssl:192.0.2.1", "tcp:host", "tcp:", "unix:c", "ptcp:x", "192.0.2.1", ""] {
            assert!(text.parse::<Target>().unwrap_err().contains("tcp:IP:PORT"), "{text}");
        }
    }
}
