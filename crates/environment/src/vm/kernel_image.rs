use std::fs;
use std::path::PathBuf;

use measure::Failure;

/// The kernel image to boot: the stock kernel that set-up keeps in the cache folder, else an image in `/boot`. Of
/// several readable `vmlinuz*` in a folder, the last by name.
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
        let mut images: Vec<PathBuf> = fs::read_dir(&folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
                    && fs::File::open(path).is_ok()
            })
            .collect();
        images.sort();
        if let Some(image) = images.pop() {
            return Ok(image);
        }
    }
    Err(Failure::new(
        format!("looking for a kernel image to boot, vmlinuz* in {}", tried.join(" and ")),
        "none that can be read",
        "`make setup` fetches one, or name one with `--environments vm:kernel=PATH`",
    ))
}
