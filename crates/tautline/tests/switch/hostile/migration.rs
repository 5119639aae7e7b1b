//! Live migration: what the switch writes is found in the log, by a front-end that takes it all the time.
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use memory::DirtyLog;
use vhost_user::codec::frontend_request::FrontendRequest as Request;
use vhost_user::codec::payload::{LogArea, VringAddress};
use virtio::Features;

use super::scene::Scene;
use super::{memfd, state};
use crate::switch_process::guest::{
    DATA, DATA_BYTES, GuestMemory, RECEIVE, TRANSMIT, frame, layouts, plain, ring_addresses, ring_at,
};
use crate::switch_process::wait_for;

const PAGE: u64 = memory::DIRTY_PAGE_BYTES;
const LOG_BYTES: u64 = (DATA + DATA_BYTES) / PAGE / 8;
const ROUNDS: u32 = 200;

/// What has arrived at the destination, by page.
type Copied = Arc<Mutex<BTreeMap<u64, Vec<u8>>>>;

/// Ends the migration when it is dropped, by a test that fails too.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Takes the log without a pause, and copies what it names.
fn migrate(log: &DirtyLog, memory: &GuestMemory, copied: &Copied, over: &AtomicBool) -> u64 {
    let mut passes = 0;
    while !over.load(Ordering::Relaxed) {
        for page in log.take() {
            copied.lock().unwrap().insert(page, memory.read(page * PAGE, PAGE as usize));
        }
        passes += 1;
    }
    passes
}

/// Each time nothing is written any more, the destination has all of it: a page that was taken before its last write
/// would never come again.
#[test]
fn a_log_that_is_taken_all_the_time() {
    let mut scene = Scene::new();
    for features in layouts() {
        scene.attacked(features.union(Features::VHOST_LOG_ALL), None, |scene, mut guest| {
            guest.share_memory();
            let file = memfd(LOG_BYTES);
            let log = DirtyLog::map(&file, 0, LOG_BYTES).unwrap();
            let area = LogArea { size_bytes: LOG_BYTES, offset: 0 };
            guest.ask(Request::SetLogBase(area), vec![file.into()]);
            guest.prepare_ring(RECEIVE);
            let (_, _, used) = ring_at(RECEIVE);
            let address = VringAddress { log_used: true, log: used, ..ring_addresses(RECEIVE) };
            guest.ask(Request::SetVringAddr(address), vec![]);
            let (kick, fds) = guest.kick_of(RECEIVE);
            guest.ask(kick, fds);
            guest.ask(Request::SetVringEnable(state(RECEIVE, 1)), vec![]);

            let (copied, over) = (Copied::default(), AtomicBool::new(false));
            let memory = GuestMemory { space: Arc::clone(&guest.space), regions: vec![] };
            let passes = std::thread::scope(|scope| {
                let destination = scope.spawn(|| migrate(&log, &memory, &copied, &over));
                let end = End(&over);
                for number in 0..ROUNDS {
                    guest.post(1);
                    scene.friend.send(&frame(number, 700));
                    assert_eq!(guest.receive(), frame(number, 700));
                    scene.friend.wait_for_used(TRANSMIT, 1);
                    // Written by the switch alone: the buffer, and a split ring's used part.
                    let buffer = (DATA / PAGE) + u64::from(number % 128);
                    let ring = (features == plain()).then_some(used / PAGE);
                    for page in [Some(buffer), ring].into_iter().flatten() {
                        wait_for(&format!("page {page:#x} as it is at last, in round {number}"), || {
                            let there = memory.read(page * PAGE, PAGE as usize);
                            (copied.lock().unwrap().get(&page) == Some(&there)).then_some(())
                        });
                    }
                }
                drop(end);
                destination.join().unwrap()
            });
            println!(
                "{ROUNDS} frames; the log was taken {passes} times, {} pages",
                copied.lock().unwrap().len()
            );
        });
    }
    scene.end();
}
