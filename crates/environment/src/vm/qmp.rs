//! Sets the CPUs on which QEMU's threads run.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use ::vm::qmp::QmpError;
use ::vm::{Placement, Qmp, Role, Watch};

use crate::channel::ChannelError;
use crate::partition::Partition;

/// Pins vCPU n to the n-th of `cpus`, which are the partition's if there is one, and returns the monitor for further commands.
///
/// # Errors
/// QEMU does not greet or answer within `limit`, hangs up, or a vCPU's thread cannot be moved to its CPU.
pub fn pin_vcpus(
    control: UnixStream,
    cpus: &[usize],
    partition: Option<&Partition>,
    limit: Duration,
) -> Result<Qmp, ChannelError> {
    let mut qmp = Qmp::over(control, limit).map_err(error)?;
    take_vcpus(&mut qmp, partition)?;
    for (thread, role) in qmp.roles().map_err(error)?.0 {
        let Role::Vcpu(number) = role else { continue };
        if let Some(&cpu) = cpus.get(number) {
            linux::cpus::bind_thread(thread as u32, &[cpu])?;
        }
    }
    Ok(qmp)
}

/// Puts every thread on the CPUs that a profile gives it, lets the guest run, and returns the monitor for further
/// commands.
///
/// # Errors
/// QEMU does not greet or answer within `limit`, or hangs up. The threads of QEMU cannot be read, or a thread cannot
/// have the CPUs or the policy that the placement gives it.
pub fn place(
    control: UnixStream,
    process: u32,
    placement: &Placement,
    partition: Option<&Partition>,
    limit: Duration,
) -> Result<Qmp, ChannelError> {
    let mut qmp = Qmp::over(control, limit).map_err(error)?;
    take_vcpus(&mut qmp, partition)?;
    let mut watch = Watch::new(process, placement.clone());
    watch.look(|| qmp.roles().ok()).map_err(std::io::Error::other)?;
    if let Some(shortfall) = watch.shortfalls().first() {
        return Err(std::io::Error::other(shortfall.to_string()).into());
    }
    qmp.execute("cont").map_err(error)?;
    Ok(qmp)
}

/// Moves the vCPUs' threads to the partition; QEMU's other threads stay outside.
fn take_vcpus(qmp: &mut Qmp, partition: Option<&Partition>) -> Result<(), ChannelError> {
    let Some(partition) = partition else { return Ok(()) };
    for (thread, role) in qmp.roles().map_err(error)?.0 {
        if matches!(role, Role::Vcpu(_)) {
            partition.take_thread(thread as u32)?;
        }
    }
    Ok(())
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
