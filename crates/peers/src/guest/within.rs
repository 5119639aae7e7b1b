//! The files with which a guest can start a guest: QEMU with its firmware, a stock kernel, and a file system.

use std::path::{Path, PathBuf};

use environment::vm::Module;

use super::archive::Archive;
use super::modules;
use super::userland::{Userland, needed_libraries, read};
use crate::nested::{image, places};
use crate::requirements::Requirements;
use crate::{Error, chosen};

/// The modules of a kernel's network card in QEMU.
const CARD: &[&str] = &["virtio_pci", "virtio_net"];

/// The parts, found on the host.
pub struct Within {
    qemu: PathBuf,
    modules: PathBuf,
    kernel: PathBuf,
    userland: Userland,
    start: &'static str,
}

impl Within {
    /// Finds QEMU, the kernel and the programs of the guest within. Requirements that are not met are added to
    /// `needs`.
    pub fn find(start: &'static str, needs: &mut Requirements) -> Self {
        let kernel = chosen::kernel(needs);
        let userland = Userland::find(&kernel, &[], needs);
        let modules = modules::folder(&kernel, needs);
        Within { qemu: chosen::qemu(1, needs), modules, kernel, userland, start }
    }

    /// The archive of all files.
    ///
    /// # Errors
    /// A file cannot be read, or `ldd` cannot be run.
    pub fn archive(&self) -> Result<Vec<u8>, Error> {
        let failed =
            |error| Error::System { doing: "making the file system of a guest within".into(), error };
        let mut inner = self.userland.archive()?;
        let mut script = Archive::default();
        script.file(Path::new("start.sh"), self.start.as_bytes()).map_err(failed)?;
        inner.extend(script.finish().map_err(failed)?);
        let mut archive = Archive::default();
        archive.file(Path::new(places::KERNEL), &read(&self.kernel)?).map_err(failed)?;
        archive.file(Path::new(places::INITRAMFS), &inner).map_err(failed)?;
        // For programs in the guest that boot this kernel themselves.
        let folder = Path::new(places::MODULES).join(self.modules.file_name().unwrap_or_default());
        for Module { name, content } in modules::with_dependencies(&self.modules, CARD)? {
            archive.file(&folder.join(format!("{name}.ko")), &content).map_err(failed)?;
        }
        // QEMU finds its firmware relative to its own place.
        archive.file(Path::new("usr/bin/qemu-system-x86_64"), &read(&self.qemu)?).map_err(failed)?;
        for library in needed_libraries(&self.qemu)? {
            archive.file(&library, &read(&library)?).map_err(failed)?;
        }
        for (file, inside) in image::firmware() {
            archive.file(&inside, &read(&file)?).map_err(failed)?;
        }
        archive.finish().map_err(failed)
    }
}
