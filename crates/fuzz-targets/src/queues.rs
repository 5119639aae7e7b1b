//! Rings: the harnesses are those of `virtqueue`.

use std::sync::LazyLock;

use virtqueue::mock::fuzz::{Harness, Target};

static HARNESS: LazyLock<Harness> = LazyLock::new(|| Harness::of_target(&HARNESS));

/// A script of a driver, at our device half. With `FUZZ_CONCURRENT` set, a thread writes over the rings all the while;
/// findings then need more than one replay to show again.
pub fn hostile_driver(script: &[u8]) {
    HARNESS.run(Target::HostileDriver, script);
}

/// The same of a device, at our driver half.
pub fn hostile_device(script: &[u8]) {
    HARNESS.run(Target::HostileDevice, script);
}
