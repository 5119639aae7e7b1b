//! Devices as a service, on the thread that calls.
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use vhost_device::{Backend, BackendOptions, DeviceError, Log, PlainContext, Watches};

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

fn serve(
    backends: &mut [Backend<CryptoDevice>],
    contexts: &mut [PlainContext<Print>],
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(), DeviceError> {
    for (backend, context) in backends.iter_mut().zip(&mut *contexts) {
        backend.start(context)?;
    }
    while goes_on() {
        let watches = contexts.iter_mut().map(PlainContext::watches);
        let ready = Watches::wait(watches, WAIT).map_err(|error| {
            DeviceError::new("wait for front-ends", error, "raise the open-files limit (ulimit -n)")
        })?;
        for (number, token) in ready {
            backends[number].ready(token, &mut contexts[number])?;
        }
    }
    Ok(())
}
