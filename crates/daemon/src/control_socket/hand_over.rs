//! The running switch's end of `--take-over`. The control thread serves nothing else meanwhile: no frame moves.
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use control::protocol::Outcome;
use linux::local_listener::LocalListener;
use linux::peer::peer;
use port::SharedFd;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::geteuid;
use serde_json::json;
use switch::{SavedConnections, SwitchState, View};

use crate::exchange::Exchange;
use crate::hand_over_format::{self as format, FORMAT, HandOver, Owned, PortWords, TAKEN};
use crate::readiness;

/// How long the new switch may take, from the standstill to its message that it has taken over.
const PATIENCE: Duration = Duration::from_secs(3);

/// Descriptors of one message: fewer than the kernel takes (`SCM_MAX_FD`).
const FILES_AT_ONCE: usize = 64;

/// Hands everything over to the switch at the other end of `socket`.
///
/// # Errors
/// Why this switch goes on: another user asks, the formats differ by more than one version, the ports do not stand
/// still, or the new switch does not confirm within 3 s. Or the ports of this switch do not resume after such an
/// attempt.
pub fn run(
    socket: &UnixStream,
    format: u32,
    listener: &LocalListener,
    owned: Owned,
    switch: &mut View<'_>,
) -> Result<(), String> {
    let peer = peer(socket).map_err(|error| format!("asking who takes over: {error}"))?;
    if peer.user != geteuid() {
        return Err("only the user who runs the switch may take it over".to_owned());
    }
    format::check(format)?;
    let control = listener.as_fd().try_clone_to_owned();
    let control = control.map_err(|error| format!("a second handle of the control socket: {error}"))?;
    let stood_still_at = format::now();
    let deadline = Instant::now() + PATIENCE;
    let state = switch.stand_still().map_err(|error| error.to_string())?;
    let words = HandOver { format: FORMAT, stood_still_at, owned, ..HandOver::default() };
    if all(words, state, control).is_ok_and(|all| pass_on(socket, all, deadline)) {
        // Only the process that the service manager knows may report this, before it ends.
        if let Some(process) = peer.process {
            readiness::main_process(process);
        }
        return Ok(());
    }
    switch.resume().map_err(|error| error.to_string())?;
    Err("the new switch did not take over; this one continues".to_owned())
}

/// Adds the state of the switch.
fn all(mut words: HandOver, state: SwitchState, control: OwnedFd) -> io::Result<(HandOver, Vec<SharedFd>)> {
    let mut files = vec![SharedFd::from(control)];
    words.control = Some(0);
    for (name, port) in state.ports {
        let places = (files.len()..files.len() + port.files.len()).collect();
        files.extend(port.files);
        words.ports.insert(name, PortWords { words: port.words, files: places });
    }
    for (vlan, address, name) in state.stations {
        match vlan {
            0 => words.stations.push((address.to_string(), name)),
            _ => words.vlan_stations.push((vlan, address.to_string(), name)),
        }
    }
    let SavedConnections { bytes, ports } = state.connections;
    if !bytes.is_empty() {
        let mut file = File::from(memfd_create("connections", MemfdFlags::CLOEXEC)?);
        file.write_all(&bytes)?;
        words.connections = Some(files.len());
        words.connection_ports = ports;
        files.push(SharedFd::from(OwnedFd::from(file)));
    }
    Ok((words, files))
}

/// Sends everything. Returns true once the new switch has confirmed that it has all.
fn pass_on(socket: &UnixStream, (words, files): (HandOver, Vec<SharedFd>), deadline: Instant) -> bool {
    let said = socket.set_nonblocking(false).and_then(|()| {
        let exchange = Exchange::new(socket, deadline);
        send(&exchange, &words, &files)?;
        hear(&exchange)
    });
    if said.is_ok_and(|said| said == TAKEN) {
        return true;
    }
    // From here on no confirmation can come. A confirmation that was sent before can still be read.
    let _ = socket.shutdown(Shutdown::Both);
    let _ = socket.set_nonblocking(true);
    let mut late = Vec::new();
    let _ = Read::by_ref(&mut &*socket).take(64).read_to_end(&mut late);
    late == TAKEN
}

fn send(exchange: &Exchange<'_>, words: &HandOver, files: &[SharedFd]) -> io::Result<()> {
    let bytes = serde_json::to_vec(words)?;
    let answer = Outcome::Ok(json!({"bytes": bytes.len(), "files": files.len()})).line();
    exchange.send(&answer, &[])?;
    // One byte for each group of descriptors, the last with all the rest.
    let mut rest = &bytes[..];
    let mut groups = files.chunks(FILES_AT_ONCE).peekable();
    while let Some(group) = groups.next() {
        let (now, later) = rest.split_at(if groups.peek().is_some() { 1 } else { rest.len() });
        let group: Vec<_> = group.iter().map(AsFd::as_fd).collect();
        exchange.send(now, &group)?;
        rest = later;
    }
    Ok(())
}

/// The new switch's message, up to the length of the confirmation.
fn hear(exchange: &Exchange<'_>) -> io::Result<Vec<u8>> {
    let mut said = Vec::new();
    let mut bytes = [0; TAKEN.len()];
    while said.len() < TAKEN.len() {
        let read = exchange.receive(&mut bytes[said.len()..], &mut Vec::new())?;
        if read == 0 {
            break;
        }
        said.extend_from_slice(&bytes[said.len()..][..read]);
    }
    Ok(said)
}
