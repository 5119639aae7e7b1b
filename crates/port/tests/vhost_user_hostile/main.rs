//! Hostile front-ends and guests, one test for each class: the port drops, refuses or disconnects, other
//! guests' traffic goes on, and no descriptor or mapping stays.
mod buffers;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod protocol;
mod rings;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::frame;
use common::guest::{
    DATA, DATA_BYTES, Guest, HEADER, Host, RINGS, RINGS_BYTES, USER, event_fd, is_readable, region,
    ring_addresses, ring_at,
};
use frame::{DropReason, Side};
use memory::{TruncationGuard, lost_mappings, sealed_memfd};
use peers::pages::Grown;
use peers::requirements::root_required;
use port::Port;
use rustix::fs::MemfdFlags;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{
    Inflight, LogArea, MemoryRegion, MemoryTable, VringAddress, VringFd, VringState,
};
use vhost_user::session::frontend::Answer;
use virtio::Features;
use virtqueue::{Buffer, Direction, Piece};

/// Descriptors and mappings are counted for the whole process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn plain() -> Features {
    Features::empty().union(Features::VERSION_1)
}

fn layouts() -> [Features; 2] {
    [plain(), plain().union(Features::RING_PACKED)]
}

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

fn guest_mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps").unwrap().matches("guest of a test").count()
}

/// Threads of former ports have closed and unmapped all, and are gone: none of it goes while this test counts.
fn wait_for_former_ports() {
    let closes = |task: std::io::Result<std::fs::DirEntry>| {
        task.is_ok_and(|task| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name == "closer\n")
        })
    };
    let deadline = common::deadline();
    while std::fs::read_dir("/proc/self/task").unwrap().any(closes) {
        assert!(std::time::Instant::now() < deadline, "threads of former ports are left");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Two well-behaved guests whose traffic must go on.
struct Others {
    left: Host,
    right: Host,
    alice: Guest,
    bob: Guest,
    passed: u32,
}

impl Others {
    fn new() -> Self {
        let (mut left, mut right) = (Host::new(|_| {}), Host::new(|_| {}));
        let alice = Guest::running(&mut left, plain());
        let bob = Guest::running(&mut right, plain().union(Features::RING_PACKED));
        Others { left, right, alice, bob, passed: 0 }
    }

    fn pass(&mut self) {
        self.passed += 1;
        self.bob.post(0, 1, 1600);
        self.alice.send(1, &frame(self.passed, 900));
        assert_eq!(self.left.forward(0, &mut self.right, 0), 1);
        assert_eq!(self.bob.received(0)[0].1, frame(self.passed, 900));
        assert_eq!(self.alice.used(1).len(), 1);
    }
}

/// Lets an attacker do its worst at a port of its own, then go; nothing of it may stay.
fn attacked(features: Features, attack: impl FnOnce(&mut Host, Guest, &mut Others)) {
    wait_for_former_ports();
    let mut others = Others::new();
    others.pass();
    let mut host = Host::new(|_| {});
    let before = (open_fds(), guest_mappings());
    let attacker = Guest::connect(&mut host, features);
    attack(&mut host, attacker, &mut others);
    host.until("attacker gone", |host| host.context.logged.last().unwrap().contains("disconnected"));
    assert!(host.context.sources.is_empty() && host.context.sinks.is_empty());
    // The connection is closed on a thread of its own.
    host.until("descriptors and mappings as before", |_| (open_fds(), guest_mappings()) == before);
    others.pass();
    // And the next one is served.
    let next = Guest::running(&mut host, features);
    assert_eq!((host.context.sources.len(), host.context.sinks.len()), (1, 1));
    drop(next);
}

/// Attacks through these rings, in each layout.
fn attacked_through(rings: &[u8], attack: impl Fn(&mut Host, Guest, &mut Others)) {
    let _alone = alone();
    for features in layouts() {
        attacked(features, |host, mut guest, others| {
            guest.share_memory(host);
            for ring in rings {
                guest.start_ring(host, *ring);
            }
            attack(host, guest, others);
        });
    }
}

/// Announces a ring with these changes and expects the start to be refused.
fn refused_start(change: impl Fn(&mut Guest, &mut Host, u8)) {
    for features in layouts() {
        for index in [0, 1] {
            attacked(features, |host, mut guest, others| {
                guest.share_memory(host);
                guest.prepare_ring(host, index);
                change(&mut guest, host, index);
                let answer = guest.kick_off(host, index);
                assert!(matches!(answer, Some(Answer::Refused { .. })), "{answer:?}");
                assert!(host.context.sources.is_empty() && host.context.sinks.is_empty());
                others.pass();
            });
        }
    }
}
