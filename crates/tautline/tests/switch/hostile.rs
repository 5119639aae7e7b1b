//! Hostile front-ends at one port of the switch, one test for each class of mistakes that others have made.
//!
//! ```text
//!   attacker ── victim ─ switch ─ friend ── a guest that does nothing wrong
//!                           └──── a ═ b ─── two more, whose frames flow all along
//! ```
//!
//! After each attack the switch lives, has as many descriptors open as before, has said once what was wrong,
//! and serves the next front-end at the same port; and not one frame between `a` and `b` was lost.
mod amplification;
mod closing;
mod deliveries;
mod descriptors;
mod fuse;
mod lengths;
mod logs;
mod memory_limits;
mod messages;
mod middle;
mod migration;
mod notifications;
mod random;
mod replies;
mod requests;
mod ring_positions;
mod rings;
mod scene;
mod shared_memory;
mod slices;
mod storm;
mod stuck;
mod tables;
mod truncation;
mod turns;

use std::fs::File;

use vhost_user::codec::payload::VringState;

fn memfd(bytes: u64) -> File {
    let file = File::from(rustix::fs::memfd_create("of a test", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    file.set_len(bytes).unwrap();
    file
}

fn state(index: u8, num: u32) -> VringState {
    VringState { index: index.into(), num }
}
