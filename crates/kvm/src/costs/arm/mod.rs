//! The costs that an arm64 guest measures by itself, with stamps of its virtual counter (CNTVCT_EL0).

mod known;
mod layout;
mod program;
mod vm;

use linux::interrupt;
use measure::Failure;

use super::catalogue::{ROWS, Row};
use super::results::Cost;
use super::settings::{Prepared, Settings, pin};
pub use known::KnownMachine;
use layout::{DISTRIBUTOR, USER};
use program::Program;
use vm::Machine;

/// Samples that are discarded at the start, while caches warm up.
const WARM_UP: usize = 32;
/// The virtual timer's time until its interrupt, in µs: longer than the way from setting it to WFI.
const TIMER_US: u64 = 500;

/// Measures the rows that have a program for arm64, and calls `began` before each row. The other rows have the reason
/// why they are missing. After a signal ([`interrupt::is_set`]) only the rows so far are returned.
///
/// # Errors
/// This KVM cannot make or run the guest. A later row that fails is part of the results, with its reason.
pub fn measure(
    settings: &Settings,
    mut began: impl FnMut(&'static Row),
) -> Result<(Prepared, Vec<Cost>), Failure> {
    pin(settings.cpus[0])?;
    let mut machine = Machine::new()?;
    let khz = counter_khz();
    let mut costs = Vec::new();
    for row in ROWS {
        if interrupt::is_set() {
            break;
        }
        began(row);
        costs.push(Cost::new(
            row,
            samples(&mut machine, row, settings.samples + WARM_UP, khz, settings.cpus[1]),
            khz,
        ));
    }
    Ok((Prepared { emulated: crate::is_emulated(), tsc_khz: khz, alignment: None }, costs))
}

fn samples(
    machine: &mut Machine,
    row: &Row,
    count: usize,
    khz: u32,
    other: usize,
) -> Result<Vec<u64>, Failure> {
    let timer = u64::from(khz) * TIMER_US / 1000;
    let (program, first, place) = match row.id {
        "stamps" => (Program::Stamps, 0, 0),
        "hypercall" => (Program::Hypercall, 0, 0),
        "interrupt-controller" => (Program::Read, DISTRIBUTOR, 0),
        "mmio-write-user" => (Program::Write, USER, 0),
        "self-ipi" => (Program::SelfInterrupt, 0, 0),
        "eoi" => (Program::SelfInterrupt, 0, 1),
        "timer-halted" => (Program::Timer, timer, 0),
        "cpuid" => (Program::Identify, 0, 0),
        "ipi-spinning" => return Ok(machine.interrupt_other(count, other)?.split_off(WARM_UP)),
        "page-fault-4k" => return Ok(machine.touch(count)?.split_off(WARM_UP)),
        _ => {
            let tried = format!("measuring {}", row.title);
            return Err(Failure::new(tried, "the arm64 guest has no program for it", "measure it on x86-64"));
        }
    };
    let [mut first_samples, mut second_samples] = machine.run(program, count, first)?;
    let found = if place == 0 { &mut first_samples } else { &mut second_samples };
    Ok(found.split_off(WARM_UP))
}

/// The frequency of the virtual counter, in kHz (Arm ARM, CNTFRQ_EL0).
fn counter_khz() -> u32 {
    let hertz: u64;
    // SAFETY: reads a register that Linux lets user space read; changes nothing.
    unsafe { std::arch::asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack)) };
    u32::try_from(hertz / 1000).unwrap_or(u32::MAX)
}
