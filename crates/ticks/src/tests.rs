//! Both ends in one process.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use measure::Failure;

use crate::page::Step;
use crate::receiver::{self, Received, Wait};
use crate::source::{self, Sent};
use crate::{Page, Record, TICKS_KEPT, Tick, doorbell};

fn source_plan(ticks: u64) -> source::Plan {
    let (interval, spin) = (Duration::from_millis(1), Duration::from_micros(50));
    source::Plan { interval, ticks, spin, cpu: None, priority: None }
}

fn receiver_plan(wait: Wait) -> receiver::Plan {
    let (interval_ns, budget_ns) = (1_000_000, 1_000_000_000);
    receiver::Plan {
        wait,
        priority: None,
        interval_ns,
        budget_ns,
        hints: false,
        work_ns: 0,
        silence_ms: 10_000,
    }
}

/// Runs both ends over a real socket, with that many ticks.
fn both(ticks: u64, wait: Wait) -> (Result<Sent, Failure>, Result<Received, Failure>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ticks");
    let server = doorbell::Server::listen(&path, crate::PAGE_BYTES, 1).unwrap();
    let page = Page::map(server.memory()).unwrap();
    let receiver = thread::spawn(move || {
        let (memory, interrupts) = doorbell::connect(&path, 1, Duration::from_secs(5)).unwrap();
        receiver::run(&Page::map(memory).unwrap(), &interrupts[0], None, &receiver_plan(wait))
    });
    let bell = server.accept(Duration::from_secs(5)).unwrap();
    let sent = source::run(&page, &source_plan(ticks), &|| bell.ring(0), &|| false);
    (sent, receiver.join().unwrap())
}

#[test]
fn every_number_is_seen_once_by_each_way() {
    for wait in [Wait::Interrupt, Wait::Poll, Wait::Timer] {
        let (sent, received) = both(200, wait);
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!((sent.ticks, received.ticks, received.lost), (200, 200, 0), "{wait:?}");
        assert_eq!((sent.lateness.count(), received.from_due.count()), (200, 200));
        assert_eq!(received.before_sent, 0, "no tick arrives before it was sent");
        assert_eq!(received.late, 0, "of a budget of a second");
        // Wake-ups with a tick, the end's own, and those that were merged into others.
        assert!(received.wake_ups + received.coalesced >= 200, "{received:?}");
        assert!(received.worst.0 >= 1 && received.from_due.max_ns() >= received.worst.1 + received.worst.2);
    }
}

/// One clock on both ends: the method must find that the offset is nothing, within the error that it states.
#[test]
fn the_alignment_of_a_clock_with_itself_is_nothing_within_its_error() {
    let received = both(5, Wait::Interrupt).1.unwrap();
    for alignment in [received.alignments.before, received.alignments.after] {
        assert!(alignment.offset_ns.unsigned_abs() <= alignment.error_ns, "{alignment:?}");
        assert!(alignment.error_ns < 100_000_000, "{alignment:?}");
    }
}

fn page() -> Page {
    let memory = rustix::fs::memfd_create("ticks", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&memory, crate::PAGE_BYTES).unwrap();
    Page::map(memory.as_fd()).unwrap()
}

/// 904 more than are kept.
const LAST: u64 = TICKS_KEPT as u64 + 904;

#[test]
fn what_the_receivers_kernel_did_comes_along() {
    let page = page();
    assert!(page.handlers().is_empty());
    page.set_handlers(&[5, 6, 7]);
    assert_eq!(page.handlers(), [5, 6, 7]);
    page.set_handlers(&vec![1; TICKS_KEPT + 1]);
    assert_eq!(page.handlers().len(), TICKS_KEPT);
}

#[test]
fn ticks_that_were_overwritten_are_lost_and_no_others() {
    let page = page();
    assert_eq!((page.latest(), page.tick(1)), (0, None));
    let tick = |number| Tick { number, due_ns: number * 10, sent_ns: number * 10 + 1 };
    (1..=LAST).for_each(|number| page.put(tick(number)));
    assert_eq!(page.latest(), LAST);
    assert_eq!((page.tick(904), page.tick(905), page.tick(LAST)), (None, Some(tick(905)), Some(tick(LAST))));
    assert_eq!(page.tick(LAST + 1), None);
    assert_eq!(page.record(LAST), None, "nobody has received it");
    page.set_received(LAST, 3, 4);
    assert_eq!(page.record(LAST), Some(Record { tick: tick(LAST), received_ns: 3, done_ns: 4 }));
    page.put(Tick { number: LAST + TICKS_KEPT as u64, ..tick(LAST) });
    assert_eq!(page.record(LAST + TICKS_KEPT as u64), None, "the one before was received");
}

/// Runs `source` by hand for a receiver that is ready, and returns the receiver's counts.
fn received_by_hand(plan: receiver::Plan, source: impl FnOnce(&Page, &dyn Fn())) -> receiver::Received {
    let memory = rustix::fs::memfd_create("ticks", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&memory, crate::PAGE_BYTES).unwrap();
    let (page, theirs) = (Page::map(memory.as_fd()).unwrap(), Page::map(memory.as_fd()).unwrap());
    let interrupt = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
    let ours = interrupt.try_clone().unwrap();
    let receiver = thread::spawn(move || receiver::run(&theirs, &interrupt, None, &plan));
    while !page.has_reached(Step::Ready) {
        page.exchange().answer();
    }
    source(&page, &|| _ = rustix::io::write(&ours, &1_u64.to_ne_bytes()).unwrap());
    while !receiver.is_finished() && !page.has_reached(Step::Done) {
        page.exchange().answer();
    }
    receiver.join().unwrap().unwrap()
}

/// A receiver that slept through more ticks than the page keeps says how many it never saw.
#[test]
fn a_receiver_that_was_away_counts_what_it_missed() {
    let received = received_by_hand(receiver_plan(Wait::Interrupt), |page, ring| {
        (1..=LAST).for_each(|number| page.put(Tick { number, due_ns: 1, sent_ns: 1 }));
        page.end();
        ring();
    });
    assert_eq!((received.ticks, received.lost, received.coalesced), (TICKS_KEPT as u64, 904, LAST - 1));
    assert_eq!((received.wake_ups, received.interrupts), (1, 1));
    assert_eq!(received.late, TICKS_KEPT as u64, "they were due long ago");
}

/// The receiver takes the interrupts of ticks that came during its work together with the interrupt of the tick before.
#[test]
fn what_comes_while_the_receiver_works_is_not_slept_over() {
    let plan = receiver::Plan { work_ns: 30_000_000, silence_ms: 2_000, ..receiver_plan(Wait::Interrupt) };
    let received = received_by_hand(plan, |page, ring| {
        for number in [1, 2] {
            page.put(Tick { number, due_ns: 1, sent_ns: 1 });
            ring();
            thread::sleep(std::time::Duration::from_millis(10));
        }
        page.end();
        ring();
    });
    assert_eq!((received.ticks, received.lost), (2, 0));
}

#[test]
fn a_source_that_is_silent_and_a_receiver_that_does_not_come_are_said() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let page = page();
    let plan = receiver::Plan { silence_ms: 20, ..receiver_plan(Wait::Interrupt) };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !page.has_reached(Step::Ready) {
                page.exchange().answer();
            }
        });
        let silent = receiver::run(&page, &ours.into(), None, &plan).unwrap_err().to_string();
        assert!(silent.contains("waiting for a tick"), "{silent}");
    });
    let stopped =
        source::run(&crate::tests::page(), &source_plan(1), &|| Ok(()), &|| true).unwrap_err().to_string();
    assert!(stopped.contains("waiting for the receiver"), "{stopped}");
}
