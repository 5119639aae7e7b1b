//! What holds a CPU's idle states off.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// Where the kernel takes wishes for it: Linux, "PM Quality Of Service Interface".
pub const PATH: &str = "/dev/cpu_dma_latency";

/// No CPU takes longer than 0 µs out of an idle state while it lives, as cyclictest has it.
#[derive(Debug)]
#[must_use]
pub struct HeldOff {
    _file: File,
}

/// Holds them off, on all CPUs.
///
/// # Errors
/// There is no such file, or no right to it.
pub fn hold_off() -> io::Result<HeldOff> {
    let mut file = OpenOptions::new().write(true).open(PATH)?;
    file.write_all(&0i32.to_ne_bytes())?;
    Ok(HeldOff { _file: file })
}
