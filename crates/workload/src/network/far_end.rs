use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use measure::Failure;

use super::count::{Counts, Took};
use super::flow::{Class, Flow, Side};
use super::message;
use super::tcp::{self, Then};
use super::udp;
use crate::clock::now_ns;

/// How long the near end may take to say hello.
const HELLO_LIMIT: Duration = Duration::from_secs(30);
/// How long nothing must have come, once the near end has ended, before nothing more is on its way.
const QUIET_NS: u64 = 50_000_000;
/// Longest wait for messages that are still on their way.
const RESIDUE_NS: u64 = 2_000_000_000;

/// The end that accepts connections. Dropping this value ends the far end.
#[derive(Debug)]
pub struct FarEnd {
    port: u16,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Counts, Failure>>>,
}

impl FarEnd {
    /// Begins to listen at a free port of `address`.
    ///
    /// # Errors
    /// The flow is invalid ([`Flow::check`]), or the address does not belong to this machine.
    pub fn open(flow: &Flow, address: IpAddr) -> Result<Self, Failure> {
        flow.check().map_err(|error| Failure::new("opening the far end of a flow", error, "see above"))?;
        let at = SocketAddr::new(address, 0);
        let opened = |error: std::io::Error| {
            Failure::new(
                format!("listening at {address}"),
                error,
                "name an address of this machine or namespace",
            )
        };
        let stop = Arc::new(AtomicBool::new(false));
        let (told, flow) = (Arc::clone(&stop), flow.clone());
        let (port, serve): (u16, Box<dyn FnOnce() -> Result<Counts, Failure> + Send>) = if flow.class.is_tcp()
        {
            let listener = TcpListener::bind(at).map_err(opened)?;
            let port = listener.local_addr().map_err(opened)?.port();
            (port, Box::new(move || serve_tcp(&listener, &flow, &told)))
        } else {
            let socket = UdpSocket::bind(at).map_err(opened)?;
            let port = socket.local_addr().map_err(opened)?.port();
            (port, Box::new(move || serve_udp(&socket, &flow, &told)))
        };
        // A thread of its own: all that it takes is the flow's.
        let counted = || serve().map(|counts| Counts { took: Took::until_now(), ..counts });
        let thread = thread::Builder::new().name("far end".into()).spawn(counted).map_err(|error| {
            Failure::new("starting a thread", error, "see the limits of processes and memory here")
        })?;
        Ok(FarEnd { port, stop, thread: Some(thread) })
    }

    /// The port that the near end connects to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits for messages that are still under way, stops the far end, and returns its counts.
    ///
    /// # Errors
    /// A socket call of the far end was refused, or its thread panicked.
    pub fn close(mut self) -> Result<Counts, Failure> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or_else(
            || Ok(Counts::default()),
            |thread| {
                thread.join().unwrap_or_else(|_| Err(Failure::panicked("serving the far end of a flow")))
            },
        )
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve_udp(socket: &UdpSocket, flow: &Flow, stop: &AtomicBool) -> Result<Counts, Failure> {
    let over = || stop.load(Ordering::Relaxed);
    match (flow.class, flow.sending()) {
        (Class::UdpRr, _) => udp::echo(socket, flow, over),
        (_, Side::Near) => {
            let mut closed_ns = None;
            udp::receive(socket, flow, |last_ns| {
                if !over() {
                    return false;
                }
                // Datagrams on their way are waited for, but not for ever.
                let now = now_ns();
                let closed_ns = *closed_ns.get_or_insert(now);
                now - last_ns.unwrap_or(0).max(closed_ns) > QUIET_NS || now - closed_ns > RESIDUE_NS
            })
        }
        (_, Side::Far) => {
            let Some(peer) = hello(socket, flow, stop) else { return Ok(Counts::default()) };
            let own = socket.local_addr().map_err(|error| {
                Failure::new(
                    "asking for a port",
                    error,
                    "let getsockname through the sandbox that this runs in",
                )
            })?;
            udp::send(&udp::connected(own, peer, flow.connections)?, flow)
        }
    }
}

/// Waits for the first message of this flow; its sender is the near end, which asks for a stream.
fn hello(socket: &UdpSocket, flow: &Flow, stop: &AtomicBool) -> Option<SocketAddr> {
    socket.set_read_timeout(Some(udp::TICK)).ok()?;
    let mut bytes = vec![0; flow.message_bytes + 1];
    let start = Instant::now();
    while start.elapsed() < HELLO_LIMIT && !stop.load(Ordering::Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut bytes)
            && message::read(&bytes[..length], flow.message_bytes).is_some()
        {
            return Some(from);
        }
    }
    None
}

fn serve_tcp(listener: &TcpListener, flow: &Flow, stop: &AtomicBool) -> Result<Counts, Failure> {
    let over = || stop.load(Ordering::Relaxed);
    match (flow.class, flow.sending()) {
        (Class::TcpStream, Side::Far) => {
            let mut streams = Vec::new();
            let start = Instant::now();
            let failed =
                |error| Failure::new("accepting a TCP connection", error, "see the limit of open files");
            listener.set_nonblocking(true).map_err(failed)?;
            while streams.len() < flow.connections && !over() && start.elapsed() < HELLO_LIMIT {
                match listener.accept() {
                    Ok((stream, _)) => {
                        stream.set_nonblocking(false).map_err(failed)?;
                        stream.set_write_timeout(Some(Duration::from_secs(5))).map_err(failed)?;
                        streams.push(stream);
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        thread::sleep(Duration::from_millis(1));
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
            if streams.len() < flow.connections {
                return Ok(Counts::default());
            }
            tcp::send(&mut streams, flow)
        }
        (Class::TcpStream, Side::Near) => tcp::receive(Vec::new(), Some(listener), flow, Then::Count, over),
        _ => tcp::receive(Vec::new(), Some(listener), flow, Then::SendBack, over),
    }
}
