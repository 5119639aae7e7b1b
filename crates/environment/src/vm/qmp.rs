//! Where QEMU's threads run.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use ::vm::qmp::QmpError;
use ::vm::{Placement, Qmp, Role, Watch};

use crate::channel::ChannelError;

/// Pins vCPU n to the n-th of `cpus`; the monitor can be asked more then.
pub fn pin_vcpus(control: UnixStream, cpus: &[usize], limit: Duration) -> Result<Qmp, ChannelError> {
    let mut qmp = Qmp::over(control, limit).map_err(error)?;
    for (thread, role) in qmp.roles().map_err(error)?.0 {
        let Role::Vcpu(number) = role else { continue };
        if let Some(&cpu) = cpus.get(number) {
            linux::cpus::bind_thread(thread as u32, &[cpu])?;
        }
    }
    Ok(qmp)
}

/// Puts every thread where a profile wants it, and lets the guest run; the monitor can be asked more then.
pub fn place(
    control: UnixStream,
    process: u32,
    placement: &Placement,
    limit: Duration,
) -> Result<Qmp, ChannelError> {
    let mut qmp = Qmp::over(control, limit).map_err(error)?;
    let mut watch = Watch::new(process, placement.clone());
    watch.look(|| qmp.roles().ok()).map_err(std::io::Error::other)?;
    if let Some(shortfall) = watch.shortfalls().first() {
        return Err(std::io::Error::other(shortfall.to_string()).into());
    }
    qmp.execute("cont").map_err(error)?;
    Ok(qmp)
}

fn error(error: QmpError) -> ChannelError {
    match error {
        QmpError::Closed => ChannelError::Closed,
        QmpError::Late(limit) => ChannelError::Late(limit),
        QmpError::Interrupted => ChannelError::Interrupted,
        QmpError::System(error) => error.into(),
        QmpError::Malformed(_) | QmpError::Refused { .. } => std::io::Error::other(error).into(),
    }
}
