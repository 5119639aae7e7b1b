//! Exits that the guest times by itself: from before to after the instruction.

use measure::Failure;

use super::bench::Bench;
use super::settings::pin;
use crate::micro_vm::layout::{IO_APIC, MMIO_EVENT, MMIO_USER, SAMPLES};
use crate::micro_vm::{Arguments, Program};

/// The program of a row and its first parameter; `None` if it is not a row of exits.
pub fn program(row: &str) -> Option<(Program, u64)> {
    Some(match row {
        "stamps" => (Program::Stamps, 0),
        "cpuid" => (Program::Cpuid, 0),
        "hypercall" => (Program::hypercall(), 0),
        "interrupt-controller" => (Program::Read, IO_APIC),
        "port-read-user" => (Program::InUser, 0),
        "port-write-user" => (Program::OutUser, 0),
        "mmio-write-user" => (Program::Write, MMIO_USER),
        "port-write-ioeventfd" => (Program::OutEvent, 0),
        "mmio-write-ioeventfd" => (Program::Write, MMIO_EVENT),
        _ => return None,
    })
}

/// Measures a row of exits: the duration of each, in ticks of the TSC. Panics if the row is not a row of exits.
///
/// # Errors
/// The thread cannot be bound to the guest's CPU, or the guest's program does not end.
pub fn exit(bench: &mut Bench, row: &str, samples: usize) -> Result<Vec<u64>, Failure> {
    let (program, first) = program(row).unwrap_or_else(|| unreachable!("{row} is no row of exits"));
    pin(bench.settings.cpus[0])?;
    bench.vcpus[0].run(program, Arguments { samples, first, ..Default::default() })?;
    // No thread waited for the ioeventfd's signals.
    bench.vm.ioeventfd.begin();
    Ok(bench.vm.memory.words(SAMPLES[0], samples))
}
