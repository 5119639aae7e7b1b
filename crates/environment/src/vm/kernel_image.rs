use std::fs;
use std::path::{Path, PathBuf};

use measure::Failure;

/// The kernel image to boot: the stock kernel that set-up keeps in the cache folder, else an image in `/boot`. Of
/// several readable `vmlinuz*` in a folder, the one of the highest
/// version.
///
/// # Errors
/// Neither folder holds a `vmlinuz*` that this user may read.
pub fn find() -> Result<PathBuf, Failure> {
    let mut tried = Vec::new();
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .map(|cache| cache.join("tautline/kernel"));
    for folder in cache.into_iter().chain([PathBuf::from("/boot")]) {
        tried.push(folder.display().to_string());
        if let Some(image) = newest(&folder) {
            return Ok(image);
        }
    }
    Err(Failure::new(
        format!("looking for a kernel image to boot, vmlinuz* in {}", tried.join(" and ")),
        "none that can be read",
        "`make setup` fetches one, or name one with `--environments vm:kernel=PATH`",
    ))
}

/// The readable image of the highest version in a folder.
fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_image = |name: &String| name.starts_with("vmlinuz") && fs::File::open(folder.join(name)).is_ok();
    let name = names.filter(is_image).max_by(|one, other| linux::version::compare(one, other))?;
    Some(folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_is_booted() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(newest(folder.path()), None);
        for name in
            ["vmlinuz-6.9.0-amd64", "vmlinuz-6.10.0-amd64", "vmlinuz-6.1.0-48-amd64", "initrd.img-7.0"]
        {
            fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(newest(folder.path()), Some(folder.path().join("vmlinuz-6.10.0-amd64")));
    }
}
