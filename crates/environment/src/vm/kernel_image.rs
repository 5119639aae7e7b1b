use std::fs;
use std::path::{Path, PathBuf};

use measure::Failure;

use super::modules::Modules;

/// The kernel image to boot: the stock kernel that set-up keeps in the cache folder, or else an image in `/boot`. If
/// a folder has several readable `vmlinuz*`, the image with the highest version is used.
///
/// # Errors
/// Neither folder holds a `vmlinuz*` that this user may read.
pub fn find() -> Result<PathBuf, Failure> {
    let folders: Vec<PathBuf> = cached("kernel").into_iter().chain([PathBuf::from("/boot")]).collect();
    folders.iter().find_map(|folder| newest(folder)).ok_or_else(|| {
        let tried: Vec<_> = folders.iter().map(|folder| folder.display().to_string()).collect();
        Failure::new(
            format!("looking for a kernel image to boot, vmlinuz* in {}", tried.join(" and ")),
            "none that can be read",
            "`make setup` fetches one, or name one with `--environments vm:kernel=PATH`",
        )
    })
}

/// Like [`find`], for a guest with a card that needs these drivers. Cloud kernels lack the drivers of emulated cards,
/// so set-up keeps a generic kernel in `kernel-cards`; it is used if it has a module that the other kernel lacks.
///
/// # Errors
/// The causes of [`find`].
pub fn find_for(drivers: &[String]) -> Result<PathBuf, Failure> {
    let usual = find()?;
    let generic = cached("kernel-cards").and_then(|folder| newest(&folder));
    Ok(better(usual, generic, drivers))
}

fn better(usual: PathBuf, generic: Option<PathBuf>, drivers: &[String]) -> PathBuf {
    let lacking = |image: &Path| {
        // A kernel without modules has all that it supports built in.
        let modules = Modules::of_image(image).ok();
        drivers.iter().filter(|driver| modules.as_ref().is_some_and(|of| !of.has(driver))).count()
    };
    match generic {
        Some(generic) if lacking(&generic) < lacking(&usual) => generic,
        _ => usual,
    }
}

/// A folder of kernels that set-up keeps.
fn cached(name: &str) -> Option<PathBuf> {
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .map(|cache| cache.join("tautline").join(name))
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

    #[test]
    fn a_card_whose_driver_the_usual_kernel_lacks_gets_the_generic_one() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = |name: &str, modules: &[&str]| {
            let image = folder.path().join(format!("vmlinuz-{name}"));
            fs::write(&image, "").unwrap();
            for module in modules {
                let file = folder.path().join(format!("modules/{name}/drivers/net/{module}.ko.xz"));
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, "").unwrap();
            }
            image
        };
        let cloud = kernel("1-cloud", &["virtio_net"]);
        let generic = kernel("1", &["virtio_net", "e1000"]);
        for (drivers, image) in [("e1000", &generic), ("virtio_net", &cloud), ("built_in", &cloud)] {
            assert_eq!(&better(cloud.clone(), Some(generic.clone()), &[drivers.into()]), image, "{drivers}");
            assert_eq!(better(cloud.clone(), None, &[drivers.into()]), cloud);
        }
    }
}
