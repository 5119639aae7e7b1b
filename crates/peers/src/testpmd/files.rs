//! The files of testpmd.

use std::path::{Path, PathBuf};

use crate::guest::userland::needed_libraries;
use crate::requirements::Requirements;
use crate::{Error, chosen};

const PACKAGES: &str = "dpdk-dev librte-net-virtio23 librte-net-vhost23";

/// The drivers that testpmd loads for a virtio port. A static testpmd has them in itself.
const DRIVERS: [&str; 2] = ["librte_net_virtio.so", "librte_mempool_ring.so"];

/// The program, and the drivers that it finds at their paths.
///
/// # Errors
/// testpmd or one of its drivers is missing, or `ldd` cannot be run.
pub fn files() -> Result<(PathBuf, Vec<PathBuf>), Error> {
    let mut needs = Requirements::new();
    let program = find(None, &mut needs);
    needs.met()?;
    let is_eal = |library: &PathBuf| library.to_string_lossy().contains("/librte_eal.so.");
    let Some(eal) = needed_libraries(&program)?.into_iter().find(is_eal) else {
        return Ok((program, Vec::new()));
    };
    // testpmd loads the files of one folder whose names end with its version.
    let version = eal.extension().unwrap_or_default().to_string_lossy().into_owned();
    let eal = std::fs::canonicalize(&eal).map_err(Error::system(format!("finding {}", eal.display())))?;
    let folder = eal.with_file_name("dpdk").join(format!("pmds-{version}.0"));
    let mut needs = Requirements::new();
    let drivers = DRIVERS.map(|name| folder.join(format!("{name}.{version}.0")));
    for driver in &drivers {
        needs.path(driver, "a driver of DPDK");
    }
    needs.met()?;
    Ok((program, drivers.into()))
}

/// A named build, or the one that is installed.
pub(super) fn find(named: Option<&Path>, needs: &mut Requirements) -> PathBuf {
    match named {
        Some(path) => {
            if !path.is_file() {
                needs.missing(format!("{} (testpmd: name the file that is run)", path.display()));
            }
            path.to_owned()
        }
        None => {
            chosen::file(chosen::TESTPMD, needs).unwrap_or_else(|| needs.program("dpdk-testpmd", PACKAGES))
        }
    }
}
