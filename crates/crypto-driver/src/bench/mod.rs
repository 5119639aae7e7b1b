//! Operations a second and latencies of a device, compared with direct calls of the library, in turns.
mod algorithms;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use measure::bootstrap::{self, RatioEstimate};
use measure::window::{Window, disturbance};
use measure::{Histogram, statistics};
use serde::{Deserialize, Serialize};
use virtio::Features;
use virtio::crypto::Status;

pub use crate::connect::MOST_SLOTS;
use crate::{Completed, Driver, DriverError, Options};
pub use algorithms::{Algorithm, Work};

/// Trials of the library read the clock after this many bytes: reading it costs as much as enciphering a few dozen
/// bytes.
const BYTES_A_LOOK: usize = 1 << 16;

/// Reads the socket of a device: `virtio-user:PATH`.
///
/// # Errors
/// The text names no such socket.
pub fn target(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("virtio-user:").filter(|path| !path.is_empty());
    path.map(PathBuf::from).ok_or("name a device as virtio-user:PATH".to_owned())
}

/// Reads the size of a request's data in bytes. The longest request that a device takes is 1 MiB with all that belongs
/// to it.
///
/// # Errors
/// The text is no multiple of 16 from 16 to 524288.
pub fn size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size| (16..=1 << 19).contains(size) && size % 16 == 0);
    size.ok_or("a multiple of 16 from 16 to 524288 is needed".to_owned())
}

/// The measurement to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// The socket of the device.
    pub path: PathBuf,
    /// The algorithms.
    pub algorithms: Vec<Algorithm>,
    /// Bytes of a request's data.
    pub sizes: Vec<u32>,
    /// Requests that are outstanding at once. Each size is also measured with one.
    pub depth: u16,
    /// Packed rings.
    pub packed: bool,
    /// The number of blocks, for each algorithm and size.
    pub blocks: u32,
    /// Length of a trial; a block has three.
    pub trial: Duration,
    /// The longest time that the device may take for one request.
    pub patience: Duration,
}

/// The results of one algorithm and size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the algorithm.
    pub algorithm: String,
    /// Bytes of a request's data.
    pub bytes: u32,
    /// The blocks in the order in which they were measured.
    pub blocks: Vec<Block>,
    /// The time from submission to completion with one outstanding request.
    pub alone: Histogram,
    /// The time from submission to completion with all requests outstanding.
    pub deep: Histogram,
}

/// Three trials, one after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Operations a second of the library.
    pub library_per_s: f64,
    /// Operations a second of the device with one outstanding request.
    pub alone_per_s: f64,
    /// Operations a second of the device with all requests outstanding.
    pub device_per_s: f64,
    /// Other work of the machine during the block, if it was substantial.
    pub disturbance: Option<String>,
}

impl Row {
    /// The median of a figure over the blocks.
    pub fn median(&self, of: impl Fn(&Block) -> f64) -> f64 {
        statistics::median(&self.blocks.iter().map(of).collect::<Vec<_>>()).unwrap_or(f64::NAN)
    }

    /// The device's operations a second, divided by the library's.
    pub fn throughput(&self) -> Option<RatioEstimate> {
        self.ratio(|block| block.device_per_s)
    }

    /// The device's operations a second with one outstanding request, divided by the library's.
    pub fn throughput_alone(&self) -> Option<RatioEstimate> {
        self.ratio(|block| block.alone_per_s)
    }

    fn ratio(&self, of: impl Fn(&Block) -> f64) -> Option<RatioEstimate> {
        let blocks = self.blocks.iter();
        let blocks =
            blocks.map(|block| bootstrap::Block { base: vec![block.library_per_s], other: vec![of(block)] });
        bootstrap::ratio(&blocks.collect::<Vec<_>>())
    }
}

/// Called before each measurement with the algorithm's name and the bytes of a request. It can end the run by
/// [`ControlFlow::Break`].
pub type Next<'a> = dyn FnMut(&str, u32) -> ControlFlow<()> + 'a;

/// Measures everything, or until `next` ends the run.
///
/// # Errors
/// The device cannot be connected to, fails, or returns another result than the library.
pub fn run(job: &Job, next: &mut Next<'_>) -> Result<Vec<Row>, DriverError> {
    let longest = job.sizes.iter().copied().max().unwrap_or(0) as usize + Algorithm::overhead_bytes();
    let mut options = Options::new(&job.path);
    options.slots = job.depth;
    (options.request_bytes, options.result_bytes) = (longest, longest);
    options.patience = job.patience;
    if job.packed {
        options.ring = options.ring.union(Features::RING_PACKED);
    }
    let mut driver = Driver::connect(&options)?;
    let mut rows = Vec::new();
    for algorithm in &job.algorithms {
        let session = driver.create(&algorithm.setup())?;
        for bytes in &job.sizes {
            let (row, flow) = row(job, &mut driver, algorithm, session, *bytes, next)?;
            if !row.blocks.is_empty() {
                rows.push(row);
            }
            if flow.is_break() {
                return Ok(rows);
            }
        }
        driver.close(session)?;
    }
    Ok(rows)
}

fn row(
    job: &Job,
    driver: &mut Driver,
    algorithm: &Algorithm,
    session: u64,
    bytes: u32,
    next: &mut Next<'_>,
) -> Result<(Row, ControlFlow<()>), DriverError> {
    let mut data: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
    let work = algorithm.library()?;
    let what = || format!("{} of {bytes} bytes", algorithm.name);
    let (request, result_bytes) = algorithm.request(session, &data);
    let expected = work.result(&data)?;
    let (status, result) = driver.run(&request, result_bytes)?;
    if status != Status::Ok {
        return Err(DriverError::Failed { what: what(), status });
    }
    if result != expected {
        return Err(DriverError::Wrong(what()));
    }
    for slot in 0..job.depth {
        driver.prepare(slot, &request, result_bytes)?;
    }
    let mut row = Row {
        algorithm: algorithm.name.to_owned(),
        bytes,
        blocks: Vec::new(),
        alone: Histogram::new(),
        deep: Histogram::new(),
    };
    // The first operations, with cold caches, belong to no block.
    library(&work, &mut data, job.trial / 4)?;
    device(driver, job.depth, job.trial / 4, &mut Histogram::new(), &what)?;
    for number in 0..job.blocks {
        if next(algorithm.name, bytes).is_break() {
            return Ok((row, ControlFlow::Break(())));
        }
        let window = Window::start(driver.processes());
        let mut block = Block { library_per_s: 0.0, alone_per_s: 0.0, device_per_s: 0.0, disturbance: None };
        // Every other block runs backwards: a drift of the machine within a block then cancels out.
        let mut order = [0, 1, 2];
        if number % 2 == 1 {
            order.reverse();
        }
        for which in order {
            match which {
                0 => block.library_per_s = library(&work, &mut data, job.trial)?,
                1 => block.alone_per_s = device(driver, 1, job.trial, &mut row.alone, &what)?,
                _ => block.device_per_s = device(driver, job.depth, job.trial, &mut row.deep, &what)?,
            }
        }
        let (length, noise) = window.finish();
        block.disturbance = disturbance(length, &noise);
        row.blocks.push(block);
    }
    if driver.result(0) != expected {
        return Err(DriverError::Wrong(what()));
    }
    Ok((row, ControlFlow::Continue(())))
}

/// Operations a second of the library.
fn library(work: &Work, data: &mut [u8], time: Duration) -> Result<f64, DriverError> {
    let operations_a_look = (BYTES_A_LOOK / data.len().max(1)).max(1);
    let (begin, mut operations) = (Instant::now(), 0u64);
    loop {
        for _ in 0..operations_a_look {
            work.once(data)?;
        }
        operations += operations_a_look as u64;
        let elapsed = begin.elapsed();
        if elapsed >= time {
            return Ok(operations as f64 / elapsed.as_secs_f64());
        }
    }
}

/// Operations a second of the device with this many requests under way; their latencies are added to the histogram.
fn device(
    driver: &mut Driver,
    depth: u16,
    time: Duration,
    latency: &mut Histogram,
    what: &dyn Fn() -> String,
) -> Result<f64, DriverError> {
    let begin = Instant::now();
    let mut submitted = [begin; MOST_SLOTS as usize];
    let (mut operations, mut under_way) = (0u64, depth);
    let mut completed: Vec<Completed> = Vec::with_capacity(depth.into());
    driver.submit(0..depth)?;
    while under_way > 0 {
        completed.clear();
        driver.wait(&mut completed)?;
        let now = Instant::now();
        for Completed { slot, status, .. } in &completed {
            if *status != Status::Ok {
                return Err(DriverError::Failed { what: what(), status: *status });
            }
            latency.record_ns((now - submitted[usize::from(*slot)]).as_nanos() as u64);
            submitted[usize::from(*slot)] = now;
        }
        operations += completed.len() as u64;
        if now - begin < time {
            driver.submit(completed.iter().map(|completed| completed.slot))?;
        } else {
            under_way -= completed.len() as u16;
        }
    }
    Ok(operations as f64 / begin.elapsed().as_secs_f64())
}
