//! A network card that is assigned to a guest, and the host's interface at the other end of the card's cable.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use ::vm::assign::{self, Assigned, Assignment};
use measure::Failure;

use super::Namespace;
use super::namespace::host_ip;
use crate::janitor::{Janitor, Leftover};

/// The interfaces at both ends of a cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// The card, with properties for QEMU's device.
    pub assignment: Assignment,
    /// The host's interface at the other end of the cable.
    pub far: String,
}

/// The usual drivers of cards, for a card without a driver: the host cannot tell which driver it needs.
const USUAL_DRIVERS: [&str; 12] = [
    "e1000e",
    "igb",
    "igbvf",
    "igc",
    "ixgbe",
    "ixgbevf",
    "i40e",
    "iavf",
    "ice",
    "mlx5_core",
    "bnxt_en",
    "virtio_net",
];

/// A card that a guest uses, and the interface at the other end of its cable, which is in a namespace. Dropping this
/// value gives both back. The guest must have ended before, because the kernel waits until then.
pub struct LentCard {
    _far: LentInterface,
    assigned: Option<Assigned>,
    leftover: Leftover,
    janitor: Arc<Janitor>,
    /// The drivers that a guest needs for the card.
    pub drivers: Vec<String>,
}

impl LentCard {
    /// Takes both interfaces from the host.
    ///
    /// # Errors
    /// There is no IOMMU, the card shares its IOMMU group with other devices, either interface is in use, or the user
    /// lacks the permission.
    pub fn take(card: &Card, far: &Arc<Namespace>, janitor: &Arc<Janitor>) -> Result<Self, Failure> {
        let wanted = std::slice::from_ref(&card.assignment);
        let far = LentInterface::take(&card.far, far)?;
        let journal: PathBuf = assign::journal(&assign::journals());
        let leftover = Leftover::Journal(journal.clone());
        janitor.made(&leftover);
        let (assigned, groups) = assign::hand_on(wanted, &journal)?;
        let own = groups.iter().flat_map(|group| &group.devices);
        let own = own.filter(|device| device.assigned).find_map(|device| device.driver.clone());
        let drivers = match own.as_deref() {
            None | Some(assign::VFIO) => USUAL_DRIVERS.map(str::to_owned).to_vec(),
            Some(driver) => vec![driver.to_owned()],
        };
        Ok(LentCard { _far: far, assigned: Some(assigned), leftover, janitor: Arc::clone(janitor), drivers })
    }
}

impl Drop for LentCard {
    fn drop(&mut self) {
        let given_back = self.assigned.take().map(|assigned| assigned.give_back(|_, _| {}));
        // Otherwise the janitor tries once more when this process ends, and `tautline vm detach` does too.
        if matches!(given_back, Some(Ok(0))) {
            self.janitor.remove(&self.leftover);
        }
    }
}

/// An interface of the host in a namespace. The interface returns to the host when this value is dropped, and also when
/// the namespace ends for any other reason (network_namespaces(7)).
struct LentInterface {
    name: String,
    at: Arc<Namespace>,
}

impl LentInterface {
    fn take(name: &str, to: &Arc<Namespace>) -> Result<Self, Failure> {
        let tried = || format!("using the interface {name} as the far end of a card's wire");
        let flags = fs::read_to_string(format!("/sys/class/net/{name}/flags"))
            .map_err(|error| Failure::new(tried(), error, "`ip link` names those there are"))?;
        let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap_or(u32::MAX);
        // IFF_UP, netdevice(7).
        if flags & 1 != 0 {
            let remedy = format!(
                "take it down if nothing needs it (`ip link set {name} down`): it loses its addresses"
            );
            return Err(Failure::new(tried(), "it is up, so the host may be using it", remedy));
        }
        host_ip(&format!("link set {name} netns {}", to.holder()))?;
        Ok(LentInterface { name: name.to_owned(), at: Arc::clone(to) })
    }
}

impl Drop for LentInterface {
    fn drop(&mut self) {
        // If this fails, the interface returns when the namespace ends.
        let _ = self.at.ip(&format!("link set {} netns {}", self.name, std::process::id()));
    }
}
