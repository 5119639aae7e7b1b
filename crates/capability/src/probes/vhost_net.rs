use std::fs::{self, OpenOptions};
use std::io::ErrorKind;

use measure::Failure;

use crate::files::text;
use crate::finding::Finding;
use crate::sys;

const PATH: &str = "/dev/vhost-net";

/// Opens `/dev/vhost-net` and takes ownership of it, which starts its worker.
///
/// # Errors
/// `/dev/vhost-net` is missing or may not be opened, or VHOST_SET_OWNER is refused.
pub fn run() -> Result<Finding, Failure> {
    let vhost = OpenOptions::new().read(true).write(true).open(PATH).map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::PermissionDenied => {
                "add the user to the group that owns the device (`kvm`), or run as root"
            }
            ErrorKind::NotFound => {
                "load the module (`modprobe vhost_net`), or use a kernel with CONFIG_VHOST_NET"
            }
            _ => "load the module (`modprobe vhost_net`); in a container, give it the device",
        };
        Failure::new(format!("opening {PATH}"), error, remedy)
    })?;
    sys::vhost_set_owner(&vhost).map_err(|error| {
        Failure::new(
            format!("VHOST_SET_OWNER on {PATH}"),
            error,
            "see dmesg; the locked-memory limit may be low",
        )
    })?;
    // Up to Linux 6.3 the worker is a kernel thread; from 6.4 on it is a task of its owner, in the owner's cgroup.
    // The difference decides how the worker is pinned and which cgroup its CPU time is charged to.
    let worker = match own_worker() {
        Some(name) => format!("its worker {name} is a task of the owner (pin and charge it with QEMU)"),
        None => "its worker is a kernel thread (pin it by itself)".into(),
    };
    Ok(Finding::proven(format!("took ownership; {worker}; kernel {}", text("/proc/sys/kernel/osrelease"))))
}

fn own_worker() -> Option<String> {
    let tasks = fs::read_dir("/proc/self/task").ok()?;
    tasks.flatten().map(|task| text(task.path().join("comm"))).find(|name| name.starts_with("vhost-"))
}
