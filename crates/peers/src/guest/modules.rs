//! The kernel's modules, from the same package as its image.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::requirements::Requirements;
use crate::{Error, process};

/// All modules of one kernel.
pub struct Modules {
    files: HashMap<String, PathBuf>,
}

/// The folder of the modules for a kernel image: beside the image in set-up's cache, else the system's.
pub fn folder(image: &Path, needs: &mut Requirements) -> PathBuf {
    let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let version = name.trim_start_matches("vmlinuz-");
    let cached = image.with_file_name("modules").join(version);
    if cached.is_dir() {
        return cached;
    }
    let system = Path::new("/lib/modules").join(version);
    needs.path(&system, &format!("the modules of {}: scripts/setup.sh test fetches them", image.display()));
    system
}

impl Modules {
    /// Those below a folder.
    pub fn below(folder: &Path) -> Result<Self, Error> {
        let mut files = HashMap::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(&folder);
            for entry in entries.map_err(Error::system(format!("reading {}", folder.display())))? {
                let entry = entry.map_err(Error::system(format!("reading {}", folder.display())))?;
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    _ => {
                        let name = entry.file_name().to_string_lossy().into_owned();
                        if let Some((module, _)) = name.split_once(".ko") {
                            files.insert(module.replace('-', "_"), entry.path());
                        }
                    }
                }
            }
        }
        Ok(Self { files })
    }

    /// The named modules and all they depend on, in the order to load them in: name and content. Names that
    /// are no file are built into the kernel: a guest that lacks one says so when it is used.
    pub fn with_dependencies(&self, names: &[&str]) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let mut found = Vec::new();
        for name in names {
            self.add(name, &mut found)?;
        }
        Ok(found)
    }

    fn add(&self, name: &str, found: &mut Vec<(String, Vec<u8>)>) -> Result<(), Error> {
        let name = name.replace('-', "_");
        let Some(file) = self.files.get(&name) else { return Ok(()) };
        if found.iter().any(|(loaded, _)| *loaded == name) {
            return Ok(());
        }
        let content = read(file)?;
        for dependency in dependencies(&content) {
            self.add(&dependency, found)?;
        }
        found.push((name, content));
        Ok(())
    }
}

/// A module's file, decompressed where the distribution packs it.
fn read(file: &Path) -> Result<Vec<u8>, Error> {
    let doing = format!("reading {}", file.display());
    let decompress = match file.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return std::fs::read(file).map_err(Error::system(doing)),
    };
    let folder = tempfile::tempdir().map_err(Error::system(&doing))?;
    let plain = folder.path().join("module");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{decompress} -dc \"$1\" >\"$2\""), "sh"]).arg(file).arg(&plain);
    let output = process::run(&mut command, Duration::from_secs(60))?;
    if !output.success() {
        return Err(Error::refused(doing, output.stderr));
    }
    std::fs::read(&plain).map_err(Error::system(doing))
}

/// The names in a module's `depends=` (section `.modinfo`, strings that end with NUL).
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = module[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let value = String::from_utf8_lossy(value);
    value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(folder: &Path, file: &str, depends: &str) {
        std::fs::write(folder.join(file), format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0"))
            .unwrap();
    }

    #[test]
    fn what_a_module_depends_on_comes_before_it_and_once() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("kernel/drivers");
        std::fs::create_dir_all(&below).unwrap();
        module(&below, "virtio-ring.ko", "virtio");
        module(&below, "virtio.ko", "");
        module(&below, "virtio_net.ko", "virtio_ring,virtio,built_in");
        let modules = Modules::below(folder.path()).unwrap();
        let found = modules.with_dependencies(&["virtio_net", "virtio", "none"]).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["virtio", "virtio_ring", "virtio_net"]);
    }
}
