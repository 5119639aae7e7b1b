//! A limit on the wake-up latency of CPUs' idle states.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};

/// The kernel's interface for the limit (Linux, "PM Quality Of Service Interface").
pub const PATH: &str = "/dev/cpu_dma_latency";

/// While this exists, no CPU enters an idle state with a wake-up latency above 0 µs, as under cyclictest.
#[derive(Debug)]
#[must_use]
pub struct HeldOff {
    _file: File,
}

/// Sets the limit to 0 µs, for all CPUs.
///
/// # Errors
/// The kernel has no such file, or this user may not write it.
pub fn hold_off() -> io::Result<HeldOff> {
    let mut file = OpenOptions::new().write(true).open(PATH)?;
    file.write_all(&0i32.to_ne_bytes())?;
    Ok(HeldOff { _file: file })
}
