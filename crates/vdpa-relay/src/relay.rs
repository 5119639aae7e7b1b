//! The socket of a relay, and its front-ends, one after the other.
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use memory::{Backing, PeerMemory};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use vhost_device::descriptors::DescriptorGuard;
use vhost_device::{
    Context as _, DeviceError, Interest, Log, PlainContext, Token, new_memory, pause_after, unix_socket,
};
use vhost_user::socket::{Connection, DescriptorFilter, Listener, SocketError};

use crate::front_end::{End, FrontEnd, RINGS};
use crate::hardware::Hardware;
use crate::options::Port;

/// How long a wait may last before `goes_on` is asked again; a signal ends it earlier.
const WAIT: Duration = Duration::from_millis(500);
/// The time between two checks that the device still exists. The kernel does not tell the relay that the device is to be
/// removed, and waits until the relay has closed the device.
const LOOK: Duration = Duration::from_millis(200);
/// The pause before the next front-end while the system or the device refuses.
const PAUSE: Duration = Duration::from_millis(500);

const LINK: Token = Token(0);
const PEER: Token = Token(1);
const MEMORY: Token = Token(2);
const DEVICE: Token = Token(3);
const CHANGED: Token = Token(4);

/// Prints a line of the log.
type Print = fn(&dyn Display);

type Context = PlainContext<Print>;

/// Relays the front-ends of a port to a device as long as `goes_on` returns true.
///
/// # Errors
/// The device cannot be opened, or the socket cannot be made. Later, a descriptor cannot be watched or closed.
pub fn run(
    port: &Port,
    device: &Path,
    log: Print,
    mut goes_on: impl FnMut() -> bool,
) -> Result<(), DeviceError> {
    let mut context = PlainContext::new(log);
    allow_pinning(port.memory_bytes);
    let mut relay = Relay::new(port, device, &mut context)?;
    while goes_on() {
        let ready = context.wait(WAIT).map_err(|error| {
            DeviceError::new("wait for front-ends", error, "raise the open-files limit (ulimit -n)")
        })?;
        for token in ready {
            relay.ready(token, &mut context)?;
        }
    }
    Ok(())
}

/// Raises the limit of locked memory to what a front-end may share, as far as this process may.
fn allow_pinning(bytes: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Memlock);
    if current.is_none_or(|current| current >= bytes) {
        return;
    }
    let wanted = Rlimit { current: Some(bytes), maximum: maximum.map(|maximum| maximum.max(bytes)) };
    if setrlimit(Resource::Memlock, wanted).is_err() {
        // Without the privilege: what is allowed. Memory that does not fit is refused with this limit's name.
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
}

struct Relay<'a> {
    log: Log,
    device: &'a Path,
    guard: Arc<DescriptorGuard>,
    memory: Arc<PeerMemory>,
    listener: Listener,
    front_end: Option<FrontEnd>,
    /// The number of front-ends since the last one whose device ran.
    fruitless: u32,
}

impl<'a> Relay<'a> {
    fn new(port: &Port, device: &'a Path, context: &mut Context) -> Result<Self, DeviceError> {
        unix_socket::check("vhost-user", &port.path)?;
        let log = Log::new(port.name.as_str());
        // Opened to see that it can be, and closed again: it is opened for each front-end.
        let hardware = Hardware::open(device)?;
        log.log(context, format_args!("{} is {hardware}", device.display()));
        drop(hardware);
        let guard = Arc::new(DescriptorGuard::default());
        let memory = PeerMemory::unmapped_by(Arc::clone(guard.files()), port.memory_bytes, Backing::Ram);
        let memory = new_memory(MEMORY, &log, memory, context)?;
        let filter: Arc<dyn DescriptorFilter> = Arc::clone(&guard) as _;
        let listener = Listener::bind_with(&port.path, Some(filter)).map_err(|error| {
            let remedy = "give a path that you may create and at which no other process listens";
            DeviceError::new(format!("open {}", log.name()), error, remedy)
        })?;
        let relay = Relay { log, device, guard, memory, listener, front_end: None, fruitless: 0 };
        relay.listen(context)?;
        Ok(relay)
    }

    fn listen(&self, context: &mut Context) -> Result<(), DeviceError> {
        context.watch(LINK, self.listener.socket(), Interest::Readable).map_err(|error| {
            DeviceError::new("watch a socket", error, "raise the open-files limit (ulimit -n)")
        })
    }

    fn ready(&mut self, token: Token, context: &mut Context) -> Result<(), DeviceError> {
        if token == LINK && self.front_end.is_none() {
            self.accept(context)?;
        }
        let loss = if token == MEMORY { self.memory.take_loss() } else { None };
        let Some(front_end) = &mut self.front_end else { return Ok(()) };
        let outcome = match token {
            PEER => front_end.serve(PEER, &self.guard, &self.log, context),
            MEMORY => loss.map_or(Ok(()), |loss| Err(End::MemoryLost(loss))),
            DEVICE => {
                context.after(DEVICE, LOOK);
                front_end.check()
            }
            CHANGED => {
                front_end.note_status(&self.log, context);
                Ok(())
            }
            Token(RINGS..) => front_end.serve_rings(&self.log, context),
            _ => Ok(()),
        };
        if let Err(why) = outcome {
            self.end(&why, context)?;
        }
        self.guard.check(self.log.name())
    }

    /// Takes the next front-end, and opens the device for it.
    fn accept(&mut self, context: &mut Context) -> Result<(), DeviceError> {
        let connection = match self.listener.try_accept() {
            Ok(Some(connection)) => connection,
            Ok(None) => return self.listen(context),
            Err(error) => {
                self.pause(context);
                self.log.log(context, format_args!("{error}; trying again"));
                return Ok(());
            }
        };
        match self.connect(connection, context) {
            Ok(front_end) => {
                context.unwatch(LINK);
                context.after(DEVICE, LOOK);
                self.front_end = Some(front_end);
                self.log.log(context, "a front-end has connected");
            }
            Err(error) => {
                self.pause(context);
                self.log.warn(context, format_args!("a front-end was disconnected: {error}"));
            }
        }
        Ok(())
    }

    fn connect(&self, connection: Connection, context: &mut Context) -> Result<FrontEnd, DeviceError> {
        let failed = |error: SocketError| {
            DeviceError::new("take a front-end", error, "raise the open-files limit (ulimit -n)")
        };
        let hardware = Hardware::open(self.device)?;
        // Discards the losses of a former front-end's memory.
        self.memory.take_loss();
        connection.limit_unread().map_err(failed)?;
        let front_end = FrontEnd::new(connection, hardware, &self.memory)
            .map_err(|error| DeviceError::new("offer the device's features", error, "name another device"))?;
        context
            .watch(PEER, front_end.socket(), Interest::Readable)
            .and_then(|()| context.watch(CHANGED, front_end.changed().shared(), Interest::Readable))
            .map_err(|error| failed(SocketError::watch(error)))?;
        Ok(front_end)
    }

    /// Takes no front-end for a while.
    fn pause(&self, context: &mut Context) {
        context.unwatch(LINK);
        context.after(LINK, PAUSE);
    }

    /// Closes the connection and the device.
    fn end(&mut self, why: &End, context: &mut Context) -> Result<(), DeviceError> {
        let ran = self.front_end.take().is_some_and(|front_end| front_end.ran);
        context.unwatch(PEER);
        context.unwatch(CHANGED);
        FrontEnd::unwatch_rings(context);
        match why {
            End::Socket(SocketError::Closed) => self.log.log(context, "the front-end has disconnected"),
            why => self.log.warn(context, format_args!("{why}; disconnected")),
        }
        self.fruitless = if ran { 0 } else { self.fruitless.saturating_add(1) };
        let Some(pause) = pause_after(self.fruitless) else { return self.listen(context) };
        context.after(LINK, pause);
        Ok(())
    }
}
