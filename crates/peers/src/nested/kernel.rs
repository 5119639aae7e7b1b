//! The nested machine's kernel, and its modules that paths into a guest need.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use environment::vm::Module;

use super::cache;
use crate::guest::archive::Archive;
use crate::guest::modules;
use crate::requirements::Requirements;
use crate::{Error, process};

/// The modules that `modprobe` finds in the machine; their dependencies are included.
const MODULES: &[&str] = &[
    "kvm_amd",
    "kvm_intel",
    "vhost_net",
    "macvtap",
    "tun",
    "bridge",
    "veth",
    "dummy",
    "vfio_pci",
    "vfio_iommu_type1",
    "virtio_pci",
    "virtio_net",
    "virtio_blk",
    "virtio_console",
    "e1000",
    "e1000e",
    "igb",
    "igbvf",
    "null_blk",
    "af_packet",
    "8021q",
];

/// Further modules that a guest within loads if it has this kernel.
const INNER_DRIVERS: &[&str] = &["e1000", "e1000e", "igbvf", "virtio_blk", "dummy"];

/// The generic kernel that set-up has unpacked; if there are several, the one with the highest version.
pub fn find(needs: &mut Requirements) -> PathBuf {
    let folder = cache::folder().join("kernel");
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let names = files.filter_map(|entry| entry.file_name().into_string().ok());
    let images = names.filter(|name| name.starts_with("vmlinuz-"));
    match images.max_by(|one, other| linux::version::compare(one, other)) {
        Some(name) => folder.join(name),
        None => {
            needs.missing(format!(
                "a distribution's generic kernel in {} (scripts/setup.sh test fetches one)",
                folder.display()
            ));
            PathBuf::new()
        }
    }
}

/// Adds the kernel's modules to an archive, with the lists that `modprobe` reads.
///
/// # Errors
/// The kernel's modules are missing or cannot be read, a temporary folder cannot be written, or busybox's `depmod`
/// fails.
pub fn add_modules(archive: &mut Archive, image: &Path, busybox: &Path) -> Result<(), Error> {
    let doing = "packing the kernel's modules";
    let failed = || Error::system(doing);
    let mut needs = Requirements::new();
    let folder = modules::folder(image, &mut needs);
    needs.met()?;
    let version = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let staging = tempfile::tempdir().map_err(failed())?;
    let inside = Path::new("lib/modules").join(&version);
    let base = staging.path().join(&inside);
    std::fs::create_dir_all(base.join("kernel")).map_err(failed())?;
    for Module { name, content } in modules::with_dependencies(&folder, MODULES)? {
        let file = Path::new("kernel").join(format!("{name}.ko"));
        std::fs::write(base.join(&file), &content).map_err(failed())?;
        archive.file(&inside.join(&file), &content).map_err(failed())?;
    }
    let mut depmod = Command::new(busybox);
    depmod.args(["depmod", "-b"]).arg(staging.path()).arg(&version);
    let output = process::run(&mut depmod, Duration::from_secs(60))?;
    if !output.success() {
        return Err(Error::refused(doing, output.stderr));
    }
    for list in ["modules.dep", "modules.alias", "modules.symbols"] {
        let content = std::fs::read(base.join(list)).map_err(failed())?;
        archive.file(&inside.join(list), &content).map_err(failed())?;
    }
    Ok(())
}

/// An archive to unpack over the usual file system: drivers, and the script that loads the drivers.
///
/// # Errors
/// The kernel's modules are missing or cannot be read.
pub fn inner_drivers(image: &Path) -> Result<Vec<u8>, Error> {
    let failed = || Error::system("packing the drivers of the guest within");
    let mut needs = Requirements::new();
    let folder = modules::folder(image, &mut needs);
    needs.met()?;
    let mut archive = Archive::default();
    let mut script = String::new();
    for Module { name, content } in modules::with_dependencies(&folder, INNER_DRIVERS)? {
        let file = format!("drivers/{name}");
        archive.file(Path::new(&file), &content).map_err(failed())?;
        // Modules that both need are already loaded.
        script += &format!("insmod /{file} 2>/dev/null\n");
    }
    archive.file(Path::new("start.sh"), script.as_bytes()).map_err(failed())?;
    archive.finish().map_err(failed())
}
