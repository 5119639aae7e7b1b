//! Finds the kernel's tracing files.

use std::path::{Path, PathBuf};

use linux::namespace::{UnshareFlags, unshare};
use measure::Failure;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Returns the folder of tracefs. If tracefs is not mounted, this process mounts it in a mount namespace of its own,
/// which no other process sees and which ends with this process.
///
/// # Errors
/// tracefs is not mounted or may not be read, and the kernel refuses the mount namespace, the private mounts or the
/// mount of tracefs.
pub fn find_or_mount() -> Result<PathBuf, Failure> {
    if let Some(place) = PLACES.into_iter().map(Path::new).find(|place| place.join("events").is_dir()) {
        return Ok(place.to_owned());
    }
    let place = PLACES[0];
    let remedy = "run as root; or have root mount it and open it to you: \
                  mount -t tracefs -o gid=GROUP,mode=750 tracefs /sys/kernel/tracing";
    let fail = |tried: &str, error: std::io::Error| Failure::new(tried, error, remedy);
    unshare(UnshareFlags::NEWNS).map_err(|error| {
        fail("tracefs is not mounted or not readable; a mount namespace to mount it in", error)
    })?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
        .map_err(|error| fail("making mounts private", error.into()))?;
    mount("tracefs", place, "tracefs", MountFlags::empty(), None)
        .map_err(|error| fail("mounting tracefs", error.into()))?;
    Ok(place.into())
}
