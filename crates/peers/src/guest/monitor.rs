//! The monitor (QMP) of a guest's QEMU: a socket in the guest's folder.

use std::path::Path;
use std::time::Duration;

use vm::Qmp;
use vm::qmp::QmpError;

const MONITOR: &str = "monitor";
/// How long QEMU may take for an answer.
const LIMIT: Duration = Duration::from_secs(60);

/// QEMU's arguments for its monitor.
pub(super) fn arguments(folder: &Path) -> [String; 2] {
    ["-qmp".to_owned(), format!("unix:{},server=on,wait=off", folder.join(MONITOR).display())]
}

/// A connection to the monitor of the guest with this folder.
///
/// # Errors
/// QEMU does not listen, or does not complete the handshake within 60 s.
pub(crate) fn connect(folder: &Path) -> Result<Qmp, QmpError> {
    Qmp::connect(&folder.join(MONITOR), LIMIT)
}
