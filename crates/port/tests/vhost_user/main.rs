//! The `vhost-user:` port against this project's own front-end session and driver halves.
#[path = "../common/mod.rs"]
mod common;
mod control_queue;
mod frames;
mod lost;
mod notifications;
mod protocol;
mod rings;
mod roles;
mod shared_memory;

use common::guest::Host;
use virtio::{Feature, Features};

fn plain() -> Features {
    Features::NONE.with(Feature::VERSION_1)
}

/// Moves everything that is there from the first to the second.
fn forward_all(from: &mut Host, to: &mut Host) -> usize {
    let mut moved = 0;
    loop {
        match from.forward(0, to, 0) {
            0 => return moved,
            count => moved += count,
        }
    }
}
