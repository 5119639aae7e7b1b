//! Devices for the kernel of this machine, behind VDUSE (Documentation/userspace-api/vduse.rst).
//!
//! A [`Vduse`] makes a device ([`Device`]) known to the kernel and adds it to the vDPA bus. There the kernel's own
//! driver uses it (`virtio_vdpa`: a network device becomes a network interface), or another program by
//! `/dev/vhost-vdpa-N`. The rings are those of vhost-user devices; only the messages differ.
//!
//! The kernel keeps the device, its driver and the rings when the process ends by a crash. A process that is started
//! again opens the device and continues where the rings stand. The kernel waits for the answer to a request for 30 s
//! (`msg_timeout` of the device in sysfs); then it gives the device up.
//!
//! | file | what |
//! |---|---|
//! | `open` | creates or opens the kernel's device |
//! | `bus` | adds the device to the bus, on a thread |
//! | `session` | requests of the kernel, rings |
//! | `memory` | the driver's memory |
//! | `in_flight` | the record from which packed rings go on after a crash |
//! | `kernel` | the kernel's calls; tests have others |
mod bus;
mod hand_over;
mod in_flight;
mod kernel;
mod memory;
mod open;
mod session;

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::memory::{Backing, PeerMemory};
pub use linux::vdpa::Driver;
pub use linux::vduse::Name;
use virtio::Features;

use crate::device::Device;
use crate::log::Log;
use crate::shared::Shared;
use crate::tokens::{self, LINK, MEMORY, PEER};
use crate::{Context as _, DeviceError, Interest, SharedFd, Token, watch_memory};
use bus::{Change, Refused};
use in_flight::Record;
use open::{Opened, Wanted};
use session::{Bases, End, INTERRUPTS, Session};

/// The time until a device that was lost is created again.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// The time between two looks whether a device that the kernel has given up is removed.
const REMOVAL_INTERVAL: Duration = Duration::from_millis(20);
/// How long the end of a device waits for its driver.
const REMOVAL_LIMIT: Duration = Duration::from_secs(5);

/// The settings of a device behind VDUSE.
#[derive(Clone, Debug)]
pub struct VduseOptions {
    /// The device's name in the kernel.
    pub name: Name,
    /// The kind of device (VIRTIO 1.3 §5): 1 is a network device.
    pub device_id: u32,
    /// The most descriptors of a queue.
    pub queue_size: u16,
    /// The driver that the device is given to; `None` if the operator adds the device to the bus.
    pub driver: Option<Driver>,
    /// Bytes of memory that a driver may share.
    pub memory_bytes: u64,
}

/// A device behind VDUSE. One thread calls all of its methods, with the same context.
pub struct Vduse<D: Device> {
    shared: Arc<Shared>,
    options: VduseOptions,
    /// The device as it is before its driver.
    device: D,
    memory: Option<Arc<PeerMemory>>,
    record: Option<Record>,
    session: Option<Session<D>>,
    change: Option<Change>,
    /// What the driver has made of the device.
    made: Option<String>,
    /// Whether another process is about to take over. Nothing is served here then.
    stands_still: bool,
}

impl<D: Device> Vduse<D> {
    /// A device that is not opened yet.
    pub fn new(device: D, log: Arc<Log>, options: VduseOptions) -> Self {
        Vduse {
            shared: Arc::new(Shared::new(log)),
            options,
            device,
            memory: None,
            record: None,
            session: None,
            change: None,
            made: None,
            stands_still: false,
        }
    }

    /// Sets the file in which chains in flight of packed rings are recorded, at `offset` bytes, a multiple of the page
    /// size. A later process goes on from the record after a crash. Without a file, a packed ring goes on only if each
    /// of its chains has one descriptor. Call this before [`Vduse::start`] or [`Vduse::take_over`].
    pub fn record_in_flight(&mut self, file: SharedFd, offset: u64) {
        self.record = Some(Record { file, offset, queue_size: self.options.queue_size });
    }

    /// The features that are offered: those of the device. The kernel wants ACCESS_PLATFORM.
    fn offered(&self) -> Features {
        self.device.features().union(Features::ACCESS_PLATFORM)
    }

    fn new_memory(&self, context: &mut D::Context<'_>) -> Result<Arc<PeerMemory>, DeviceError> {
        let unmapper = Arc::clone(self.shared.guard.files());
        PeerMemory::unmapped_by(unmapper, self.options.memory_bytes, Backing::Ram)
            .and_then(|memory| watch_memory(MEMORY, &memory, context).map(|()| memory))
            .map_err(|error| self.watch_failed(error))
    }

    fn watch_failed(&self, error: io::Error) -> DeviceError {
        let what = format!("watch the descriptors of {}", self.shared.log.name());
        DeviceError::new(what, error, "raise the open-files limit (ulimit -n)")
    }

    /// Starts the device: creates it, or opens the one that a process before this one has left, and adds it to the
    /// bus.
    ///
    /// # Errors
    /// The kernel has no VDUSE or refuses the device, another process serves it, or a descriptor cannot be watched.
    pub fn start(&mut self, context: &mut D::Context<'_>) -> Result<(), DeviceError> {
        self.memory = Some(self.new_memory(context)?);
        self.open(context)
    }

    fn open(&mut self, context: &mut D::Context<'_>) -> Result<(), DeviceError> {
        let opened = open::open(&Wanted {
            name: &self.options.name,
            device_id: self.options.device_id,
            features: self.offered().bits(),
            queues: self.device.queue_count(),
            queue_size: self.options.queue_size,
            config: &self.device.config(),
        })?;
        let (device, bases) = match opened {
            Opened::New(device) => (device, None),
            Opened::Former(device) => (device, Some(Bases::Rings)),
            Opened::GivenUp => {
                let change = Change::discard(&self.options.name).map_err(|error| self.not_removed(&error))?;
                self.change = Some(change);
                context.after(LINK, REMOVAL_INTERVAL);
                return Ok(());
            }
        };
        self.serve(Arc::new(device), bases.as_ref(), context)?;
        self.add(context);
        Ok(())
    }

    fn not_removed(&self, error: &dyn Display) -> DeviceError {
        let name = &self.options.name;
        let remedy = format!("remove it, as root: vdpa dev del {name}");
        DeviceError::new(format!("remove vduse:{name}, which the kernel has given up"), error, remedy)
    }

    /// Opens the device once a former one is removed.
    fn open_again(&mut self, context: &mut D::Context<'_>) -> Result<(), DeviceError> {
        match self.change.take() {
            Some(change) if !change.is_done() => {
                self.change = Some(change);
                context.after(LINK, REMOVAL_INTERVAL);
                return Ok(());
            }
            Some(change) => drop(change.outcome().map_err(|refused| self.not_removed(&refused))?),
            None => {}
        }
        self.open(context)
    }

    /// Serves an open device, which may have a driver already.
    fn serve(
        &mut self,
        kernel: Arc<dyn kernel::Kernel>,
        bases: Option<&Bases>,
        context: &mut D::Context<'_>,
    ) -> Result<(), DeviceError> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let watched = context.watch(PEER, &kernel.file(), Interest::Readable);
        watched.map_err(|error| self.watch_failed(error))?;
        let (shared, memory) = (Arc::clone(&self.shared), Arc::clone(memory));
        memory.take_loss();
        let session = Session::new(kernel, self.device.clone(), self.offered(), shared, memory);
        let session = session.with_record(self.record.clone());
        let session = self.session.insert(session);
        let went_on = bases.map_or(Ok(()), |bases| session.go_on(bases, context));
        if let Err(refusal) = went_on {
            context.unwatch(PEER);
            self.session = None;
            let name = &self.options.name;
            let remedy = format!("give the port the options that it had, or remove it: vdpa dev del {name}");
            return Err(DeviceError::new(format!("continue with vduse:{name}"), refusal, remedy));
        }
        if session.is_driven() {
            self.shared.log.log(context, "continues with the driver of the former process");
        }
        Ok(())
    }

    /// Adds the device to the bus, if this is not left to the operator.
    fn add(&mut self, context: &mut D::Context<'_>) {
        let Some(driver) = self.options.driver else { return };
        let began = Change::add(&self.options.name, driver).and_then(|change| {
            context.watch(LINK, change.done().shared(), Interest::Readable)?;
            Ok(change)
        });
        match began {
            Ok(change) => self.change = Some(change),
            Err(error) => self.shared.log.log(context, format_args!("cannot be added to the bus: {error}")),
        }
    }

    /// The device was added to the bus, or the kernel has refused that.
    fn added(&mut self, context: &mut D::Context<'_>) {
        let Some(change) = self.change.take() else { return };
        context.unwatch(LINK);
        match change.outcome() {
            Ok(made) => {
                if let Some(made) = &made {
                    self.shared.log.log(context, format_args!("the kernel has it as {made}"));
                }
                self.made = made;
            }
            Err(refused) => {
                let remedy = self.remedy(&refused);
                self.shared.log.log(context, format_args!("{refused}; {remedy}"));
            }
        }
    }

    fn remedy(&self, refused: &Refused) -> String {
        let (name, module) = (&self.options.name, self.options.driver.map_or("virtio_vdpa", Driver::module));
        match refused.source.kind() {
            io::ErrorKind::NotFound => format!(
                "load the kernel's modules, as root: modprobe vdpa, modprobe {module} (CONFIG_{}); then start the port \
                 again",
                module.to_uppercase()
            ),
            io::ErrorKind::PermissionDenied => "run the switch as root, or with CAP_NET_ADMIN".to_owned(),
            io::ErrorKind::AlreadyExists => "give the port another device's name".to_owned(),
            _ => format!("see the kernel's log; by hand: vdpa dev add name {name} mgmtdev vduse"),
        }
    }

    /// Called when a watched descriptor is ready, or when a timer has expired.
    ///
    /// # Errors
    /// The device cannot continue and must be ended.
    pub fn ready(&mut self, token: Token, context: &mut D::Context<'_>) -> Result<(), DeviceError> {
        if self.stands_still {
            return Ok(());
        }
        if token == LINK && self.session.is_none() {
            return self.open_again(context);
        }
        if token == LINK {
            self.added(context);
            return Ok(());
        }
        let loss = self.memory.as_ref().filter(|_| token == MEMORY).and_then(|memory| memory.take_loss());
        let Some(session) = &mut self.session else { return Ok(()) };
        match token {
            PEER => {
                if let Err(why) = session.serve(context) {
                    self.lost(&why, context);
                }
            }
            INTERRUPTS => session.interrupt(context),
            MEMORY => {
                if let Some(loss) = loss {
                    session.memory_lost(&loss, context);
                }
            }
            token => {
                if let Some(index) = tokens::kicked(token) {
                    session.kicked(index, context);
                }
            }
        }
        Ok(())
    }

    /// The device is lost: creates it again soon.
    fn lost(&mut self, why: &End, context: &mut D::Context<'_>) {
        self.shared.log.log(context, format_args!("{why}; it is made again"));
        self.close(context);
        context.after(LINK, RETRY_INTERVAL);
    }

    /// Stops all queues and closes the device.
    fn close(&mut self, context: &mut D::Context<'_>) {
        for token in [LINK, PEER] {
            context.unwatch(token);
        }
        if let Some(mut session) = self.session.take() {
            session.stop(context);
        }
        // The kernel refuses a change of a device that it has given up.
        self.change = None;
        self.made = None;
    }

    /// Called after a queue of this kind has stopped by itself and was detached.
    pub fn queue_stopped(&mut self, kind: D::Kind, why: &dyn Display, context: &mut D::Context<'_>) {
        if let Some(session) = &mut self.session {
            session.queue_stopped(kind, why, context);
        }
    }

    /// Called when a thread does not return a queue of this kind. All queues start again where their rings stand.
    pub fn queue_lost(&mut self, kind: D::Kind, why: &dyn Display, context: &mut D::Context<'_>) {
        let Some(session) = &mut self.session else { return };
        self.shared.log.log(context, format_args!("{}: {why}; all queues start again", D::name(kind)));
        if let Err(refusal) = session.start_again(&Bases::Rings, context) {
            self.shared.log.log(context, refusal);
        }
    }

    /// What the driver has made of the device: the name of a network interface, or the path of a character device.
    pub fn made(&self) -> Option<&str> {
        self.made.as_deref()
    }

    /// Features agreed on with the driver, if there is one.
    pub fn features(&self) -> Option<Features> {
        self.session.as_ref().filter(|session| session.is_driven()).map(|session| session.engine.features)
    }

    /// The kind and state of the device in one line of text.
    pub fn describe(&self) -> String {
        let name = self.shared.log.name();
        let made = self.made.as_ref().map_or_else(String::new, |made| format!(", {made}"));
        match &self.session {
            None => format!("{name}, not open"),
            Some(session) if session.is_driven() => {
                format!("{name}{made}, {}", crate::peer::describe(&session.engine))
            }
            Some(_) => format!("{name}{made}, waits for a driver"),
        }
    }

    /// Ends the device: removes it from the bus and destroys it.
    pub fn end(&mut self, context: &mut D::Context<'_>) {
        context.unwatch(MEMORY);
        if self.session.is_none() {
            return;
        }
        let removed = Change::remove(&self.options.name).map_err(|error| error.to_string());
        let removed = removed.and_then(|change| self.removed(change, context));
        self.close(context);
        let destroyed = open::destroy(&self.options.name).map_err(|error| error.to_string());
        if let Err(error) = removed.and(destroyed) {
            let name = &self.options.name;
            let remedy = format_args!("remove it, as root: vdpa dev del {name}");
            self.shared.log.log(context, format_args!("{error}; {remedy}"));
        }
    }

    /// Answers the kernel until the device is removed.
    fn removed(&mut self, change: Change, context: &mut D::Context<'_>) -> Result<(), String> {
        let deadline = Instant::now() + REMOVAL_LIMIT;
        while !change.is_done() {
            if Instant::now() > deadline {
                return Err(format!("its driver does not end within {} s", REMOVAL_LIMIT.as_secs()));
            }
            if let Some(session) = &mut self.session
                && let Err(End::System(error)) = session.serve(context)
            {
                return Err(error.to_string());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        change.outcome().map(drop).map_err(|refused| refused.to_string())
    }
}

/// The descriptor of an open device, for another process.
fn file_of<D: Device>(session: &Session<D>) -> SharedFd {
    session.kernel().file()
}
