//! The targets of controllers: where they are, or where a bridge waits for them.
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use control::ControllerKeys;
use linux::local_listener::LocalListener;
use linux::local_socket::connect_local;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt::set_tcp_nodelay};
use tls::{KeyFiles, Keys, Session};

use super::link::Link;

/// The port of OpenFlow.
const PORT: u16 = 6653;

/// Where a controller is, or where a bridge waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    Tcp(SocketAddr),
    Ssl(SocketAddr),
    Unix(PathBuf),
    ListenTcp(SocketAddr),
    ListenSsl(SocketAddr),
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
            Some(("ssl", rest)) => address(rest).map(Target::Ssl),
            Some(("pssl", rest)) => own_address(rest).map(Target::ListenSsl),
            Some(("ptcp", rest)) => own_address(rest).map(Target::ListenTcp),
            Some(("unix", rest)) => path(rest).map(Target::Unix),
            Some(("punix", rest)) => path(rest).map(Target::ListenUnix),
            _ => None,
        };
        parsed.ok_or_else(|| {
            format!(
                "target {text}: write tcp:IP:PORT, ssl:IP:PORT, unix:/PATH, ptcp:PORT:IP, pssl:PORT:IP or punix:/PATH"
            )
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
    /// Another process listens where the bridge is to wait, the system refuses the socket, or a target with TLS has no keys
    /// that can be read.
    pub fn open(&self, keys: Option<&ControllerKeys>) -> io::Result<Opened> {
        Ok(match self {
            Target::Tcp(address) => Opened::Connection(Link::new(tcp(address)?, None)),
            Target::Ssl(address) => {
                let session = Session::connect(&read(keys)?, address.ip())?;
                Opened::Connection(Link::new(tcp(address)?, Some(session)))
            }
            Target::Unix(path) => Opened::Connection(Link::new(connect_local(path)?, None)),
            Target::ListenTcp(address) => Opened::Listening(listening(address, None)?),
            Target::ListenSsl(address) => Opened::Listening(listening(address, Some(read(keys)?))?),
            Target::ListenUnix(path) => {
                LocalListener::bind(path).map(ListeningSocket::Local).map(Opened::Listening)?
            }
        })
    }
}

/// Reads the keys of the table SSL.
fn read(keys: Option<&ControllerKeys>) -> io::Result<Keys> {
    let keys = keys.cloned().ok_or_else(|| {
        io::Error::other(
            "TLS needs keys: ovs-vsctl set-ssl PRIVATE-KEY CERTIFICATE CA-CERT names their files",
        )
    })?;
    let ControllerKeys { private_key, certificate, authority } = keys;
    KeyFiles { private_key, certificate, authority }.read().map_err(io::Error::other)
}

fn listening(address: &SocketAddr, keys: Option<Keys>) -> io::Result<ListeningSocket> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(ListeningSocket::Tcp(listener, keys))
}

/// Begins to connect.
fn tcp(address: &SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    set_tcp_nodelay(&socket, true)?;
    match connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// The socket of a target.
pub enum Opened {
    Connection(Link),
    Listening(ListeningSocket),
}

/// A socket at which a bridge waits for controllers.
pub enum ListeningSocket {
    Local(LocalListener),
    /// With the keys of TLS.
    Tcp(TcpListener, Option<Keys>),
}

impl ListeningSocket {
    /// Accepts the next connection; `None` if its user may not connect.
    ///
    /// # Errors
    /// No connection waits (`WouldBlock`), or the system has no descriptor for it.
    pub fn accept(&self) -> io::Result<Option<Link>> {
        match self {
            ListeningSocket::Local(listener) => {
                let socket = listener.accept()?;
                Ok(listener.allows(&socket).then(|| Link::new(socket.into(), None)))
            }
            ListeningSocket::Tcp(listener, keys) => {
                let (socket, _) = listener.accept()?;
                let _ = socket.set_nodelay(true);
                let session = keys.as_ref().map(Session::accept).transpose()?;
                Ok(Some(Link::new(socket.into(), session)))
            }
        }
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            ListeningSocket::Local(listener) => listener.as_fd(),
            ListeningSocket::Tcp(listener, _) => listener.as_fd(),
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
            ("ssl:192.0.2.1", Target::Ssl(tcp("192.0.2.1:6653"))),
            ("pssl:6633:127.0.0.1", Target::ListenSsl(tcp("127.0.0.1:6633"))),
            ("unix:/run/c", Target::Unix("/run/c".into())),
            ("punix:/run/c", Target::ListenUnix("/run/c".into())),
        ] {
            assert_eq!(text.parse(), Ok(target), "{text}");
        }
        for text in ["ssl:host", "tcp:host", "tcp:", "unix:c", "ptcp:x", "192.0.2.1", ""] {
            assert!(text.parse::<Target>().unwrap_err().contains("tcp:IP:PORT"), "{text}");
        }
    }

    #[test]
    fn a_target_with_tls_needs_keys() {
        let none = ControllerKeys { private_key: "/none".into(), ..ControllerKeys::default() };
        for (keys, said) in [(None, "ovs-vsctl set-ssl"), (Some(&none), "/none: ")] {
            for target in ["ssl:127.0.0.1", "pssl:0:127.0.0.1"] {
                let error = target.parse::<Target>().unwrap().open(keys).err().unwrap().to_string();
                assert!(error.contains(said), "{error}");
            }
        }
    }
}
