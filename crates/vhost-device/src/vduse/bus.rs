//! Changes of the vDPA bus. The kernel asks this process questions while it carries out a change, so that each change
//! has a thread of its own.
use std::io;
use std::thread::JoinHandle;

use linux::vdpa::{self, Driver};
use linux::vduse::Name;

use super::open;
use crate::EventFd;

/// The name of the management device of VDUSE devices.
const MANAGEMENT_DEVICE: &str = "vduse";

/// A change that could not be carried out.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub(super) struct Refused {
    pub what: String,
    pub source: io::Error,
}

/// What a driver has made of the device: a network interface's name, or a path.
pub(super) type Made = Option<String>;

/// A change under way.
pub(super) struct Change {
    thread: JoinHandle<Result<Made, Refused>>,
    done: EventFd,
}

impl Change {
    /// Adds a device to the bus, unless it is there, and gives it to a driver.
    ///
    /// # Errors
    /// The system refuses an eventfd or a thread.
    pub fn add(name: &Name, driver: Driver) -> io::Result<Self> {
        let name = name.clone();
        Self::begin(move || add(&name, driver))
    }

    /// Removes a device from the bus.
    ///
    /// # Errors
    /// The system refuses an eventfd or a thread.
    pub fn remove(name: &Name) -> io::Result<Self> {
        let name = name.clone();
        Self::begin(move || remove(&name).map(|()| None))
    }

    /// Removes a device that the kernel has given up from the bus, and destroys it. The change waits for other changes of
    /// the bus, which may ask this process about their devices.
    ///
    /// # Errors
    /// The system refuses an eventfd or a thread.
    pub fn discard(name: &Name) -> io::Result<Self> {
        let name = name.clone();
        Self::begin(move || {
            remove(&name)?;
            let destroyed = open::destroy(&name);
            destroyed.map(|()| None).map_err(|source| Refused { what: format!("destroy {name}"), source })
        })
    }

    fn begin(change: impl FnOnce() -> Result<Made, Refused> + Send + 'static) -> io::Result<Self> {
        let done = EventFd::new()?;
        let tell = done.clone();
        let thread = std::thread::Builder::new().name("vdpa".to_owned()).spawn(move || {
            let outcome = change();
            tell.notify();
            outcome
        })?;
        Ok(Change { thread, done })
    }

    /// The descriptor that is readable when the change has ended.
    pub fn done(&self) -> &EventFd {
        &self.done
    }

    /// Whether the change has ended.
    pub fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the end of the change.
    ///
    /// # Errors
    /// What the kernel has refused.
    pub fn outcome(self) -> Result<Made, Refused> {
        self.thread.join().unwrap_or_else(|_| {
            let source = io::Error::other("a thread has panicked");
            Err(Refused { what: "change the vDPA bus".to_owned(), source })
        })
    }
}

fn add(name: &Name, driver: Driver) -> Result<Made, Refused> {
    let refused = |what: String| move |source| Refused { what, source };
    if !vdpa::has_driver(driver) {
        let source = io::Error::from(io::ErrorKind::NotFound);
        return Err(Refused { what: format!("find the driver {}", driver.module()), source });
    }
    match vdpa::add(MANAGEMENT_DEVICE, name.as_str()) {
        // The former process has added the device.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if vdpa::is_served_by_a_process(name.as_str()) == Some(false) {
                let source =
                    io::Error::new(error.kind(), "a card or another driver has a device of this name");
                return Err(Refused { what: format!("add {name} to the vDPA bus"), source });
            }
        }
        added => added.map_err(refused(format!("add {name} to the vDPA bus")))?,
    }
    let bound = vdpa::bind(name.as_str(), driver);
    bound.map_err(refused(format!("give {name} to the driver {}", driver.module())))?;
    Ok(vdpa::made(name.as_str()))
}

/// Removes a device from the bus. Waits for answers to the kernel's requests, unless the kernel has given the device
/// up. A device of this name that no process serves, such as a card, stays.
///
/// # Errors
/// The step that the kernel refused. A device that is not on the bus is no error.
pub(super) fn remove(name: &Name) -> Result<(), Refused> {
    if vdpa::is_served_by_a_process(name.as_str()) == Some(false) {
        return Ok(());
    }
    match vdpa::remove(name.as_str()) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(()),
        removed => {
            removed.map_err(|source| Refused { what: format!("remove {name} from the vDPA bus"), source })
        }
    }
}
