//! A guest's network interface: what QEMU is told, and what the guest needs for it.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use measure::Failure;

use super::modules::{Module, Modules};

/// One interface, not yet in a guest.
#[derive(Clone, Debug)]
pub struct Nic {
    /// What starts QEMU where the interface's other end is: `nsenter` and its options.
    pub enter: Vec<OsString>,
    /// `-netdev`, `-device` and what they need.
    pub arguments: Vec<String>,
    /// What the arguments name by its number.
    pub inherited: Option<Arc<OwnedFd>>,
    /// Whether a back-end maps the guest's memory.
    pub shares_memory: bool,
    /// The driver's modules in the guest, without what they depend on.
    pub drivers: Vec<String>,
    /// The interface's address in the guest, and the bits of its network.
    pub address: (Ipv4Addr, u8),
}

/// One with the modules of a guest's kernel.
#[derive(Clone, Debug)]
pub struct FittedNic {
    pub nic: Nic,
    pub modules: Vec<Module>,
}

impl FittedNic {
    /// # Errors
    /// The kernel has no modules here, or they cannot be read.
    pub fn new(nic: Nic, kernel: &Path) -> Result<Self, Failure> {
        let modules = Modules::of_image(kernel)?.with_dependencies(&nic.drivers).map_err(|error| {
            let remedy = "check that its modules can be read";
            Failure::new(format!("reading the modules of {}", kernel.display()), error, remedy)
        })?;
        Ok(FittedNic { nic, modules })
    }
}
