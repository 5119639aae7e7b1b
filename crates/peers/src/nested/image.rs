//! The nested machine's file system: an initramfs, kept in the cache under the hash of its content.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use super::{cache, kernel, places};
use crate::guest::archive::Archive;
use crate::guest::userland::{Userland, needed_libraries, read};
use crate::requirements::Requirements;
use crate::{Error, chosen};

/// Firmware that QEMU loads, where the host has it (Debian's packages qemu-system-data and seabios).
const FIRMWARE: &[&str] = &[
    "bios-256k.bin",
    "bios-microvm.bin",
    "kvmvapic.bin",
    "linuxboot.bin",
    "linuxboot_dma.bin",
    "multiboot_dma.bin",
    "pvh.bin",
    "vgabios-stdvga.bin",
];
const FIRMWARE_FOLDERS: &[&str] = &["/usr/share/qemu", "/usr/share/seabios"];

/// The firmware's files on the host, and their places in the machine.
pub(crate) fn firmware() -> impl Iterator<Item = (PathBuf, PathBuf)> {
    FIRMWARE.iter().filter_map(|name| {
        let found = FIRMWARE_FOLDERS.iter().map(|folder| Path::new(folder).join(name));
        found
            .into_iter()
            .find(|file| file.is_file())
            .map(|file| (file, Path::new(FIRMWARE_FOLDERS[0]).join(name)))
    })
}

/// The parts of the image, found on the host before the machine is started.
pub struct Parts {
    kernel: PathBuf,
    qemu: PathBuf,
    busybox: PathBuf,
    sha256sum: PathBuf,
    userland: Userland,
    inner_kernel: PathBuf,
    inner_userland: Userland,
}

impl Parts {
    /// Finds the parts. Requirements that are not met are added to `needs`.
    pub fn find(kernel: &Path, qemu: &Path, needs: &mut Requirements) -> Self {
        let inner_kernel = chosen::kernel(needs);
        Self {
            kernel: kernel.to_owned(),
            qemu: qemu.to_owned(),
            busybox: needs.program("busybox", "busybox-static"),
            sha256sum: needs.program("sha256sum", "coreutils"),
            userland: Userland::find(kernel, &[], needs),
            inner_userland: Userland::find(&inner_kernel, &[], needs),
            inner_kernel,
        }
    }

    /// The image's file in the cache. The content is made again each time, and written only if the cache has no file
    /// with the same content. The file is therefore never stale, and machines that run at the same time share its
    /// pages.
    ///
    /// # Errors
    /// A part of the image cannot be read, `ldd`, `depmod` or `sha256sum` fails, or the cache's folder cannot be
    /// written.
    pub fn in_cache(&self) -> Result<PathBuf, Error> {
        let content = self.build()?;
        let folder = cache::folder();
        let doing = || format!("keeping the nested machine's image in {}", folder.display());
        let file = folder.join(format!("{}.cpio", hash(&self.sha256sum, &content)?));
        // Its new time keeps another process from removing it as unused.
        if let Ok(kept) = std::fs::File::options().append(true).open(&file) {
            let _ = kept.set_modified(SystemTime::now());
            return Ok(file);
        }
        std::fs::create_dir_all(&folder).map_err(Error::system(doing()))?;
        cache::drop_unused(&folder);
        let mut new = tempfile::NamedTempFile::new_in(&folder).map_err(Error::system(doing()))?;
        new.write_all(&content).map_err(Error::system(doing()))?;
        new.persist(&file).map_err(|error| Error::System { doing: doing(), error: error.error })?;
        Ok(file)
    }

    fn build(&self) -> Result<Vec<u8>, Error> {
        let failed = |error| Error::System { doing: "making the nested machine's file system".into(), error };
        let mut archive = Archive::default();
        archive.file(Path::new("start.sh"), include_bytes!("start.sh")).map_err(failed)?;
        kernel::add_modules(&mut archive, &self.kernel, &self.busybox)?;
        // QEMU finds its firmware relative to its own place.
        archive.file(Path::new("usr/bin/qemu-system-x86_64"), &read(&self.qemu)?).map_err(failed)?;
        for library in needed_libraries(&self.qemu)? {
            archive.file(&library, &read(&library)?).map_err(failed)?;
        }
        for (file, inside) in firmware() {
            archive.file(&inside, &read(&file)?).map_err(failed)?;
        }
        archive.file(Path::new(places::KERNEL), &read(&self.inner_kernel)?).map_err(failed)?;
        archive.file(Path::new(places::INITRAMFS), &self.inner_userland.archive()?).map_err(failed)?;
        archive.file(Path::new(places::GENERIC_KERNEL), &read(&self.kernel)?).map_err(failed)?;
        let mut generic = self.userland.archive()?;
        generic.extend(kernel::inner_drivers(&self.kernel)?);
        archive.file(Path::new(places::GENERIC_INITRAMFS), &generic).map_err(failed)?;
        // The kernel unpacks one archive after the other.
        let mut bytes = self.userland.archive()?;
        bytes.extend(archive.finish().map_err(failed)?);
        Ok(bytes)
    }

    /// A name for the cache, which is the hash of these words.
    ///
    /// # Errors
    /// `sha256sum` cannot be run, or prints no hash.
    pub fn name(&self, words: &[String]) -> Result<String, Error> {
        hash(&self.sha256sum, words.join("\0").as_bytes())
    }
}

fn hash(sha256sum: &Path, content: &[u8]) -> Result<String, Error> {
    let doing = "hashing the nested machine's image";
    let mut command = Command::new(sha256sum);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(Error::system(doing))?;
    let written = child.stdin.take().expect("piped").write_all(content);
    let output = child.wait_with_output().map_err(Error::system(doing))?;
    written.map_err(Error::system(doing))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let hash = text.split_whitespace().next().filter(|hash| hash.len() == 64);
    hash.map(str::to_owned).ok_or_else(|| Error::refused(doing, text.clone().into_owned()))
}
