//! The modules of a guest's kernel, found beside its image and copied into the guest's file system.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use measure::Failure;

/// All modules of one kernel.
#[derive(Debug)]
pub struct Modules {
    files: HashMap<String, PathBuf>,
}

/// One module, in the form that the kernel loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The module's name, with underscores.
    pub name: String,
    /// The contents of the module's file, decompressed.
    pub content: Vec<u8>,
}

impl Modules {
    /// The modules of a kernel image: in `modules/VERSION` beside the image, where set-up keeps them, or else in
    /// `/lib/modules`.
    ///
    /// # Errors
    /// The image cannot be read, its version cannot be determined, or neither folder has modules of that version.
    pub fn of_image(image: &Path) -> Result<Self, Failure> {
        let failed = |answer: String| {
            let remedy = "`make setup` fetches a kernel with its modules; or put them into modules/VERSION beside the image";
            Failure::new(format!("looking for the modules of {}", image.display()), answer, remedy)
        };
        let content = fs::read(image).map_err(|error| failed(error.to_string()))?;
        let version = version(&content)
            .or_else(|| image.file_name()?.to_str()?.strip_prefix("vmlinuz-").map(str::to_owned))
            .ok_or_else(|| failed("neither the image nor its name tells its version".into()))?;
        let beside = image.with_file_name("modules").join(&version);
        let system = Path::new("/lib/modules").join(&version);
        let folder = [&beside, &system].into_iter().find(|folder| folder.is_dir());
        let folder =
            folder.ok_or_else(|| failed(format!("neither {} nor {}", beside.display(), system.display())))?;
        Modules::below(folder).map_err(|error| failed(error.to_string()))
    }

    /// The modules in a folder and the folders below it.
    ///
    /// # Errors
    /// The folder, or one below it, cannot be read.
    pub fn below(folder: &Path) -> io::Result<Self> {
        let mut files = HashMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                } else if let Some((module, _)) = entry.file_name().to_string_lossy().split_once(".ko") {
                    files.insert(module.replace('-', "_"), entry.path());
                }
            }
        }
        Ok(Self { files })
    }

    /// Whether the module is a file. A module that is built into the kernel is not a file.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(&name.replace('-', "_"))
    }

    /// The named modules and all modules that they depend on, in the order in which to load them. A name without a
    /// file is taken as built into the kernel; a guest that lacks the module reports an error when it uses the
    /// module.
    ///
    /// # Errors
    /// A module's file cannot be read or decompressed.
    pub fn with_dependencies(&self, names: &[impl AsRef<str>]) -> io::Result<Vec<Module>> {
        let mut found = Vec::new();
        for name in names {
            self.add(name.as_ref(), &mut found)?;
        }
        Ok(found)
    }

    fn add(&self, name: &str, found: &mut Vec<Module>) -> io::Result<()> {
        let name = name.replace('-', "_");
        let Some(file) = self.files.get(&name) else { return Ok(()) };
        if found.iter().any(|module| module.name == name) {
            return Ok(());
        }
        let content = read(file)?;
        for dependency in dependencies(&content) {
            self.add(&dependency, found)?;
        }
        found.push(Module { name, content });
        Ok(())
    }
}

/// A module's file, decompressed where the distribution packs it.
fn read(file: &Path) -> io::Result<Vec<u8>> {
    let decompress = match file.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return fs::read(file),
    };
    let output = Command::new(decompress).arg("-dc").arg(file).output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(io::Error::other(format!(
        "{decompress} -dc {}: {}",
        file.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    )))
}

/// The names in a module's `depends=` (section `.modinfo`, strings that end with NUL).
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let value = String::from_utf8_lossy(value);
    value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The version that an x86 image contains (Linux, Documentation/arch/x86/boot.rst: `kernel_version`).
fn version(image: &[u8]) -> Option<String> {
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let at = 0x200 + usize::from(u16::from_le_bytes(image.get(0x20e..0x210)?.try_into().ok()?));
    let text = image.get(at..)?.iter().take(128).take_while(|byte| byte.is_ascii_graphic());
    let text: String = text.map(|byte| char::from(*byte)).collect();
    // The text becomes the name of a folder.
    (!text.is_empty() && !text.contains('/')).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(folder: &Path, file: &str, depends: &str) {
        fs::write(folder.join(file), format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0")).unwrap();
    }

    fn image(version: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
        image[0x300..0x300 + version.len()].copy_from_slice(version);
        image
    }

    #[test]
    fn what_a_module_depends_on_comes_before_it_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("kernel/drivers");
        fs::create_dir_all(&below).unwrap();
        module(&below, "virtio-ring.ko", "virtio");
        module(&below, "virtio.ko", "");
        module(&below, "virtio_net.ko", "virtio_ring,virtio,built_in");
        let modules = Modules::below(folder.path()).unwrap();
        let found = modules.with_dependencies(&["virtio_net", "virtio", "none"]).unwrap();
        let names: Vec<&str> = found.iter().map(|module| module.name.as_str()).collect();
        assert_eq!(names, ["virtio", "virtio_ring", "virtio_net"]);
    }

    #[test]
    fn an_image_has_its_modules_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("kernel");
        fs::write(&kernel, image(b"6.1.0-tt (who@where) #1\0")).unwrap();
        let none = Modules::of_image(&kernel).unwrap_err().to_string();
        assert!(none.contains("modules/6.1.0-tt") && none.contains("/lib/modules/6.1.0-tt"), "{none}");
        let beside = folder.path().join("modules/6.1.0-tt");
        fs::create_dir_all(&beside).unwrap();
        module(&beside, "vfio.ko", "");
        assert_eq!(Modules::of_image(&kernel).unwrap().with_dependencies(&["vfio"]).unwrap().len(), 1);
    }

    #[test]
    fn no_image_makes_it_panic() {
        let whole = image(b"6.1.0-tt\0");
        (0..whole.len()).for_each(|end| _ = version(&whole[..end]));
        assert_eq!(version(&image(b"../..\0")), None);
        assert_eq!(version(&image(b"")), None);
        assert_eq!(version(b"no image"), None);
    }
}
