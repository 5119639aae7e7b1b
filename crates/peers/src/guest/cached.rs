//! Further kernels of the distribution, as set-up has unpacked them: a folder of the cache for each.

use std::path::PathBuf;

use crate::requirements::Requirements;

/// A kernel for tests that need more than the usual one.
#[derive(Clone, Copy, Debug)]
pub struct CachedKernel {
    folder: &'static str,
    what: &'static str,
}

/// The real-time kernel.
pub const REALTIME: CachedKernel = CachedKernel { folder: "realtime", what: "a real-time kernel" };

/// A kernel with VDUSE.
pub const VDUSE: CachedKernel =
    CachedKernel { folder: "kernel-vduse", what: "a kernel with VDUSE (Linux 6.12 in Debian)" };

/// A later kernel with VDUSE, which has KVM too.
pub const LATER_VDUSE: CachedKernel = CachedKernel {
    folder: "kernel-vduse-7",
    what: "a later kernel with VDUSE (Linux 7 of Debian's backports)",
};

/// Debian's kernel for arm64, with a static busybox beside it.
pub const ARM64: CachedKernel = CachedKernel { folder: "kernel-arm64", what: "Debian's kernel for arm64" };

impl CachedKernel {
    /// The newest kernel in the folder.
    pub fn find(self, needs: &mut Requirements) -> PathBuf {
        let folder = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home =
            || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
        let folder = folder.unwrap_or_else(home).join("tautline").join(self.folder);
        let files = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let is_image = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
        };
        files.filter(is_image).max().unwrap_or_else(|| {
            let place = folder.display();
            needs.missing(format!("{} in {place} (scripts/setup.sh test fetches one)", self.what));
            PathBuf::new()
        })
    }
}
