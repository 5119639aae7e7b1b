//! libFuzzer's program for all targets: `FUZZ_TARGET` names one of `fuzz_targets::TARGETS`.
#![no_main]

use std::sync::LazyLock;

use fuzz_targets::{TARGETS, target};
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
    target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name:?}: set it to one of {}", names.join(", ")))
});

fuzz_target!(|input: &[u8]| TARGET(input));
