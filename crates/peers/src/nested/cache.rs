//! The cache for guests and nested machines: unpacked kernels, images, and saved machines that have booted.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an image or a machine may be out of use before the next one takes its place.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// The extension of an unpacked kernel.
pub const UNCOMPRESSED: &str = "vmlinux";

/// The extension of a saved machine's folder.
pub const SAVED: &str = "saved";

/// The folder of the cache for all files of nested machines.
pub fn folder() -> PathBuf {
    let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    folder.unwrap_or_else(home).join("tautline/nested")
}

/// Removes images, unpacked kernels and saved machines that no test has used recently.
pub fn drop_unused(folder: &Path) {
    for file in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = file.path();
        let unused = file
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|used| used.elapsed().is_ok_and(|since| since > KEPT));
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("cpio" | UNCOMPRESSED) if unused => drop(std::fs::remove_file(path)),
            Some(SAVED) if unused => drop(std::fs::remove_dir_all(path)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_images_and_machines_out_of_use_go() {
        let folder = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * KEPT;
        for (name, modified) in
            [("a.cpio", old), ("b.cpio", SystemTime::now()), ("e.vmlinux", old), ("kernel", old)]
        {
            let file = std::fs::File::create(folder.path().join(name)).unwrap();
            file.set_modified(modified).unwrap();
        }
        for (name, modified) in [("c.saved", old), ("d.saved", SystemTime::now()), ("modules", old)] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::File::open(folder.path().join(name)).unwrap().set_modified(modified).unwrap();
        }
        drop_unused(folder.path());
        let mut left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["b.cpio", "d.saved", "kernel", "modules"]);
    }
}
