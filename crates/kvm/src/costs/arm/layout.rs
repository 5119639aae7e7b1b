//! Where things are in the guest's address space.

use crate::costs::settings::MOST_SAMPLES;

/// The GIC's distributor.
pub const DISTRIBUTOR: u64 = 0x0800_0000;
/// The GIC's redistributors, of 128 KiB each.
pub const REDISTRIBUTOR: u64 = 0x080A_0000;
/// An address without memory, whose stores this process handles.
pub const USER: u64 = 0x0900_0000;
/// A store there ends a program.
pub const DONE: u64 = 0x0901_0000;
/// A store there reports an exception.
pub const FAULT: u64 = 0x0902_0000;
/// An ioeventfd.
pub const EVENT: u64 = 0x0903_0000;
/// The guest's memory: the vector table and the programs come first.
pub const CODE: u64 = 0x4000_0000;
/// Where KVM tells the guest its steal time: a multiple of 64 (Arm DEN 0057, 3.2.1).
pub const STEAL: u64 = CODE + 0x8_0000;
/// Where the guest's handler, or the thread that was signalled, stores its stamp.
pub const ANSWER: u64 = CODE + 0x8_1000;
/// Where a program's samples go, and its second samples.
pub const SAMPLES: [u64; 2] = [CODE + 0x10_0000, CODE + 0x18_0000];
/// Size of the guest's memory.
pub const MEMORY: usize = 2 << 20;
/// Memory that the guest has not accessed.
pub const FRESH: u64 = 0x8000_0000;
const _: () = assert!((MOST_SAMPLES + 64) * 8 <= 0x8_0000);
