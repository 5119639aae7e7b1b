//! The kernel's modules, from the same package as its image.

use std::path::{Path, PathBuf};

use environment::vm::{Module, Modules};

use crate::Error;
use crate::requirements::Requirements;

/// The folder of the modules for a kernel image: beside the image in set-up's cache, or else the system's.
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

/// The named modules and all modules that they depend on, in the order in which to load them.
///
/// # Errors
/// The folder or a module in it cannot be read. A name without a file is not an error: the module is built into the
/// kernel.
pub fn with_dependencies(folder: &Path, names: &[&str]) -> Result<Vec<Module>, Error> {
    let doing = || format!("reading the modules in {}", folder.display());
    let modules = Modules::below(folder).map_err(Error::system(doing()))?;
    modules.with_dependencies(names).map_err(Error::system(doing()))
}

/// Notes that a kernel lacks a module which no kernel has built in.
pub fn require(image: &Path, name: &str, needs: &mut Requirements) {
    let found = with_dependencies(&folder(image, needs), &[name]);
    if found.is_ok_and(|modules| modules.is_empty()) {
        let image = image.display();
        needs.missing(format!("the module {name} for {image} (scripts/setup.sh test builds it)"));
    }
}
