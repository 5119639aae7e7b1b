use std::fs::{File, OpenOptions};

use linux::interface::Interface;
use linux::namespace::UnshareFlags;
use measure::Failure;

use super::namespaces::enter_user;
use crate::finding::Finding;
use crate::sys;

const PATH: &str = "/dev/net/tun";

/// Makes a TAP interface in this network namespace and one in a new network namespace.
///
/// # Errors
/// A TAP interface can be made neither in this network namespace nor in a new one.
pub fn run() -> Result<Finding, Failure> {
    // In this process's own namespace first: there is no way back from a new one.
    let here = Tap::make();
    let inside = enter_user(UnshareFlags::NEWNET).and_then(|()| Tap::make());
    let name = |tap: &Tap| format!("made {} and brought it up", tap.name);
    let (here, inside) = (here.as_ref().map(name), inside.as_ref().map(name));
    let both = |here: String, inside: String| {
        format!("this network: {here}; a network namespace of its own: {inside}")
    };
    Ok(match (here, inside) {
        (Ok(here), Ok(inside)) => Finding::proven(both(here, inside)),
        (Ok(here), Err(failure)) => Finding::partial(
            both(here, format!("{}: {}", failure.tried, failure.answer)),
            failure.remedy.as_str(),
        ),
        (Err(failure), Ok(inside)) => Finding::partial(
            both(format!("{}: {}", failure.tried, failure.answer), inside),
            "for the machine's own network: run as root, or have root make it: \
             ip tuntap add NAME mode tap user USER",
        ),
        (Err(failure), Err(_)) => return Err(failure.clone()),
    })
}

/// A TAP interface that lives as long as this value.
pub struct Tap {
    pub file: File,
    pub name: String,
    pub index: u32,
}

impl Tap {
    /// Makes a TAP interface in this thread's network namespace and brings it up.
    ///
    /// # Errors
    /// `/dev/net/tun` is missing or may not be opened; TUNSETIFF or bringing the interface up is refused without
    /// CAP_NET_ADMIN; or the interface's number cannot be asked for.
    pub fn make() -> Result<Self, Failure> {
        let remedy =
            "load the module tun (`modprobe tun`); in a container, give it the device: --device /dev/net/tun";
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(PATH)
            .map_err(|error| Failure::new(format!("opening {PATH}"), error, remedy))?;
        let privilege = "run as root, or with CAP_NET_ADMIN";
        let fail = |tried: &str, error: std::io::Error| Failure::new(tried, error, privilege);
        let name = sys::make_tap(&file, "tautline%d").map_err(|error| fail("TUNSETIFF", error.into()))?;
        let interface =
            Interface::named(&name).map_err(|error| fail("a socket to ask for the interface", error))?;
        let index = interface.index().map_err(|error| fail("looking for the interface", error))?;
        interface.set_up().map_err(|error| fail("bringing the interface up", error))?;
        Ok(Tap { file, name, index })
    }
}
