use std::fs::{File, OpenOptions};
use std::net::UdpSocket;

use measure::Failure;
use nix::net::if_::if_nametoindex;
use nix::sched::CloneFlags;

use super::namespaces::enter_user;
use super::{Finding, Probe};
use crate::sys;

pub const PROBE: Probe = Probe {
    id: "tun",
    title: "TUN/TAP interfaces",
    opens: "guests and switches on the kernel's network stack",
    run,
};

const PATH: &str = "/dev/net/tun";

fn run() -> Result<Finding, Failure> {
    // In the namespace it lives in first: afterwards there is no way back.
    let here = Tap::make();
    let inside = enter_user(CloneFlags::CLONE_NEWNET).and_then(|()| Tap::make());
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
    /// Makes one in this thread's network namespace and brings it up.
    pub fn make() -> Result<Self, Failure> {
        let remedy =
            "load the module tun (`modprobe tun`); in a container, give it the device: --device /dev/net/tun";
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(PATH)
            .map_err(|error| Failure::new(format!("opening {PATH}"), error, remedy))?;
        let privilege = "run as root, or with CAP_NET_ADMIN";
        let fail = |tried: &str, error: nix::Error| Failure::new(tried, error, privilege);
        let name = sys::tun_set_interface(&file, "tautline%d", libc::IFF_TAP | libc::IFF_NO_PI)
            .map_err(|error| fail("TUNSETIFF", error))?;
        let index =
            if_nametoindex(name.as_str()).map_err(|error| fail("looking for the interface", error))?;
        let socket =
            UdpSocket::bind("0.0.0.0:0").map_err(|error| Failure::new("a UDP socket", error, privilege))?;
        sys::interface_up(&socket, &name).map_err(|error| fail("bringing the interface up", error))?;
        Ok(Tap { file, name, index })
    }
}
