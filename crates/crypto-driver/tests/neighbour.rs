//! Two devices of one process: one thread serves both, and what a driver of one may ask for holds up the other's.
//!
//! Both drivers take their turns on that thread, between two rounds of it. A latency is counted in rounds and in
//! requests of the other driver, so that nothing here depends on how busy the machine is.
use std::path::PathBuf;
use std::sync::mpsc;

use crypto_device::{Library, Limits, Port};
use crypto_driver::{Completed, Driver, Options, request};
use virtio::crypto::{Cipher, Status};

/// The longest data that fits the limit of a request. Its work takes half a millisecond at least.
const LONG: usize = (1 << 20) - 256;
const SHORT: usize = 16;
/// Requests that the driver of long ones has under way at once.
const SLOTS: u16 = 24;
/// A turn is a millisecond: on the fastest machine the third of the longest requests ends it.
const MOST_IN_A_TURN: usize = 3;
const REQUESTS: usize = 20;

/// A driver with the same request in each slot.
struct Requests {
    driver: Driver,
    expected: Vec<u8>,
    /// Requests that are to be submitted.
    idle: Vec<u16>,
    under_way: usize,
}

impl Requests {
    fn connect(path: PathBuf, slots: u16, bytes: usize) -> Self {
        let options = Options {
            slots,
            request_bytes: bytes + 256,
            result_bytes: bytes + 256,
            patience: std::time::Duration::from_secs(60),
            ..Options::new(path)
        };
        let mut driver = Driver::connect(&options).unwrap();
        let setup = request::cipher_session(Cipher::AesCbc, &[7; 32]);
        let session = driver.create(&setup).unwrap();
        let mut expected = vec![2; bytes];
        let request = request::cipher(session, true, &[1; 16], &expected);
        Library::new(&setup).unwrap().cipher_in_place(true, &[1; 16], &mut expected).unwrap();
        (0..slots).for_each(|slot| driver.prepare(slot, &request, bytes).unwrap());
        Self { driver, expected, idle: (0..slots).collect(), under_way: 0 }
    }

    fn submit(&mut self) {
        self.under_way += self.idle.len();
        self.driver.submit(self.idle.drain(..)).unwrap();
    }

    /// How many have come back, all of them right.
    fn take(&mut self) -> usize {
        let mut completed = Vec::new();
        self.driver.take(&mut completed).unwrap();
        for Completed { slot, status, .. } in &completed {
            assert_eq!((*status, self.driver.result(*slot) == self.expected), (Status::Ok, true));
            self.idle.push(*slot);
        }
        self.under_way -= completed.len();
        completed.len()
    }
}

/// What was counted from each submission of the neighbour to its completion.
#[derive(Debug, PartialEq, Eq)]
struct Latencies {
    rounds: Vec<usize>,
    /// Requests of the other driver that came back meanwhile.
    others: Vec<usize>,
}

/// Serves both devices on this thread until the neighbour has had so many requests and nothing is under way.
fn latencies(is_loaded: bool) -> Latencies {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let ports = ["hostile", "neighbour"].map(|name| Port {
        name: name.into(),
        path: path(name),
        limits: Limits::default(),
    });
    let (paths, (served, is_served)) = ([path("hostile"), path("neighbour")], mpsc::channel::<()>());
    let mut connecting = Some(std::thread::spawn(move || {
        // Sockets are there when the other end is dropped.
        let _ = is_served.recv();
        let [hostile, neighbour] = paths;
        [Requests::connect(hostile, SLOTS, LONG), Requests::connect(neighbour, 1, SHORT)]
    }));
    let (mut served, mut drivers): (_, Option<[Requests; 2]>) = (Some(served), None);
    let (mut seen, mut rounds, mut others) = (Latencies { rounds: vec![], others: vec![] }, 0, 0);
    let between_rounds = || {
        served.take();
        let Some([hostile, neighbour]) = &mut drivers else {
            drivers = connecting.take_if(|thread| thread.is_finished()).map(|thread| thread.join().unwrap());
            return true;
        };
        rounds += 1;
        others += hostile.take();
        if neighbour.take() == 1 {
            seen.rounds.push(rounds);
            seen.others.push(others);
        }
        let is_over = seen.rounds.len() == REQUESTS;
        if !is_over {
            if !neighbour.idle.is_empty() {
                (rounds, others) = (0, 0);
                neighbour.submit();
            }
            if is_loaded {
                hostile.submit();
            }
        }
        !is_over || hostile.under_way > 0
    };
    crypto_device::run(&ports, |line| eprintln!("{line}"), between_rounds).unwrap();
    seen
}

/// A burst of eight, all served before the turn is looked at, would be eight requests on any machine.
#[test]
fn beside_the_longest_requests_a_neighbour_waits_for_a_turn_and_one_of_them() {
    let (alone, beside) = (latencies(false), latencies(true));
    println!("alone: {alone:?}\nbeside {SLOTS} long requests: {beside:?}");
    assert_eq!(alone, Latencies { rounds: vec![1; REQUESTS], others: vec![0; REQUESTS] });
    assert_eq!(beside.rounds, alone.rounds);
    assert!(beside.others.iter().all(|others| (1..=MOST_IN_A_TURN).contains(others)), "{:?}", beside.others);
}
