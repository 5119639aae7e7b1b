//! Faults on memory that the guest has not accessed, or not since the dirty log was read.

use kvm_bindings::KVM_MEM_LOG_DIRTY_PAGES;
use measure::Failure;

use super::bench::Bench;
use super::settings::pin;
use crate::micro_vm::layout::{FRESH, SAMPLES};
use crate::micro_vm::{Arguments, HUGE, Memory, Pages, Program};

/// The pages of a row: their size in bytes, their kind, and the highest number that is used, which also suits a small
/// machine.
#[derive(Clone, Copy)]
pub struct Size {
    bytes: usize,
    pages: Pages,
    most: usize,
}

pub const SMALL: Size = Size { bytes: 4096, pages: Pages::Small, most: 16384 };
pub const LARGE: Size = Size { bytes: HUGE, pages: Pages::Huge, most: 64 };

/// Measures the first store to each page of memory that the guest has not accessed, in ticks of the TSC.
///
/// # Errors
/// The memory cannot be mapped or given to KVM, the guest's program does not end, or the kernel backs fewer pages of
/// 2 MiB than were accessed.
pub fn fresh(bench: &mut Bench, size: Size) -> Result<Vec<u64>, Failure> {
    pin(bench.settings.cpus[0])?;
    let samples = bench.settings.samples.min(size.most);
    let memory = bench.vm.attach(Memory::new(FRESH, samples * size.bytes, size.pages)?, 0)?;
    let touched = touch(bench, samples, size.bytes);
    let huge = memory.huge_bytes();
    drop(memory);
    if size.pages == Pages::Huge && huge < samples * size.bytes {
        return Err(Failure::new(
            format!("touching {samples} fresh pages of 2 MiB"),
            format!("the kernel gave {} of them", huge / HUGE),
            "set /sys/kernel/mm/transparent_hugepage/enabled to madvise, and free memory",
        ));
    }
    touched
}

/// Measures the first store to each page after the dirty log was read, in ticks of the TSC. All pages are present.
///
/// # Errors
/// The memory cannot be mapped or given to KVM, the guest's program does not end, the log cannot be read, or it lacks
/// some of the written pages.
pub fn dirty_log(bench: &mut Bench) -> Result<Vec<u64>, Failure> {
    pin(bench.settings.cpus[0])?;
    let samples = bench.settings.samples.min(SMALL.most);
    let memory = Memory::new(FRESH, samples * SMALL.bytes, Pages::Small)?;
    let memory = bench.vm.attach(memory, KVM_MEM_LOG_DIRTY_PAGES)?;
    touch(bench, samples, SMALL.bytes)?;
    bench.vm.dirty_log(&memory)?;
    let touched = touch(bench, samples, SMALL.bytes)?;
    let dirty: u32 = bench.vm.dirty_log(&memory)?.iter().map(|word| word.count_ones()).sum();
    if (dirty as usize) < samples {
        return Err(Failure::new(
            format!("reading the dirty log after stores to {samples} pages"),
            format!("it tells of {dirty}"),
            "see whether this KVM logs by hardware",
        ));
    }
    Ok(touched)
}

fn touch(bench: &mut Bench, samples: usize, stride: usize) -> Result<Vec<u64>, Failure> {
    bench.vcpus[0].run(Program::Touch, Arguments { samples, first: FRESH, second: stride as u64 })?;
    Ok(bench.vm.memory.words(SAMPLES[0], samples))
}
