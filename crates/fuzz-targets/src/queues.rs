//! Rings. The harnesses are in `virtqueue`.

use std::sync::LazyLock;

use virtqueue::mock::fuzz::{Harness, Target};

static HARNESS: LazyLock<Harness> = LazyLock::new(|| Harness::of_target(&HARNESS));

/// A script of a hostile driver, run against our device half. With `FUZZ_CONCURRENT` set, a thread overwrites the
/// rings meanwhile. A finding may then need several replays to occur again.
pub fn hostile_driver(script: &[u8]) {
    HARNESS.run(Target::HostileDriver, script);
}

/// A script of a hostile device, run against our driver half.
pub fn hostile_device(script: &[u8]) {
    HARNESS.run(Target::HostileDevice, script);
}
