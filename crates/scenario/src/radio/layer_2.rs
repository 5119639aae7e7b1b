//! Layer 2's transmit side. At each tick, for each user with data, it does header compression, ciphering and
//! integrity. Then come a pass of the scheduler for each of two carriers, and segmentation to fill the grants.

use measure::Failure;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use super::header_compression::Compressor;
use super::pdcp::{Bearer, OVERHEAD, Sender};
use super::rlc::{LONGEST_HEADER, Segmenter};
use super::schedule::Scheduler;
use crate::description::Load;
use crate::work::{Middle, Out};

/// The carriers of a cell: each packet goes over both, and is therefore segmented.
const CARRIERS: usize = 2;
/// Packets of one user that wait at most; more are refused.
const LONGEST_QUEUE: usize = 16;

/// The state of one user.
struct User {
    compressor: Compressor,
    pdcp: Sender,
    rlc: Segmenter,
    /// Received packets.
    came: Vec<Vec<u8>>,
    /// Waiting PDCP PDUs. The first of them is sent up to byte `done`.
    waiting: Vec<Vec<u8>>,
    done: usize,
    scratch: Vec<u8>,
}

impl User {
    fn new(user: u32) -> Self {
        User {
            compressor: Compressor::default(),
            pdcp: Sender::new(Bearer::of_user(user)),
            rlc: Segmenter::default(),
            came: Vec::new(),
            waiting: Vec::new(),
            done: 0,
            scratch: Vec::new(),
        }
    }

    /// Makes PDUs from packets.
    fn protect(&mut self) {
        for packet in self.came.drain(..) {
            self.scratch.clear();
            self.compressor.compress(&packet, &mut self.scratch);
            let mut pdu = Vec::with_capacity(self.scratch.len() + OVERHEAD);
            self.pdcp.protect(&self.scratch, &mut pdu);
            self.waiting.push(pdu);
        }
    }

    /// Bytes that it would send now, with one header each.
    fn wanted(&self) -> u32 {
        let bytes: usize = self.waiting.iter().map(|pdu| pdu.len() + LONGEST_HEADER).sum();
        (bytes - self.done) as u32
    }

    /// Sends what fits.
    fn send(&mut self, user: u32, mut grant: usize, out: &mut Out<'_>) {
        while let Some(pdu) = self.waiting.first() {
            let Some(segment) = self.rlc.next(pdu.len(), self.done, grant) else { return };
            self.scratch.clear();
            self.scratch.extend_from_slice(segment.header());
            self.scratch.extend_from_slice(&pdu[segment.from..segment.to]);
            out(user, &self.scratch);
            grant -= self.scratch.len();
            self.done = segment.to;
            if segment.to == pdu.len() {
                self.waiting.remove(0);
                self.done = 0;
            }
        }
    }
}

pub(crate) struct Layer2 {
    users: Vec<User>,
    users_of_cell: usize,
    /// The schedulers of all cells.
    schedulers: Vec<Scheduler>,
    pool: Option<ThreadPool>,
    refused: u64,
}

impl Layer2 {
    /// Layer 2 for the cells and users of a load.
    ///
    /// # Errors
    /// The threads of the load's workers cannot be started.
    pub fn new(load: &Load) -> Result<Self, Failure> {
        let users_of_cell = load.users as usize;
        // A cell has room for all data of its users, on each carrier, because the search is for the computer's limit.
        let capacity = load.users.saturating_mul(load.bytes + 256);
        let pool = match load.workers {
            1 => None,
            workers => {
                Some(ThreadPoolBuilder::new().num_threads(workers as usize).build().map_err(|error| {
                    Failure::new(
                        format!("starting {workers} workers of layer 2"),
                        error,
                        "ask for fewer workers",
                    )
                })?)
            }
        };
        Ok(Layer2 {
            users: (0..load.all_users()).map(User::new).collect(),
            users_of_cell,
            schedulers: (0..load.cells)
                .map(|cell| Scheduler::new(users_of_cell, capacity, cell + 1))
                .collect(),
            pool,
            refused: 0,
        })
    }
}

impl Middle for Layer2 {
    fn take(&mut self, user: u32, bytes: &[u8], _: &mut Out<'_>) {
        match self.users.get_mut(user as usize) {
            Some(user) if user.came.len() + user.waiting.len() < LONGEST_QUEUE => {
                user.came.push(bytes.to_vec())
            }
            _ => self.refused += 1,
        }
    }

    fn finish(&mut self, out: &mut Out<'_>) {
        match &self.pool {
            None => self.users.iter_mut().for_each(User::protect),
            Some(pool) => pool.install(|| self.users.par_iter_mut().for_each(User::protect)),
        }
        let cells = self.users.chunks_mut(self.users_of_cell).zip(&mut self.schedulers);
        for (cell, (users, scheduler)) in cells.enumerate() {
            for carriers_left in (1..=CARRIERS as u32).rev() {
                let wanted: Vec<u32> =
                    users.iter().map(|user| user.wanted().div_ceil(carriers_left)).collect();
                let mut grants = vec![0; users.len()];
                scheduler.pass(&wanted, &mut grants);
                for (at, (user, grant)) in users.iter_mut().zip(grants).enumerate() {
                    user.send((cell * self.users_of_cell + at) as u32, grant as usize, out);
                }
            }
        }
    }

    fn refused(&self) -> u64 {
        self.refused
    }
}
