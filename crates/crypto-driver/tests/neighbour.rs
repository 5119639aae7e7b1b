//! Two devices of one process: one thread serves both, and what a driver of one may ask for holds up the other's.
//!
//! Time is counted in rounds of that thread, so that nothing here depends on how busy the machine is.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use crypto_device::{Limits, Port};
use crypto_driver::{Driver, Options, request};
use virtio::crypto::{Cipher, Status};

/// The longest data that fits the limit of a request. Its work takes half a millisecond at least.
const LONG: usize = (1 << 20) - 256;
/// Requests that are under way at once.
const SLOTS: u16 = 24;

/// A thread that serves two devices and counts its rounds.
struct Service {
    rounds: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    folder: tempfile::TempDir,
}

impl Service {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ports = ["hostile", "neighbour"].map(|name| Port {
            name: name.into(),
            path: folder.path().join(name),
            limits: Limits::default(),
        });
        let (rounds, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stop) = (Arc::clone(&rounds), Arc::clone(&over));
        let (said, listens) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut said = Some(said);
            let goes_on = || {
                // The first call: all sockets are there.
                said.take();
                count.fetch_add(1, Ordering::Relaxed);
                !stop.load(Ordering::Relaxed)
            };
            crypto_device::run(&ports, |line| eprintln!("{line}"), goes_on).unwrap();
        });
        let _: Result<(), _> = listens.recv();
        Self { rounds, over, thread: Some(thread), folder }
    }

    fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    fn driver(&self, name: &str, slots: u16, bytes: usize) -> (Driver, u64) {
        let (request_bytes, result_bytes) = (bytes + 256, bytes + 256);
        let options = Options::new(self.folder.path().join(name));
        let patience = std::time::Duration::from_secs(60);
        let options = Options { slots, request_bytes, result_bytes, patience, ..options };
        let mut driver = Driver::connect(&options).unwrap();
        let session = driver.create(&request::cipher_session(Cipher::AesCbc, &[7; 32])).unwrap();
        (driver, session)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the thread of the devices panicked");
    }
}

/// A request is served in the round that begins after its kick at the latest, so two rounds are a driver's worst latency.
/// A round takes from each other device a turn (1 ms) and the end of one request: two or three of the longest requests
/// on a fast machine, one on a slow one. A burst of eight, all served before the turn is looked at, would be eight on any machine.
#[test]
fn a_driver_of_the_longest_requests_takes_no_more_than_a_turn_and_one_of_them() {
    let service = Service::start();
    let (mut hostile, session) = service.driver("hostile", SLOTS, LONG);
    let (mut neighbour, own) = service.driver("neighbour", 1, 16);
    let request = request::cipher(session, true, &[1; 16], &vec![2; LONG]);
    for slot in 0..SLOTS {
        hostile.prepare(slot, &request, LONG).unwrap();
    }
    let small = request::cipher(own, true, &[1; 16], &[2; 16]);
    let mut completed = Vec::new();
    let before = service.rounds();
    hostile.submit(0..SLOTS).unwrap();
    let mut worst = 0;
    while completed.len() < SLOTS.into() {
        let since = service.rounds();
        assert_eq!(neighbour.run(&small, 16).unwrap().0, Status::Ok);
        worst = worst.max(service.rounds() - since);
        hostile.take(&mut completed).unwrap();
    }
    let rounds = service.rounds() - before;
    println!("{SLOTS} long requests in {rounds} rounds; the neighbour waited for {worst} at most");
    assert!(completed.iter().all(|completed| completed.status == Status::Ok));
    assert!(rounds >= u64::from(SLOTS) / 3, "{SLOTS} long requests took {rounds} rounds");
}
