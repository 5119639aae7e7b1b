use std::fs::File;
use std::io::{Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use measure::Failure;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;

use super::namespaces::enter_network;
use super::tun::Tap;
use crate::finding::Finding;
use crate::sys::xdp::{Socket, redirect};

const PATIENCE: Duration = Duration::from_secs(1);

/// Sends one frame out of an AF_XDP socket and one into it, over a TAP interface in a network namespace of its own.
///
/// # Errors
/// There is no network namespace or TAP interface for the test, or the kernel refuses the AF_XDP socket: built
/// without CONFIG_XDP_SOCKETS, no CAP_NET_RAW, or a too low limit on locked memory. A frame that does not arrive
/// makes a partial finding, not an error.
pub fn run() -> Result<Finding, Failure> {
    let how = enter_network()?;
    let tap = Tap::make()?;
    let place = format!("on a TAP interface in a network namespace {how}");
    let socket = Socket::bind(tap.index).map_err(|error| {
        let remedy = match error {
            Errno::AFNOSUPPORT | Errno::PROTO => "use a kernel with CONFIG_XDP_SOCKETS (5.4 or later)",
            _ => "run as root or with CAP_NET_RAW; raise the limit on locked memory on kernels before 5.11",
        };
        Failure::new(format!("AF_XDP socket {place}"), error, remedy)
    })?;
    let sent = send(&socket, &tap);
    let received = receive(&socket, &tap);
    let words = |result: &Result<(), String>| match result {
        Ok(()) => "one frame arrived".to_owned(),
        Err(error) => error.clone(),
    };
    let detail = format!("bound {place}; out: {}; in: {}", words(&sent), words(&received));
    Ok(match (sent, received) {
        (Ok(()), Ok(())) => Finding::proven(detail),
        _ => Finding::partial(
            detail,
            "run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW: receiving needs an XDP program",
        ),
    })
}

/// A broadcast frame of the type for local experiments (IEEE 802, 0x88B5), identified by its last byte.
fn frame(mark: u8) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([0x02, 0, 0, 0, 0, mark]);
    frame.extend([0x88, 0xB5]);
    frame.resize(60, mark);
    frame
}

/// Sends one frame from the socket's ring to the reader of the TAP interface.
fn send(socket: &Socket, tap: &Tap) -> Result<(), String> {
    let frame = frame(1);
    fcntl_setfl(&tap.file, OFlags::NONBLOCK).map_err(|error| error.to_string())?;
    socket.send(&frame).map_err(|error| format!("sendto: {error}"))?;
    // The network stack may also send frames there, for example IPv6 neighbour discovery.
    within_patience(|| next_frame(&tap.file).filter(|seen| *seen == frame))
}

/// Receives one frame that is written to the TAP interface, through an XDP program, in the socket's ring.
fn receive(socket: &Socket, tap: &Tap) -> Result<(), String> {
    let _redirection = redirect(tap.index, socket)
        .map_err(|error| format!("loading and attaching an XDP program: {error}"))?;
    socket.offer_chunk();
    let frame = frame(2);
    (&tap.file).write_all(&frame).map_err(|error| format!("writing to the TAP interface: {error}"))?;
    within_patience(|| socket.received().filter(|seen| *seen == frame))
}

fn next_frame(mut tap: &File) -> Option<Vec<u8>> {
    let mut buffer = vec![0; 2048];
    let length = tap.read(&mut buffer).ok()?;
    buffer.truncate(length);
    Some(buffer)
}

fn within_patience(mut arrived: impl FnMut() -> Option<Vec<u8>>) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if arrived().is_some() {
            return Ok(());
        }
        sleep(Duration::from_millis(1));
    }
    Err(format!("no frame within {} s", PATIENCE.as_secs()))
}
