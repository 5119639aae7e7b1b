//! Load that the agent itself generates, at normal priority. The load ends with the agent's process.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use linux::interface::Interface;
use measure::Failure;
use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use crate::opaque::hide_u64;
use crate::pin::pin_to;

/// The kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Arithmetic in registers.
    Cpu,
    /// Copies between arrays that are larger than a CPU's caches.
    Memory,
    /// Writes, syncs and reads of a file in memory: the kernel's side of I/O, which is the same in every environment
    /// whatever its disks.
    Io,
    /// Datagrams in both directions over the loopback device: the kernel's network stack with its soft interrupts.
    Network,
}

/// The length of each of the two arrays that are copied.
const ARRAY_WORDS: usize = (16 << 20) / size_of::<u64>();
const FILE_BYTES: usize = 1 << 20;
const BLOCK_BYTES: usize = 64 << 10;
/// Each way in a turn, of an Ethernet frame's payload: fewer than a socket's buffer holds.
const DATAGRAMS: usize = 32;
const DATAGRAM_BYTES: usize = 1472;

/// How long starting a thread may take.
const START: Duration = Duration::from_secs(10);

impl Load {
    /// Starts a thread on a CPU that generates the load until the process ends; returns when the thread has begun its
    /// work.
    ///
    /// # Errors
    /// The thread cannot be started or pinned to the CPU, its memory, file or sockets are refused, or it has not
    /// begun its work after 10 s.
    pub fn start(self, cpu: usize) -> Result<(), Failure> {
        let (started, awaited) = sync_channel(1);
        let failed = |answer: String| {
            Failure::new("starting load beside a timer", answer, "allow the agent threads and memory")
        };
        let work = move || {
            let set_up = pin_to(cpu).and_then(|()| self.set_up().map_err(|error| failed(error.to_string())));
            match set_up {
                Ok(mut turn) => {
                    let _ = started.send(Ok(()));
                    loop {
                        turn();
                    }
                }
                Err(failure) => drop(started.send(Err(failure))),
            }
        };
        thread::Builder::new().spawn(work).map_err(|error| failed(error.to_string()))?;
        awaited.recv_timeout(START).unwrap_or_else(|error| Err(failed(error.to_string())))
    }

    /// One turn of the load, to be repeated for ever.
    fn set_up(self) -> std::io::Result<Box<dyn FnMut()>> {
        match self {
            Load::Cpu => {
                let mut state = 0x9e37_79b9_7f4a_7c15_u64;
                Ok(Box::new(move || {
                    for _ in 0..100_000 {
                        state = hide_u64(state.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ state >> 31);
                    }
                }))
            }
            Load::Memory => {
                let (source, mut target) = (vec![1u64; ARRAY_WORDS], vec![0u64; ARRAY_WORDS]);
                Ok(Box::new(move || {
                    let unchanged = hide_u64(0);
                    for (to, from) in target.iter_mut().zip(&source) {
                        *to = *from ^ unchanged;
                    }
                    hide_u64(target[ARRAY_WORDS / 2]);
                }))
            }
            Load::Io => {
                let mut file = File::from(memfd_create("tautline-load", MemfdFlags::CLOEXEC)?);
                let mut block = vec![7u8; BLOCK_BYTES];
                // A failure in a later turn would not be reported, so the first turn is made here.
                io_turn(&mut file, &mut block)?;
                Ok(Box::new(move || _ = io_turn(&mut file, &mut block)))
            }
            Load::Network => {
                let sockets = datagram_pair()?;
                let mut block = [7u8; DATAGRAM_BYTES];
                network_turn(&sockets, &mut block)?;
                Ok(Box::new(move || _ = network_turn(&sockets, &mut block)))
            }
        }
    }
}

fn datagram_pair() -> std::io::Result<[UdpSocket; 2]> {
    // The interface `lo` is down in a guest that has just booted. A refusal shows in the first turn.
    let _ = Interface::named("lo").and_then(|lo| lo.set_up());
    let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let pair = [open()?, open()?];
    for (one, other) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
        one.connect(other.local_addr()?)?;
        // A datagram that is lost must not end the load.
        one.set_read_timeout(Some(Duration::from_millis(10)))?;
    }
    Ok(pair)
}

fn network_turn([one, other]: &[UdpSocket; 2], block: &mut [u8; DATAGRAM_BYTES]) -> std::io::Result<()> {
    for (from, to) in [(one, other), (other, one)] {
        for _ in 0..DATAGRAMS {
            from.send(block)?;
        }
        for _ in 0..DATAGRAMS {
            to.recv(block)?;
        }
    }
    Ok(())
}

fn io_turn(file: &mut File, block: &mut [u8]) -> std::io::Result<()> {
    file.rewind()?;
    for _ in 0..FILE_BYTES / BLOCK_BYTES {
        file.write_all(block)?;
    }
    file.sync_data()?;
    file.rewind()?;
    for _ in 0..FILE_BYTES / BLOCK_BYTES {
        file.read_exact(block)?;
    }
    Ok(())
}
