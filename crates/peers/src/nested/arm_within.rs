//! What the arm64 machine has for a guest of its own: QEMU for arm64, the machine's kernel, and a small file system.

use std::io;
use std::path::{Path, PathBuf};

use environment::vm::Module;

use crate::Error;
use crate::guest::archive::Archive;
use crate::guest::modules;
use crate::guest::userland::{PROGRAMS, read};
use crate::requirements::Requirements;

/// The drivers of the guest's cards.
const MODULES: &[&str] = &["virtio_pci", "virtio_mmio", "virtio_net", "af_packet"];

/// The files, found before anything is started.
pub struct ArmWithin {
    kernel: PathBuf,
    qemu: PathBuf,
}

impl ArmWithin {
    /// QEMU and its libraries are in a folder beside the kernel.
    pub fn find(kernel: &Path, needs: &mut Requirements) -> Self {
        let qemu = kernel.with_file_name("qemu");
        needs.path(&qemu.join("qemu-system-aarch64"), "QEMU for arm64: scripts/setup.sh test unpacks it");
        Self { kernel: kernel.to_owned(), qemu }
    }

    /// Adds the files to the machine's file system.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn add(&self, archive: &mut Archive, busybox: &[u8], modules: &Path) -> Result<(), Error> {
        let failed = |error: io::Error| Error::System { doing: "making a guest's file system".into(), error };
        let guest = Path::new("guest");
        let folder = std::fs::read_dir(&self.qemu).map_err(failed)?;
        for entry in folder {
            let file = entry.map_err(failed)?.path();
            let name = file.file_name().unwrap_or_default();
            archive.file(&guest.join("qemu").join(name), &read(&file)?).map_err(failed)?;
        }
        archive.file(&guest.join("kernel"), &read(&self.kernel)?).map_err(failed)?;
        for (name, script) in [
            ("qemu-system-aarch64", include_bytes!("arm-qemu.sh").as_slice()),
            ("start-guest", include_bytes!("arm-start-guest.sh")),
        ] {
            archive.file(&Path::new(PROGRAMS).join(name), script).map_err(failed)?;
        }
        let mut inner = Archive::default();
        inner.console().map_err(failed)?;
        for folder in ["proc", "sys", "bin"] {
            inner.folder(Path::new(folder)).map_err(failed)?;
        }
        inner.file(Path::new("init"), include_bytes!("arm-guest.sh")).map_err(failed)?;
        inner.file(Path::new("bin/busybox"), busybox).map_err(failed)?;
        let mut order = String::new();
        for Module { name, content } in modules::with_dependencies(modules, MODULES)? {
            inner.file(&Path::new("modules").join(&name), &content).map_err(failed)?;
            order = order + &name + "\n";
        }
        inner.file(Path::new("modules/order"), order.as_bytes()).map_err(failed)?;
        archive.file(&guest.join("initramfs"), &inner.finish().map_err(failed)?).map_err(failed)
    }
}
