//! Devices as a service, which runs on the calling thread.
use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vhost_device::{
    Backend, BackendOptions, Context as _, DeviceError, Log, NamedSocket, PlainContext, TURN, Token, Watches,
};

use crate::{CryptoDevice, Limits};

/// How long a wait may last before `goes_on` is asked again; a signal ends it earlier.
const WAIT: Duration = Duration::from_millis(500);

/// Prints a line of the log.
type Print = fn(&dyn Display);

/// A device and the socket where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The name at the beginning of log lines.
    pub name: String,
    /// Path of the socket.
    pub path: PathBuf,
    /// The limits of a connection.
    pub limits: Limits,
}

impl FromStr for Port {
    type Err = String;

    /// Reads `NAME=vhost-user:PATH[,sessions=N]`.
    fn from_str(text: &str) -> Result<Self, String> {
        let NamedSocket { name, path, options } = NamedSocket::parse(text)?;
        let mut limits = Limits::default();
        for part in options {
            let sessions = part.strip_prefix("sessions=").ok_or(format!("{part}: write sessions=N"))?;
            limits.sessions = sessions
                .parse()
                .ok()
                .filter(|sessions| (1..=65536).contains(sessions))
                .ok_or(format!("{part}: a number from 1 to 65536 is needed"))?;
        }
        Ok(Port { name: name.to_owned(), path, limits })
    }
}

/// Serves a device at each of these sockets as long as `goes_on` returns true, and removes the sockets afterwards.
///
/// # Errors
/// A socket cannot be made, or a device cannot continue. All devices are ended then.
pub fn run(ports: &[Port], log: Print, mut goes_on: impl FnMut() -> bool) -> Result<(), DeviceError> {
    let mut backends = Vec::new();
    let mut contexts: Vec<_> = ports.iter().map(|_| PlainContext::new(log)).collect();
    for port in ports {
        let device = CryptoDevice::new(port.limits);
        let options = BackendOptions::new(&port.path);
        backends.push(Backend::new(device, Arc::new(Log::new(port.name.as_str())), options)?);
    }
    let served = serve(&mut backends, &mut contexts, &mut goes_on);
    for (backend, context) in backends.iter_mut().zip(&mut contexts) {
        backend.end(context);
    }
    served
}

/// If the rings and messages of a device have used their common turn, the rest waits for the next round: other devices
/// wait for one turn and one request of this device, however many rings it has.
fn serve(
    backends: &mut [Backend<CryptoDevice>],
    contexts: &mut [PlainContext<Print>],
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(), DeviceError> {
    for (backend, context) in backends.iter_mut().zip(&mut *contexts) {
        backend.start(context)?;
    }
    let mut round = 0;
    while goes_on() {
        let watches = contexts.iter_mut().map(PlainContext::watches);
        let mut ready = Watches::wait(watches, WAIT).map_err(|error| {
            DeviceError::new("wait for front-ends", error, "raise the open-files limit (ulimit -n)")
        })?;
        // A device with remaining work may come first in the next round.
        round = (round + 1) % ready.len().max(1);
        ready.rotate_left(round);
        let left = in_turns(ready, backends.len(), |number, token| {
            let since = Instant::now();
            backends[number].ready(token, &mut contexts[number]).map(|()| since.elapsed())
        })?;
        for (number, token) in left {
            contexts[number].after(token, Duration::ZERO);
        }
    }
    Ok(())
}

/// Serves the ready descriptors, each device for one turn. Returns the remaining descriptors of devices whose turn has
/// ended.
fn in_turns<E>(
    ready: Vec<(usize, Token)>,
    devices: usize,
    mut serve: impl FnMut(usize, Token) -> Result<Duration, E>,
) -> Result<Vec<(usize, Token)>, E> {
    let (mut spent, mut left) = (vec![Duration::ZERO; devices], Vec::new());
    for (number, token) in ready {
        if spent[number] < TURN {
            spent[number] += serve(number, token)?;
        } else {
            left.push((number, token));
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_of_many_busy_rings_has_one_turn_in_a_round() {
        let of =
            |number: usize, tokens: std::ops::Range<u32>| tokens.map(move |token| (number, Token(token)));
        let ready: Vec<_> = of(0, 0..8).chain(of(1, 0..1)).chain(of(2, 0..4)).collect();
        let mut served = Vec::new();
        let left = in_turns::<()>(ready, 3, |number, token| {
            served.push((number, token));
            // A ring takes a turn and the end of a request; messages take little.
            Ok(if number == 0 { 2 * TURN } else { TURN / 8 })
        });
        let expected: Vec<_> = of(0, 0..1).chain(of(1, 0..1)).chain(of(2, 0..4)).collect();
        assert_eq!((served, left), (expected, Ok(of(0, 1..8).collect())));
    }

    #[test]
    fn a_port_has_a_name_a_socket_and_perhaps_a_limit() {
        let read = |text: &str| text.parse::<Port>();
        let port = read("a=vhost-user:/run/a,sessions=7").unwrap();
        assert_eq!((port.name.as_str(), port.path.to_str(), port.limits.sessions), ("a", Some("/run/a"), 7));
        assert_eq!(read("a=vhost-user:/run/a").unwrap().limits, Limits::default());
        for wrong in [
            "vhost-user:/run/a",
            "=vhost-user:/run/a",
            "a=vhost-user:",
            "a=tap:b",
            "a=vhost-user:/run/a,sessions=0",
            "a=vhost-user:/run/a,sessions=65537",
            "a=vhost-user:/run/a,packed=off",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
