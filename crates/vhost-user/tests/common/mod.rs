//! An embedder that says yes to everything and writes down what it was asked.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod device;
pub mod driver;
pub mod programs;

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use vhost_user::codec::Message;
use vhost_user::session::SessionError;
use vhost_user::session::backend::{BackendSession, Received};
use vhost_user::socket::{Connection, SocketError};

use device::Device;

/// Long enough for a busy machine; only a failing test waits for it.
pub fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(60))
}

pub fn fd() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

pub fn memfd() -> OwnedFd {
    rustix::fs::memfd_create("vhost-user-test", rustix::fs::MemfdFlags::CLOEXEC).unwrap()
}

/// Two connected ends.
pub fn pair() -> (Connection, Connection) {
    let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
    (a.into(), b.into())
}

/// Connects to a program that has just been started and will listen soon.
pub fn connect(path: &std::path::Path) -> Connection {
    let deadline = soon().unwrap();
    loop {
        match Connection::connect(path) {
            Ok(connection) => return connection,
            Err(error) if Instant::now() > deadline => panic!("{error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Open descriptors of this process. Exact only while no other thread opens any.
pub fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// How a conversation ended.
#[derive(Debug)]
pub enum End {
    Session(SessionError),
    Socket(SocketError),
    Enough,
}

/// One message through session and device; what is to be sent comes back.
pub fn step(
    session: &mut BackendSession,
    device: &mut Device,
    message: Message,
) -> Result<Option<Message>, SessionError> {
    match session.receive(message)? {
        Received::Nothing => Ok(None),
        Received::Reply(reply) => Ok(Some(reply)),
        Received::Rejected(reply, violation) => {
            device.log.push(format!("rejected {violation}"));
            Ok(Some(reply))
        }
        Received::Event(event) => Ok(device.act(session, event)?.reply),
    }
}

/// Serves a front-end until either end has enough, and at most until the deadline.
pub fn serve(
    connection: &mut Connection,
    session: &mut BackendSession,
    device: &mut Device,
    enough: impl Fn(&Device) -> bool,
) -> End {
    let deadline = soon();
    while !enough(device) {
        let message = match connection.receive(deadline) {
            Ok(message) => message,
            Err(error) => return End::Socket(error),
        };
        device.messages.push(message.header.id);
        match step(session, device, message) {
            Ok(None) => {}
            Ok(Some(reply)) => {
                if let Err(error) = connection.send(reply, deadline) {
                    return End::Socket(error);
                }
            }
            Err(error) => return End::Session(error),
        }
    }
    End::Enough
}
