//! The machine's file system: an initramfs, kept in the cache under the hash of its content.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use super::{kernel, places};
use crate::Error;
use crate::guest::archive::Archive;
use crate::guest::userland::{Userland, needed_libraries, read};
use crate::requirements::Requirements;

/// What QEMU loads beside its libraries, where the host has it: Debian's packages qemu-system-data and seabios.
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

/// How long an image may be out of use before the next one takes its place.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// All that goes into the image, found on the host before anything is started.
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
    pub fn find(kernel: &Path, qemu: &Path, needs: &mut Requirements) -> Self {
        let inner_kernel = environment::vm::find_kernel().unwrap_or_else(|failure| {
            needs.missing(format!("a kernel image ({failure})"));
            PathBuf::new()
        });
        Self {
            kernel: kernel.to_owned(),
            qemu: qemu.to_owned(),
            busybox: needs.program("busybox", "busybox-static"),
            sha256sum: needs.program("sha256sum", "coreutils"),
            userland: Userland::find(kernel, needs),
            inner_userland: Userland::find(&inner_kernel, needs),
            inner_kernel,
        }
    }

    /// The image's file. It is made anew each time, and written where the cache has none of the same content: so
    /// it is never stale, and machines that run at the same time share its pages.
    pub fn in_cache(&self) -> Result<PathBuf, Error> {
        let content = self.build()?;
        let folder = kernel::cache();
        let doing = || format!("keeping the nested machine's image in {}", folder.display());
        let file = folder.join(format!("{}.cpio", self.hash(&content)?));
        // Whoever opens it now is not to lose it.
        if let Ok(kept) = std::fs::File::options().append(true).open(&file) {
            let _ = kept.set_modified(SystemTime::now());
            return Ok(file);
        }
        std::fs::create_dir_all(&folder).map_err(Error::system(doing()))?;
        drop_unused(&folder);
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
        // It finds its firmware by where it lies itself.
        archive.file(Path::new("usr/bin/qemu-system-x86_64"), &read(&self.qemu)?).map_err(failed)?;
        for library in needed_libraries(&self.qemu)? {
            archive.file(&library, &read(&library)?).map_err(failed)?;
        }
        for name in FIRMWARE {
            let found = FIRMWARE_FOLDERS.iter().map(|folder| Path::new(folder).join(name));
            if let Some(file) = found.into_iter().find(|file| file.is_file()) {
                let inside = Path::new(FIRMWARE_FOLDERS[0]).join(name);
                archive.file(&inside, &read(&file)?).map_err(failed)?;
            }
        }
        archive.file(Path::new(places::KERNEL), &read(&self.inner_kernel)?).map_err(failed)?;
        archive.file(Path::new(places::INITRAMFS), &self.inner_userland.archive()?).map_err(failed)?;
        archive.file(Path::new(places::GENERIC_KERNEL), &read(&self.kernel)?).map_err(failed)?;
        let mut generic = self.userland.archive()?;
        generic.extend(kernel::inner_drivers(&self.kernel)?);
        archive.file(Path::new(places::GENERIC_INITRAMFS), &generic).map_err(failed)?;
        // The kernel unpacks one after the other.
        let mut bytes = self.userland.archive()?;
        bytes.extend(archive.finish().map_err(failed)?);
        Ok(bytes)
    }

    fn hash(&self, content: &[u8]) -> Result<String, Error> {
        let doing = "hashing the nested machine's image";
        let mut command = Command::new(&self.sha256sum);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(Error::system(doing))?;
        let written = child.stdin.take().expect("piped").write_all(content);
        let output = child.wait_with_output().map_err(Error::system(doing))?;
        written.map_err(Error::system(doing))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let hash = text.split_whitespace().next().filter(|hash| hash.len() == 64);
        hash.map(str::to_owned).ok_or_else(|| Error::refused(doing, text.clone().into_owned()))
    }
}

/// Removes images that nobody has used lately.
fn drop_unused(folder: &Path) {
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = file.path();
        let unused = file
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|used| used.elapsed().is_ok_and(|since| since > KEPT));
        if unused && path.extension().is_some_and(|extension| extension == "cpio") {
            let _ = std::fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_images_out_of_use_go() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * KEPT;
        for (name, modified) in [("a.cpio", old), ("b.cpio", SystemTime::now()), ("kernel", old)] {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(modified).unwrap();
        }
        drop_unused(folder.path());
        let mut left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["b.cpio", "kernel"]);
    }
}
