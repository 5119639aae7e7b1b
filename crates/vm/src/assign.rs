//! PCI devices assigned to a guest: finds the IOMMU group of each device, changes its driver, and gives it back.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use host::journal::{Entry, Journal};
use host::{HostTree, Knob, PutBack, undo};
use measure::Failure;
use serde::{Serialize, Serializer};

use crate::attach::JOURNALS;

const DEVICES: &str = "/sys/bus/pci/devices";
/// The driver with which a device is assigned to a guest.
pub const VFIO: &str = "vfio-pci";
/// The journal's name for it.
const RULE: &str = "assign";

/// The address of a device: domain, bus, slot and function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress(String);

impl FromStr for PciAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no PCI address; write for example 0000:06:00.0 or 06:00.0");
        let (rest, function) = text.rsplit_once('.').ok_or_else(wrong)?;
        let parts: Vec<&str> = rest.split(':').collect();
        let (domain, bus, slot) = match parts[..] {
            [bus, slot] => ("0", bus, slot),
            [domain, bus, slot] => (domain, bus, slot),
            _ => return Err(wrong()),
        };
        let number = |digits: &str, most: u32| {
            // No sign, which the parser would take.
            let hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let number = u32::from_str_radix(digits, 16).ok().filter(|number| hex && *number <= most);
            number.ok_or_else(wrong)
        };
        let (domain, bus) = (number(domain, 0xffff)?, number(bus, 0xff)?);
        let (slot, function) = (number(slot, 0x1f)?, number(function, 7)?);
        Ok(PciAddress(format!("{domain:04x}:{bus:02x}:{slot:02x}.{function}")))
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A device that the user assigns, such as `06:00.0`, with properties of QEMU's device, such as `06:00.0,rombar=0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Which.
    pub address: PciAddress,
    properties: String,
}

impl FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, properties) = text.split_once(',').unwrap_or((text, ""));
        Ok(Assignment { address: address.parse()?, properties: properties.to_owned() })
    }
}

impl Assignment {
    /// The value of QEMU's `-device`.
    pub fn device(&self) -> String {
        let comma = if self.properties.is_empty() { "" } else { "," };
        format!("{VFIO},host={}{comma}{}", self.address, self.properties)
    }
}

/// A device of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupDevice {
    /// Which.
    pub address: PciAddress,
    /// The vendor and device numbers, such as `8086:10d3`.
    pub id: String,
    /// The driver that is bound to the device.
    pub driver: Option<String>,
    /// The network interfaces and disks that the host loses with the device.
    pub provides: Vec<String>,
    /// The reason why the device may stay with the host; `None` if it must be assigned too.
    pub stays: Option<String>,
    /// Whether the user assigns the device.
    pub assigned: bool,
}

/// Devices that an IOMMU cannot isolate from each other. They are assigned together, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IommuGroup {
    /// The kernel's number of the group.
    pub number: u32,
    /// All devices in the group.
    pub devices: Vec<GroupDevice>,
}

/// The IOMMU groups of the devices that the user assigns, with every device of each group.
///
/// # Errors
/// A device does not exist or is in no IOMMU group, or its group holds an entry that is not a PCI device. Or the
/// group holds a device that is neither assigned nor may stay with the host ([`GroupDevice::stays`]).
pub fn groups(tree: &HostTree, assigned: &[Assignment]) -> Result<Vec<IommuGroup>, Failure> {
    let mut groups = BTreeMap::new();
    for Assignment { address, .. } in assigned {
        let tried = format!("handing on the PCI device {address}");
        if !tree.has(&format!("{DEVICES}/{address}")) {
            return Err(Failure::new(
                tried,
                format!("there is none in {DEVICES}"),
                "`lspci -D` names those there are",
            ));
        }
        let link = tree.link(&format!("{DEVICES}/{address}/iommu_group"));
        let number = link.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()?.parse().ok());
        let Some(number) = number else {
            return Err(Failure::new(
                tried,
                "it is in no IOMMU group: the host has no IOMMU at work",
                "switch VT-d or AMD-Vi on in the firmware, and give the kernel intel_iommu=on",
            ));
        };
        groups.insert(number, address.clone());
    }
    groups.into_iter().map(|(number, address)| group(tree, number, &address, assigned)).collect()
}

fn group(
    tree: &HostTree,
    number: u32,
    address: &PciAddress,
    assigned: &[Assignment],
) -> Result<IommuGroup, Failure> {
    let tried = format!("handing on IOMMU group {number}, with the PCI device {address}");
    let mut devices = Vec::new();
    for name in tree.names(&format!("/sys/kernel/iommu_groups/{number}/devices")) {
        let Ok(address) = name.parse::<PciAddress>() else {
            let remedy = "it cannot be taken apart; use another slot";
            return Err(Failure::new(tried, format!("{name} is in it, which is no PCI device"), remedy));
        };
        let assigned = assigned.iter().any(|one| one.address == address);
        devices.push(device(tree, address, assigned));
    }
    let left: Vec<&GroupDevice> =
        devices.iter().filter(|device| !device.assigned && device.stays.is_none()).collect();
    if let Some(first) = left.first() {
        let names: Vec<String> = left.iter().map(|device| describe(device)).collect();
        return Err(Failure::new(
            tried,
            format!(
                "it holds {} too, which could reach the guest's memory and be reached from it",
                names.join(", ")
            ),
            format!("hand on all of it (--assign {}), or put the card into another slot", first.address),
        ));
    }
    Ok(IommuGroup { number, devices })
}

fn describe(device: &GroupDevice) -> String {
    let driver = device.driver.as_deref().unwrap_or("no driver");
    match device.provides.is_empty() {
        true => format!("{} ({driver})", device.address),
        false => format!("{} ({driver}, {})", device.address, device.provides.join(", ")),
    }
}

fn device(tree: &HostTree, address: PciAddress, assigned: bool) -> GroupDevice {
    let folder = format!("{DEVICES}/{address}");
    let number = |name: &str| {
        let text = tree.read(&format!("{folder}/{name}")).unwrap_or_default();
        u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let driver = tree.link(&format!("{folder}/driver"));
    let driver = driver.and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    // PCI Code and ID Assignment: base class 06, a bridge of any kind.
    let is_bridge = number("class").is_some_and(|class| class >> 16 == 0x06);
    let stays = match driver.as_deref() {
        _ if is_bridge => Some("a bridge".to_owned()),
        None => Some("no driver has it".to_owned()),
        Some(driver @ (VFIO | "pci-stub")) => Some(format!("{driver} has it, which does nothing with it")),
        Some(_) => None,
    };
    let mut provides = tree.names(&format!("{folder}/net"));
    provides.extend(tree.names(&format!("{folder}/nvme")));
    let id = match (number("vendor"), number("device")) {
        (Some(vendor), Some(device)) => format!("{vendor:04x}:{device:04x}"),
        _ => "unknown".into(),
    };
    GroupDevice { address, id, driver, provides, stays, assigned }
}

/// Devices whose driver was changed, with the journal that records the old drivers.
pub struct Assigned {
    tree: HostTree,
    journal: PathBuf,
    /// The journal is held, together with its lock, while the devices are assigned. A process that can take the lock
    /// knows that this process has ended.
    _held: Journal,
}

/// The path of the journal for this process's devices, in a folder of such journals.
pub fn journal(folder: &Path) -> PathBuf {
    folder.join(format!("assign-{}.jsonl", std::process::id()))
}

/// The folder of such journals.
pub fn journals() -> PathBuf {
    PathBuf::from(JOURNALS)
}

impl Assigned {
    /// Binds every assigned device to vfio-pci. If one device fails, the devices that were bound before it are given
    /// back.
    ///
    /// # Errors
    /// The kernel has no vfio-pci driver, the journal cannot be written or another process holds its lock, or the
    /// kernel refuses to bind a device. If giving back those devices fails too, that error is returned.
    pub fn bind(tree: &HostTree, assigned: &[Assignment], path: &Path) -> Result<Self, Failure> {
        if !tree.has(&format!("/sys/bus/pci/drivers/{VFIO}")) {
            return Err(Failure::new(
                "handing on a PCI device",
                format!("the kernel has no driver {VFIO}"),
                format!("`modprobe {VFIO}`"),
            ));
        }
        let mut journal = Journal::begin(path, tree)?;
        let wanted = format!("{VFIO} {VFIO}");
        let mut bind = |address: &PciAddress| -> Result<(), Failure> {
            let knob = Knob::PciDriver { device: address.to_string() };
            let found = knob.read(tree)?;
            if found.as_deref() == Some(&wanted) {
                return Ok(());
            }
            journal.record(Entry {
                rule: RULE.into(),
                knob: knob.clone(),
                found,
                writing: wanted.clone(),
            })?;
            knob.write(tree, &wanted)?;
            match knob.read(tree)? {
                Some(now) if now == wanted => Ok(()),
                now => Err(Failure::new(
                    format!("binding {address} to {VFIO}"),
                    format!("the kernel took it, and says {:?} now", now.unwrap_or_default()),
                    "see the kernel's log",
                )),
            }
        };
        let bound = assigned.iter().try_for_each(|one| bind(&one.address));
        let held = Assigned { tree: tree.clone(), journal: path.to_owned(), _held: journal };
        match bound {
            Ok(()) => Ok(held),
            Err(failure) => {
                held.give_back(|_, _| {})?;
                Err(failure)
            }
        }
    }

    /// Gives every device back to its former driver. Returns the number of devices that could not be given back. The
    /// guest must have ended before, because the kernel waits until then.
    ///
    /// # Errors
    /// The journal cannot be locked, read or removed.
    pub fn give_back(self, say: impl FnMut(&Entry, &PutBack)) -> Result<usize, Failure> {
        let Assigned { tree, journal, _held } = self;
        drop(_held);
        undo(&tree, &journal, say)
    }
}

/// Assigns devices of this machine. First gives back the devices that killed commands had assigned. Returns the
/// assigned devices and their IOMMU groups as they were before.
///
/// # Errors
/// The causes of [`groups`] and [`Assigned::bind`].
pub fn hand_on(assigned: &[Assignment], journal: &Path) -> Result<(Assigned, Vec<IommuGroup>), Failure> {
    let tree = HostTree::live();
    recover(&tree, &journals(), |_, _| {});
    let groups = groups(&tree, assigned)?;
    Ok((Assigned::bind(&tree, assigned, journal)?, groups))
}

/// Gives back the devices that killed commands had assigned: the devices of every journal in the folder that no
/// process locks.
pub fn recover(tree: &HostTree, folder: &Path, mut say: impl FnMut(&Entry, &PutBack)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("assign-") {
            // Locked by a running command, or unreadable. A later bind of its devices reports the kernel's answer.
            let _ = undo(tree, &entry.path(), &mut say);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Two groups: a card of two functions behind a bridge, and a card by itself. Made up.
    fn made_up() -> (tempfile::TempDir, HostTree) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |path: String, text: &str| {
            let path = root.join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        };
        for (address, group, class, driver) in [
            ("0000:00:1c.0", 7, "0x060400", Some("pcieport")),
            ("0000:01:00.0", 7, "0x020000", Some("e1000e")),
            ("0000:01:00.1", 7, "0x020000", Some("e1000e")),
            ("0000:02:00.0", 8, "0x020000", Some("igb")),
        ] {
            let device = format!("/sys/bus/pci/devices/{address}");
            write(format!("{device}/class"), class);
            write(format!("{device}/vendor"), "0x8086");
            write(format!("{device}/device"), "0x10d3");
            write(format!("{device}/driver_override"), "(null)");
            fs::create_dir_all(root.join(format!("sys/bus/pci/devices/{address}/net/if{group}"))).unwrap();
            write(format!("/sys/kernel/iommu_groups/{group}/devices/{address}"), "");
            let device = root.join(device.trim_start_matches('/'));
            symlink(format!("../../../../kernel/iommu_groups/{group}"), device.join("iommu_group")).unwrap();
            let driver = driver.unwrap();
            fs::create_dir_all(root.join(format!("sys/bus/pci/drivers/{driver}"))).unwrap();
            symlink(format!("../../drivers/{driver}"), device.join("driver")).unwrap();
        }
        write("/proc/sys/kernel/random/boot_id".into(), "one");
        let tree = HostTree::at(root);
        (folder, tree)
    }

    fn assignments(list: &[&str]) -> Vec<Assignment> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn state(tree: &HostTree, device: &str) -> String {
        Knob::PciDriver { device: device.into() }.read(tree).unwrap().unwrap()
    }

    #[test]
    fn addresses_are_read_with_and_without_a_domain() {
        for (text, full) in [("6:0.0", "0000:06:00.0"), ("0001:ab:1f.7", "0001:ab:1f.7")] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), full);
        }
        for bad in ["", "06:00", "06.0", "g:0.0", "100:0.0", "0:20.0", "0:0.8", "+6:0.0", "../../x:0.0"] {
            assert!(bad.parse::<PciAddress>().is_err(), "{bad}");
        }
        let with: Assignment = "06:00.0,rombar=0".parse().unwrap();
        assert_eq!(with.device(), "vfio-pci,host=0000:06:00.0,rombar=0");
    }

    #[test]
    fn every_device_of_a_group_is_accounted_for() {
        let (_folder, tree) = made_up();
        let alone = groups(&tree, &assignments(&["02:00.0"])).unwrap();
        assert_eq!((alone.len(), alone[0].number, alone[0].devices.len()), (1, 8, 1));
        assert_eq!(alone[0].devices[0].provides, ["if8"]);

        let error = groups(&tree, &assignments(&["01:00.0"])).unwrap_err();
        assert!(error.answer.contains("0000:01:00.1 (e1000e, if7)"), "{error}");
        assert!(!error.answer.contains("1c.0") && error.remedy.contains("--assign 0000:01:00.1"), "{error}");
        let both = groups(&tree, &assignments(&["01:00.0", "01:00.1"])).unwrap();
        let stays: Vec<_> = both[0].devices.iter().map(|device| device.stays.as_deref()).collect();
        assert_eq!(stays, [Some("a bridge"), None, None]);

        let error = groups(&tree, &assignments(&["03:00.0"])).unwrap_err();
        assert!(error.answer.contains("there is none"), "{error}");
        fs::remove_file(tree.root().join("sys/bus/pci/devices/0000:02:00.0/iommu_group")).unwrap();
        let error = groups(&tree, &assignments(&["02:00.0"])).unwrap_err();
        assert!(error.remedy.contains("intel_iommu=on"), "{error}");
    }

    #[test]
    fn devices_go_to_vfio_and_come_back_also_after_a_kill() {
        let (folder, tree) = made_up();
        let journals = folder.path().join("journals");
        let both = assignments(&["01:00.0", "01:00.1"]);
        let error = Assigned::bind(&tree, &both, &journal(&journals)).err().unwrap();
        assert!(error.remedy.contains("modprobe"), "{error}");
        fs::create_dir_all(tree.root().join("sys/bus/pci/drivers/vfio-pci")).unwrap();

        let held = Assigned::bind(&tree, &both, &journal(&journals)).unwrap();
        for device in ["0000:01:00.0", "0000:01:00.1"] {
            assert_eq!(state(&tree, device), "vfio-pci vfio-pci");
        }
        // Another command leaves alone what a living one holds.
        recover(&tree, &journals, |_, _| panic!("it is held"));
        assert_eq!(held.give_back(|_, _| {}).unwrap(), 0);
        assert_eq!(state(&tree, "0000:01:00.1"), "e1000e -");
        assert_eq!(fs::read_dir(&journals).unwrap().count(), 0);

        // Killed: nothing but the journal is left of it.
        drop(Assigned::bind(&tree, &both, &journal(&journals)).unwrap());
        let mut count = 0;
        recover(&tree, &journals, |_, _| count += 1);
        assert_eq!((count, state(&tree, "0000:01:00.0")), (2, "e1000e -".into()));
        assert_eq!(fs::read_dir(&journals).unwrap().count(), 0);
    }
}
