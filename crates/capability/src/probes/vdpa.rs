use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use linux::vdpa::{self, Driver};
use linux::vhost_vdpa::Device;
use measure::Failure;

use crate::finding::Finding;

/// Opens each vDPA device that no program has open, and reads its kind and features. The kernel resets a device that is
/// opened; a device in use cannot be opened, and counts as one that works.
///
/// # Errors
/// There is no device, or one cannot be opened.
pub fn run() -> Result<Finding, Failure> {
    let devices = devices();
    if devices.is_empty() {
        let remedy = if vdpa::has_driver(Driver::Vhost) {
            "add a device to the vDPA bus (`vdpa mgmtdev show`, `vdpa dev add name NAME mgmtdev …`)"
        } else {
            "load the module (`modprobe vhost_vdpa`); it needs CONFIG_VHOST_VDPA, in Debian 12 the kernel 6.12 of its \
             security suite (linux-image-6.12-amd64)"
        };
        return Err(Failure::new("looking for /dev/vhost-vdpa-*", "there is none", remedy));
    }
    let found: Result<Vec<String>, Failure> = devices.iter().map(|path| look(path)).collect();
    Ok(Finding::proven(found?.join("; ")))
}

fn devices() -> Vec<PathBuf> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let is_device = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vhost-vdpa-"))
    };
    let mut devices: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_device).collect();
    devices.sort();
    devices
}

fn look(path: &Path) -> Result<String, Failure> {
    let read = |device: Device| -> io::Result<String> {
        let (kind, features) = (device.device_id()?, device.features()?);
        Ok(format!("opened {}: a device of the kind {kind} with the features {features:#x}", path.display()))
    };
    match Device::open(path).and_then(read) {
        Err(error) if error.kind() == ErrorKind::ResourceBusy => Ok(format!("{} is in use", path.display())),
        looked => looked.map_err(|error| {
            let remedy = "run as root, or give the file to this user";
            Failure::new(format!("opening {}", path.display()), error, remedy)
        }),
    }
}
