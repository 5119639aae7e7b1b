//! A guest's network interface: QEMU's arguments for it, and the modules that the guest needs for it.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use measure::Failure;

use super::modules::{Module, Modules};

/// One interface that no guest uses yet.
#[derive(Clone, Debug)]
pub struct Nic {
    /// The command that starts QEMU in the namespace of the interface's other end: `nsenter` and its options.
    pub enter: Vec<OsString>,
    /// The arguments `-netdev`, `-device` and what these two require.
    pub arguments: Vec<String>,
    /// The descriptor that the arguments name by its number.
    pub inherited: Option<Arc<OwnedFd>>,
    /// Whether a back-end maps the guest's memory.
    pub shares_memory: bool,
    /// The driver's modules in the guest, without the modules on which they depend.
    pub drivers: Vec<String>,
    /// The interface's address in the guest, and the prefix length of its network in bits.
    pub address: (Ipv4Addr, u8),
}

impl Nic {
    /// QEMU 7.2 without KVM ends by SIGSEGV when the guest unmasks an interrupt vector of a card whose other end is a
    /// vhost-user back-end, so such a card gets no vectors.
    pub(crate) const WITHOUT_VECTORS: &str = ",vectors=0";

    /// A port of `tautline switch` that listens at `socket`; `card` is the card's address and `address` is the
    /// interface's address.
    pub fn at_switch(socket: &Path, card: [u8; 6], address: (Ipv4Addr, u8), is_emulated: bool) -> Self {
        let card = card.map(|byte| format!("{byte:02x}")).join(":");
        let vectors = if is_emulated { Self::WITHOUT_VECTORS } else { "" };
        let arguments = vec![
            "-chardev".into(),
            format!("socket,id=switch,path={}", socket.display()),
            "-netdev".into(),
            "vhost-user,id=net,chardev=switch".into(),
            "-device".into(),
            // With the longest queues that there are. Without the card's boot ROM, which is in a package of its own.
            format!(
                "virtio-net-pci,netdev=net,mac={card},rx_queue_size=1024,tx_queue_size=1024,romfile={vectors}"
            ),
        ];
        let drivers = ["virtio_pci", "virtio_net"].map(str::to_owned).into();
        Nic { enter: Vec::new(), arguments, inherited: None, shares_memory: true, drivers, address }
    }
}

/// A network interface, with the modules that a guest's kernel needs for it.
#[derive(Clone, Debug)]
pub struct FittedNic {
    pub nic: Nic,
    pub modules: Vec<Module>,
}

impl FittedNic {
    /// Reads the interface's modules, and the modules on which they depend, for this kernel image.
    ///
    /// # Errors
    /// This machine has no modules of the kernel, or they cannot be read.
    pub fn new(nic: Nic, kernel: &Path) -> Result<Self, Failure> {
        let modules = Modules::of_image(kernel)?.with_dependencies(&nic.drivers).map_err(|error| {
            let remedy = "check that its modules can be read";
            Failure::new(format!("reading the modules of {}", kernel.display()), error, remedy)
        })?;
        Ok(FittedNic { nic, modules })
    }
}
