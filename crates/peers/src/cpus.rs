//! Lists the CPUs on which a peer may be placed.

use crate::Error;

/// The CPUs that this process may use, in order.
pub(crate) fn usable() -> Result<Vec<usize>, Error> {
    linux::cpus::usable().map_err(Error::system("asking for the CPUs that this process may use"))
}
