use std::io;

use measure::Failure;
use rustix::process::{Resource, getrlimit};

use crate::files::{KIB, MIB, bytes, field, text};
use crate::finding::Finding;
use crate::sys::Mapping;

/// Enough to show that it is not a token allowance; a guest needs its own size.
const SIZES_BYTES: [usize; 6] = [64 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB];

/// Locks memory of growing sizes, up to 256 MiB or a quarter of what is available.
///
/// # Errors
/// Not even the smallest size, 64 KiB, can be locked: RLIMIT_MEMLOCK is lower, and CAP_IPC_LOCK is missing.
pub fn run() -> Result<Finding, Failure> {
    // At most a quarter of the free memory: a probe must not displace other programs.
    let free_bytes =
        field(&text("/proc/meminfo"), "MemAvailable:").map_or(usize::MAX, |kib| kib as usize * KIB);
    let sizes = SIZES_BYTES.into_iter().filter(|&size| size <= free_bytes / 4);
    let mut locked_bytes = 0;
    let mut refusal = None;
    for size in sizes {
        match lock(size) {
            Ok(()) => locked_bytes = size,
            Err(error) => {
                refusal = Some((size, error));
                break;
            }
        }
    }
    let limit = limit(locked_bytes);
    let remedy = "run as root, or raise the limit: `memlock unlimited` in /etc/security/limits.d, \
                  LimitMEMLOCK=infinity for a service, --ulimit memlock=-1 for a container";
    Ok(match (locked_bytes, refusal) {
        (0, Some((size, error))) => {
            let tried = format!("mlock of {} (RLIMIT_MEMLOCK {limit})", bytes(size));
            return Err(Failure::new(tried, error, remedy));
        }
        (locked, None) => Finding::proven(format!("locked {} (RLIMIT_MEMLOCK {limit})", bytes(locked))),
        (locked, Some((size, error))) => {
            let detail = format!(
                "locked {}, refused {}: {error} (RLIMIT_MEMLOCK {limit})",
                bytes(locked),
                bytes(size)
            );
            Finding::partial(detail, remedy)
        }
    })
}

/// Locks fresh memory of `size` bytes and checks that VmLck counts them.
fn lock(size: usize) -> io::Result<()> {
    let memory = Mapping::anonymous(size)?;
    memory.lock()?;
    let locked_kib = field(&text("/proc/self/status"), "VmLck:").unwrap_or(0);
    match locked_kib as usize * KIB >= size {
        true => Ok(()),
        false => Err(io::Error::other(format!("accepted, but VmLck is {locked_kib} KiB"))),
    }
}

/// The limit, and whether CAP_IPC_LOCK overrides it, as more locked memory than the limit shows (mlock(2)).
fn limit(locked_bytes: usize) -> String {
    match getrlimit(Resource::Memlock).current {
        None => "unlimited".into(),
        Some(soft) if locked_bytes as u64 > soft => {
            format!("{}, which CAP_IPC_LOCK overrides", bytes(soft as usize))
        }
        Some(soft) => bytes(soft as usize),
    }
}
