//! Devices as a service, on the thread that calls.
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vhost_device::{Backend, BackendOptions, Context as _, DeviceError, Log, PlainContext, TURN, Watches};

use crate::{CryptoDevice, Limits};

/// How long a wait may last before `goes_on` is asked again; a signal ends it earlier.
const WAIT: Duration = Duration::from_millis(500);

/// Prints a line of the log.
type Print = fn(&dyn Display);

/// A device and the socket where it listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// What lines of the log begin with.
    pub name: String,
    /// Path of the socket.
    pub path: PathBuf,
    /// What a connection may hold.
    pub limits: Limits,
}

/// Serves a device at each of these sockets for as long as `goes_on` says, and removes the sockets.
///
/// # Errors
/// A socket cannot be made, or a device cannot go on. All are ended then.
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

/// A device whose rings and messages have taken a turn together leaves the rest for the next round: others wait for one
/// turn and one request of it, however many rings it has.
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
        // What a device had to leave may come first next time.
        round = (round + 1) % ready.len().max(1);
        ready.rotate_left(round);
        let mut spent = vec![Duration::ZERO; backends.len()];
        for (number, token) in ready {
            if spent[number] >= TURN {
                contexts[number].after(token, Duration::ZERO);
                continue;
            }
            let since = Instant::now();
            backends[number].ready(token, &mut contexts[number])?;
            spent[number] += since.elapsed();
        }
    }
    Ok(())
}
