use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};

use measure::Failure;

use crate::files::{MIB, or_unknown, text};
use crate::finding::Finding;
use crate::sys::{Event, Mapping, perf_event_open};

// linux/perf_event.h
const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const HARDWARE_CYCLES: u64 = 0;
const HARDWARE_INSTRUCTIONS: u64 = 1;
const SOFTWARE_PAGE_FAULTS: u64 = 2;

/// Counts instructions and cycles of a loop, and page faults of fresh memory.
///
/// # Errors
/// Neither hardware nor software events can be counted: `perf_event_open` refuses them, or the counts are too low for
/// the work that was done. If one of the two kinds fails, the finding is partial.
pub fn run() -> Result<Finding, Failure> {
    let paranoid = or_unknown(text("/proc/sys/kernel/perf_event_paranoid"));
    let hardware = hardware();
    let software = page_faults();
    let words = |result: &io::Result<String>| match result {
        Ok(counted) => counted.clone(),
        Err(error) => error.to_string(),
    };
    let detail = format!(
        "hardware events: {}; software events: {} (perf_event_paranoid {paranoid})",
        words(&hardware),
        words(&software)
    );
    Ok(match (hardware, software) {
        (Ok(_), Ok(_)) => Finding::proven(detail),
        (Err(error), Ok(_)) => Finding::partial(detail, hardware_remedy(&error)),
        (Ok(_), Err(error)) => Finding::partial(detail, software_remedy(&error)),
        (Err(error), Err(_)) => return Err(Failure::new("perf_event_open", detail, software_remedy(&error))),
    })
}

fn hardware_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => software_remedy(error),
        _ => "the CPU shows no counters here: in a VM, have its host pass them (QEMU: -cpu host,pmu=on)",
    }
}

fn software_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::Unsupported => "use a kernel with CONFIG_PERF_EVENTS",
        _ => {
            "sysctl kernel.perf_event_paranoid=1, or run as root or with CAP_PERFMON; \
             in a container, its seccomp profile may forbid it"
        }
    }
}

fn open(kind: u32, config: u64) -> io::Result<File> {
    Ok(perf_event_open(Event { kind, config, exclude_kernel: true })?)
}

/// Counts a loop whose least number of instructions is known.
fn hardware() -> io::Result<String> {
    const TURNS: u64 = 1_000_000;
    let instructions = open(TYPE_HARDWARE, HARDWARE_INSTRUCTIONS)?;
    let cycles = open(TYPE_HARDWARE, HARDWARE_CYCLES)?;
    let before = (count(&instructions)?, count(&cycles)?);
    for turn in 0..TURNS {
        black_box(turn);
    }
    let counted = (count(&instructions)? - before.0, count(&cycles)? - before.1);
    // Every turn is several instructions, and no CPU retires ten per cycle.
    if counted.0 < TURNS || counted.1 < TURNS / 10 {
        return Err(io::Error::other(format!(
            "counted {counted:?} instructions and cycles for {TURNS} turns"
        )));
    }
    Ok(format!("{} instructions in {} cycles for {TURNS} turns of a loop", counted.0, counted.1))
}

/// Counts page faults while touching pages; huge pages may make them few, but not none.
fn page_faults() -> io::Result<String> {
    const TOUCHED_BYTES: usize = 4 * MIB;
    let faults = open(TYPE_SOFTWARE, SOFTWARE_PAGE_FAULTS)?;
    let before = count(&faults)?;
    let memory = Mapping::anonymous(TOUCHED_BYTES)?;
    for offset in (0..TOUCHED_BYTES).step_by(4096) {
        memory.write(offset, &[1]);
    }
    match count(&faults)? - before {
        0 => Err(io::Error::other("no page fault counted")),
        counted => Ok(format!("{counted} page faults while touching {} MiB", TOUCHED_BYTES / MIB)),
    }
}

/// The counter's present value.
///
/// # Errors
/// The read is refused, or returns fewer than eight bytes.
pub fn count(mut counter: &File) -> io::Result<u64> {
    let mut value = [0; 8];
    counter.read_exact(&mut value)?;
    Ok(u64::from_ne_bytes(value))
}
