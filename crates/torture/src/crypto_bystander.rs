//! A correct driver of a crypto device, which submits requests with known results.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crypto_driver::bench::Algorithm;
use crypto_driver::{Driver, DriverError, Options};
use measure::Failure;
use serde::{Deserialize, Serialize};
use virtio::crypto::Status;

/// How long a request may be under way. After that it counts as lost.
const LATE: Duration = Duration::from_secs(2);
/// The pause from one request to the next.
const PAUSE: Duration = Duration::from_micros(200);
/// Bytes of a request's data.
const BYTES: u32 = 1024;

/// The counts of the bystander's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Requests submitted.
    pub sent: u64,
    /// Requests that completed with the library's result.
    pub right: u64,
    /// The longest time from submission to completion, ns.
    pub longest_ns: u64,
    /// How long requests were submitted, ns.
    pub elapsed_ns: u64,
    /// Why requests ended early, if they did.
    pub failure: Option<String>,
}

impl Requests {
    /// Whether a request failed because of hostile front-ends.
    pub fn is_disturbed(&self) -> bool {
        self.right < self.sent || self.failure.is_some()
    }
}

/// Submits requests until it is ended.
pub struct CryptoBystander {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Requests>,
}

impl CryptoBystander {
    /// Starts submitting requests to the device at this path, one at a time.
    ///
    /// # Errors
    /// The device does not listen, is no crypto device, or refuses a session of AES-GCM.
    pub fn start(path: &Path) -> Result<Self, Failure> {
        let failed = |error: DriverError| {
            let tried = format!("passing on requests beside, at {}", path.display());
            Failure::new(tried, error, "name another port of the same crypto device, or two of a switch")
        };
        let options = Options { patience: LATE, ..Options::new(path) };
        let mut driver = Driver::connect(&options).map_err(failed)?;
        let algorithm: Algorithm = "aes-128-gcm".parse().expect("it is one of those that are measured");
        let session = driver.create(&algorithm.setup()).map_err(failed)?;
        let over = Arc::<AtomicBool>::default();
        let thread = {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                let mut requests = Requests::default();
                let begin = Instant::now();
                let ended = pass_on(&mut driver, algorithm, session, &over, &mut requests);
                requests.failure = ended.err().map(|error| error.to_string());
                requests.elapsed_ns = begin.elapsed().as_nanos() as u64;
                requests
            })
        };
        Ok(Self { over, thread })
    }

    /// Stops and returns the counts of the requests.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn end(self) -> Result<Requests, Failure> {
        self.over.store(true, Ordering::Relaxed);
        let panicked = |_| {
            Failure::new("passing on requests beside", "its thread panicked", "run it again without --beside")
        };
        self.thread.join().map_err(panicked)
    }
}

fn pass_on(
    driver: &mut Driver,
    algorithm: Algorithm,
    session: u64,
    over: &AtomicBool,
    requests: &mut Requests,
) -> Result<(), DriverError> {
    let library = algorithm.library()?;
    while !over.load(Ordering::Relaxed) {
        // No two requests are alike: what belongs to another one is found.
        let data: Vec<u8> =
            (0..BYTES).map(|at| (u64::from(at) ^ requests.sent.rotate_right(at % 64)) as u8).collect();
        let (request, result_bytes) = algorithm.request(session, &data);
        let expected = library.result(&data)?;
        requests.sent += 1;
        let begin = Instant::now();
        let result = driver.run(&request, result_bytes)?;
        requests.longest_ns = requests.longest_ns.max(begin.elapsed().as_nanos() as u64);
        requests.right += u64::from(result == (Status::Ok, expected));
        thread::sleep(PAUSE);
    }
    Ok(())
}
