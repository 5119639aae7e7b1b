//! The costs that an arm64 guest measures by itself, with stamps of its virtual counter (CNTVCT_EL0).

mod counter;
mod known;
mod layout;
mod program;
mod signals;
mod vm;

use linux::interrupt;
use measure::Failure;

use super::alignment::Alignment;
use super::catalogue::{ROWS, Row};
use super::results::Cost;
use super::settings::{Prepared, Settings, pin};
use super::turns;
use crate::failed::SEE_LOG;
use crate::memory::Pages;
pub use known::KnownMachine;
use layout::{DISTRIBUTOR, EVENT, USER};
use program::Program;
use vm::Machine;

/// Samples that are discarded at the start, while caches warm up.
const WARM_UP: usize = 32;
/// The virtual timer's time until its interrupt, in µs: longer than the way from setting it to WFI.
const TIMER_US: u64 = 500;
/// Pages of 2 MiB that are touched at most, with those of the warm-up: a small machine has them too.
const MOST_LARGE: usize = WARM_UP + 64;

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
    let (khz, alignment) = (counter::khz(), machine.align(settings.cpus[1]));
    let mut costs = Vec::new();
    for row in ROWS {
        if interrupt::is_set() {
            break;
        }
        began(row);
        costs.push(Cost::new(row, samples(&mut machine, row, settings, &alignment), khz));
    }
    Ok((Prepared { emulated: crate::is_emulated(), tsc_khz: khz, alignment: alignment.ok() }, costs))
}

fn samples(
    machine: &mut Machine,
    row: &Row,
    settings: &Settings,
    alignment: &Result<Alignment, Failure>,
) -> Result<Vec<u64>, Failure> {
    let (count, [cpu, other]) = (settings.samples + WARM_UP, settings.cpus);
    let one_clock = || alignment.as_ref().map_err(Clone::clone);
    let mut found = match row.id {
        "stamps" => first(machine, Program::Stamps, count, 0)?,
        "hypercall" => first(machine, Program::Hypercall, count, 0)?,
        "interrupt-controller" => first(machine, Program::Read, count, DISTRIBUTOR)?,
        "mmio-write-user" => first(machine, Program::Write, count, USER)?,
        "mmio-write-ioeventfd" => first(machine, Program::Write, count, EVENT)?,
        "ioeventfd-to-thread" => one_clock().and_then(|_| machine.signal_out(count, other))?,
        "inject-irqfd-spinning" => {
            signals::in_order(&one_clock().and_then(|_| machine.inject(count, other))?)?
        }
        "self-ipi" => first(machine, Program::SelfInterrupt, count, 0)?,
        "eoi" => machine.run(Program::SelfInterrupt, count, 0)?[1].clone(),
        "timer-spinning" => first(machine, Program::TimerSpinning, count, timer())?,
        "timer-halted" => first(machine, Program::Timer, count, timer())?,
        "cpuid" => first(machine, Program::Identify, count, 0)?,
        "ipi-spinning" => machine.interrupt_other([Program::Interrupt, Program::Answer], count, other)?,
        "ipi-halted" => machine.interrupt_other([Program::Wake, Program::AnswerHalted], count, other)?,
        "page-fault-4k" => machine.touch(count, Pages::Small)?,
        "page-fault-2m" => machine.touch(count.min(MOST_LARGE), Pages::Huge)?,
        "vm-switch" => {
            let machines = [machine, &mut Machine::new()?];
            turns::switches(machines, count, cpu, counter::stamp, Machine::write)?
        }
        _ => {
            let tried = format!("measuring {}", row.title);
            return Err(Failure::new(tried, "the arm64 guest has no program for it", "measure it on x86-64"));
        }
    };
    // An effect before its cause leaves a difference below zero.
    match found.iter().filter(|ticks| (**ticks as i64) < 0).count() {
        0 => Ok(found.split_off(WARM_UP)),
        early => {
            let answer = format!("{early} of {count} effects came before their causes");
            Err(Failure::new(format!("measuring {}", row.title), answer, SEE_LOG))
        }
    }
}

/// The virtual timer's time until its interrupt, in ticks.
fn timer() -> u64 {
    u64::from(counter::khz()) * TIMER_US / 1000
}

/// The first samples of a program.
fn first(machine: &mut Machine, program: Program, count: usize, first: u64) -> Result<Vec<u64>, Failure> {
    machine.run(program, count, first).map(|[samples, _]| samples)
}
