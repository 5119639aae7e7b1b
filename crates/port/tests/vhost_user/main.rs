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

use common::guest::{Guest, Host};
use virtio::Features;

fn plain() -> Features {
    Features::empty().union(Features::VERSION_1)
}

/// Two ports with a running guest at each: one that sends, and one that receives.
fn two_guests(features: Features) -> (Host, Host, Guest, Guest) {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    let alice = Guest::running(&mut left, features);
    let bob = Guest::running(&mut right, features);
    (left, right, alice, bob)
}

/// The same two ports with new guests for each of these features.
fn in_each(
    features: impl IntoIterator<Item = Features>,
    test: impl Fn(Features, &mut Guest, &mut Guest, &mut Host, &mut Host),
) {
    let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
    for features in features {
        let mut alice = Guest::running(&mut left, features);
        let mut bob = Guest::running(&mut right, features);
        test(features, &mut alice, &mut bob, &mut left, &mut right);
        drop((alice, bob));
        left.until("gone", |host| host.context.sources.is_empty());
        right.until("gone", |host| host.context.sinks.is_empty());
    }
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
