//! Reads and changes the driver that a PCI device is bound to (kernel, Documentation/ABI/testing/sysfs-bus-pci).

use std::io::ErrorKind;
use std::str::FromStr;

use measure::Failure;

use super::tree::HostTree;

const DEVICES: &str = "/sys/bus/pci/devices";
const DRIVERS: &str = "/sys/bus/pci/drivers";
/// Stands for no driver.
const NONE: &str = "-";

/// The driver that is bound to a device, and the only driver that may bind it (`driver_override`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    driver: Option<String>,
    only: Option<String>,
}

impl std::fmt::Display for Binding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = |name: &Option<String>| name.clone().unwrap_or_else(|| NONE.to_owned());
        write!(f, "{} {}", word(&self.driver), word(&self.only))
    }
}

impl FromStr for Binding {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (driver, only) = text.split_once(' ').ok_or(())?;
        // The words become parts of paths.
        let name = |word: &str| match word {
            NONE => Ok(None),
            "" | "." | ".." => Err(()),
            word if word.contains(['/', ' ', '\n']) => Err(()),
            word => Ok(Some(word.to_owned())),
        };
        Ok(Binding { driver: name(driver)?, only: name(only)? })
    }
}

/// The present binding of a device. Returns `None` if there is no such device.
///
/// # Errors
/// The device's `driver_override` cannot be read.
pub fn read(tree: &HostTree, device: &str) -> Result<Option<Binding>, Failure> {
    let folder = format!("{DEVICES}/{device}");
    if !tree.has(&folder) {
        return Ok(None);
    }
    let only = match tree.read(&format!("{folder}/driver_override")) {
        // The kernel's word for none.
        Ok(text) if text.is_empty() || text == "(null)" => None,
        Ok(text) => Some(text),
        Err(unread) => return Err(unread.failure()),
    };
    Ok(Some(Binding { driver: driver(tree, device), only }))
}

fn driver(tree: &HostTree, device: &str) -> Option<String> {
    let link = tree.link(&format!("{DEVICES}/{device}/driver"))?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

/// Binds a device to a driver. The override is written first: a driver that probes the device at the same time must
/// match the override.
///
/// # Errors
/// The kernel refuses the write of `driver_override`, `unbind` or `bind`: no privilege, no such driver, or a driver
/// that does not accept the device. For a recorded host: its link cannot be replaced.
pub fn write(tree: &HostTree, device: &str, wanted: &Binding) -> Result<(), String> {
    let write = |path: &str, value: &str| tree.write(path, value).map_err(|error| format!("{path}: {error}"));
    // An empty line clears it.
    write(&format!("{DEVICES}/{device}/driver_override"), wanted.only.as_deref().unwrap_or_default())?;
    let now = driver(tree, device);
    if now == wanted.driver {
        return Ok(());
    }
    if !tree.is_live() {
        return rebind_recorded(tree, device, wanted);
    }
    if let Some(now) = now {
        write(&format!("{DRIVERS}/{now}/unbind"), device)?;
    }
    match &wanted.driver {
        Some(driver) => write(&format!("{DRIVERS}/{driver}/bind"), device),
        None => Ok(()),
    }
}

/// A recorded device has no kernel that moves its link.
fn rebind_recorded(tree: &HostTree, device: &str, wanted: &Binding) -> Result<(), String> {
    let link = format!("{DEVICES}/{device}/driver");
    match tree.remove_file(&link) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.to_string()),
        _ => {}
    }
    let Some(driver) = &wanted.driver else { return Ok(()) };
    if !tree.has(&format!("{DRIVERS}/{driver}")) {
        return Err(format!("{DRIVERS}/{driver}: no such driver"));
    }
    tree.make_link(&format!("../../drivers/{driver}"), &link).map_err(|error| error.to_string())
}
