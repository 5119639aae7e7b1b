//! A hostile driver, guided by coverage. With `FUZZ_CONCURRENT` set, a thread writes over the rings all the
//! while; findings then need more than one replay to show again.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use virtqueue::mock::fuzz::{Harness, Target};

static HARNESS: LazyLock<Harness> = LazyLock::new(|| Harness::of_target(&HARNESS));

fuzz_target!(|script: &[u8]| HARNESS.run(Target::HostileDriver, script));
