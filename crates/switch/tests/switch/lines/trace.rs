//! The accesses of a program's threads, as valgrind's lackey prints them.
//!
//! lackey names no thread. The stack in which an access lies does, and threads run in turns of many instructions. What
//! lies between the last access to one stack and the first access to another may be either thread's, and is left out.
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::BufRead;
use std::mem::take;
use std::sync::mpsc::Receiver;

use serde::{Deserialize, Serialize};

/// Bytes of a cache line.
const LINE_BYTES: u64 = 64;
/// How far a thread's stack is in use below and above the known address.
pub const STACK_BELOW: u64 = 1 << 20;
const STACK_ABOVE: u64 = 16 << 10;

/// The addresses by which a trace is understood.
#[derive(Debug, Serialize, Deserialize)]
pub struct Addresses {
    /// Written before and after the accesses that count.
    pub mark: u64,
    /// Written by a worker before each burst.
    pub pass: u64,
    /// Written by a worker for each frame of a burst.
    pub frame: u64,
    /// An address in the stack of each worker.
    pub workers: Vec<u64>,
    /// An address in the stack of each other thread.
    pub others: Vec<u64>,
}

impl Addresses {
    /// The number of the thread with this address in its stack: workers come first.
    fn thread(&self, address: u64) -> Option<usize> {
        let mut stacks = self.workers.iter().chain(&self.others);
        stacks.position(|at| (at - STACK_BELOW..at + STACK_ABOVE).contains(&address))
    }
}

/// One access.
#[derive(Clone, Copy)]
enum Access {
    Instruction(u64),
    Read(u64),
    Write(u64),
}

fn parse(line: &[u8]) -> Option<Access> {
    let (kind, rest) = line.split_at_checked(3)?;
    let end = rest.iter().position(|byte| *byte == b',')?;
    let address = u64::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?, 16).ok()?;
    match kind {
        b"I  " => Some(Access::Instruction(address)),
        b" L " => Some(Access::Read(address)),
        b" S " | b" M " => Some(Access::Write(address)),
        _ => None,
    }
}

/// The present pass of one worker.
#[derive(Clone, Copy, Default)]
struct Pass {
    instructions: u64,
    frames: u64,
}

/// What one worker wrote to a line.
#[derive(Clone, Copy, Default)]
struct Writes {
    count: u64,
    /// The address of the last instruction that wrote.
    instruction: u64,
}

/// A line that several workers wrote.
pub struct SharedLine<'a> {
    line: u64,
    by: &'a BTreeMap<usize, Writes>,
}

impl fmt::Display for SharedLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {:#x}, written by", self.line * LINE_BYTES)?;
        self.by.iter().try_for_each(|(worker, Writes { count, instruction })| {
            write!(f, " worker {worker} {count} times at {instruction:#x}")
        })
    }
}

/// What the workers did between the two marks.
#[derive(Default)]
pub struct Trace {
    /// All frames.
    pub frames: u64,
    /// Frames whose worker is known: a turn that ends between a frame's mark and the next access to a stack hides it.
    pub placed: u64,
    /// Of the passes of those frames.
    instructions: u64,
    /// The workers of those frames.
    moved_by: BTreeSet<usize>,
    /// For each line, the workers that wrote it.
    writers: BTreeMap<u64, BTreeMap<usize, Writes>>,
}

impl Trace {
    /// Reads all accesses. Those before the addresses are known are dropped.
    pub fn read(mut from: impl BufRead, known: &Receiver<Addresses>) -> Self {
        let mut addresses = None;
        let mut line = Vec::new();
        while addresses.is_none() {
            let bytes = from.fill_buf().unwrap().len();
            assert!(bytes > 0, "ended before it began");
            // The addresses are sent before the program goes on to the first mark. Bytes that came before they were sent
            // hold no mark and may be dropped; the bytes of this read may have come after.
            addresses = known.try_recv().ok();
            if addresses.is_none() {
                from.consume(bytes);
            }
        }
        let mut reader = Reader::new(addresses.unwrap());
        while from.read_until(b'\n', &mut line).unwrap() > 0 {
            if let Some(access) = parse(&line) {
                reader.read(access);
            }
            line.clear();
        }
        assert_eq!(reader.marks, 2);
        // Passes that had not ended at the second mark: a worker may wait long for its turn under valgrind.
        (0..reader.passes.len()).for_each(|worker| reader.end_pass(worker));
        reader.trace
    }

    /// The mean over all passes with frames.
    pub fn instructions_per_frame(&self) -> f64 {
        self.instructions as f64 / self.placed as f64
    }

    /// The number of workers that moved frames.
    pub fn workers(&self) -> usize {
        self.moved_by.len()
    }

    /// The number of lines that workers wrote.
    pub fn lines(&self) -> usize {
        self.writers.len()
    }

    /// The lines that at least two workers wrote, at least `times` times each.
    pub fn shared(&self, times: u64) -> impl Iterator<Item = SharedLine<'_>> {
        let by_several = move |by: &BTreeMap<usize, Writes>| {
            by.values().filter(|writes| writes.count >= times).count() > 1
        };
        let lines = self.writers.iter().filter(move |(_, by)| by_several(by));
        lines.map(|(line, by)| SharedLine { line: *line, by })
    }
}

struct Reader {
    addresses: Addresses,
    marks: u32,
    thread: Option<usize>,
    /// Since the last access to a stack.
    pending: Vec<Access>,
    instruction: u64,
    passes: Vec<Pass>,
    trace: Trace,
}

impl Reader {
    fn new(addresses: Addresses) -> Self {
        let passes = vec![Pass::default(); addresses.workers.len()];
        Reader {
            addresses,
            marks: 0,
            thread: None,
            pending: Vec::new(),
            instruction: 0,
            passes,
            trace: Trace::default(),
        }
    }

    fn read(&mut self, access: Access) {
        let address = match access {
            Access::Instruction(_) => None,
            Access::Read(address) | Access::Write(address) => Some(address),
        };
        if matches!(access, Access::Write(address) if address == self.addresses.mark) {
            self.marks += 1;
        }
        if self.marks != 1 {
            return;
        }
        if matches!(access, Access::Write(address) if address == self.addresses.frame) {
            self.trace.frames += 1;
        }
        self.pending.push(access);
        let Some(thread) = address.and_then(|address| self.addresses.thread(address)) else { return };
        let pending = take(&mut self.pending);
        if self.thread == Some(thread) && thread < self.passes.len() {
            pending.iter().for_each(|access| self.count(thread, *access));
        }
        self.thread = Some(thread);
        self.pending = pending;
        self.pending.clear();
    }

    /// Counts the worker's present pass if it has frames.
    fn end_pass(&mut self, worker: usize) {
        let ended = take(&mut self.passes[worker]);
        if ended.frames > 0 {
            self.trace.placed += ended.frames;
            self.trace.instructions += ended.instructions;
            self.trace.moved_by.insert(worker);
        }
    }

    fn count(&mut self, worker: usize, access: Access) {
        let Addresses { pass, frame, .. } = self.addresses;
        let current = &mut self.passes[worker];
        match access {
            Access::Read(_) => {}
            Access::Instruction(at) => {
                current.instructions += 1;
                self.instruction = at;
            }
            Access::Write(address) if address == pass => self.end_pass(worker),
            Access::Write(address) if address == frame => current.frames += 1,
            Access::Write(address) => {
                let writers = self.trace.writers.entry(address / LINE_BYTES).or_default();
                let writes = writers.entry(worker).or_default();
                writes.count += 1;
                writes.instruction = self.instruction;
            }
        }
    }
}
