//! A hostile guest's memory: a file that is shared, and that is written by system calls without being mapped here.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

/// The size of the memory in bytes.
pub const BYTES: u64 = 1 << 20;
/// The start of the memory in guest-physical addresses.
pub const GUEST: u64 = 0x4000_0000;
/// The start of the memory in front-end addresses.
pub const USER: u64 = 0x7f00_0000_0000;
/// The offset of buffers and indirect tables.
pub const DATA: u64 = 0x4_0000;
/// The number of a ring's descriptors.
pub const SIZE: u16 = 256;
/// Bytes between two rings.
const STRIDE: u64 = 0x1_0000;

/// Offsets of a ring's three areas (VIRTIO 1.3 §2.7, §2.8): descriptors, driver area, device area.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    pub descriptors: u64,
    pub driver: u64,
    pub device: u64,
}

impl Ring {
    /// The areas of the queue with this index.
    pub fn of(index: u32) -> Self {
        let base = STRIDE * u64::from(index);
        Ring { descriptors: base, driver: base + 0x2000, device: base + 0x4000 }
    }
}

/// The memory's file (memfd).
pub struct Memory(File);

impl Memory {
    /// Makes a memfd of [`BYTES`] bytes, all zero.
    ///
    /// # Errors
    /// `memfd_create` or `ftruncate` is refused: too many open files, or too little memory.
    pub fn new() -> io::Result<Self> {
        let file = File::from(memfd_create("torture", MemfdFlags::CLOEXEC)?);
        file.set_len(BYTES)?;
        Ok(Memory(file))
    }

    /// The file, to be shared.
    pub fn file(&self) -> &File {
        &self.0
    }

    /// Writes at an offset in bytes. Bytes beyond [`BYTES`] are left out.
    ///
    /// # Errors
    /// The write is refused: no memory for the pages.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let room = BYTES.saturating_sub(offset) as usize;
        self.0.write_all_at(&bytes[..bytes.len().min(room)], offset)
    }

    /// Reads a little-endian 16-bit number at an offset in bytes.
    ///
    /// # Errors
    /// The file ends before the number does.
    pub fn read_u16(&self, offset: u64) -> io::Result<u16> {
        let mut bytes = [0; 2];
        self.0.read_exact_at(&mut bytes, offset)?;
        Ok(u16::from_le_bytes(bytes))
    }

    /// Sets the file's length in bytes: truncates it, or restores its length.
    ///
    /// # Errors
    /// `ftruncate` is refused: too little memory, or a limit on the size of files.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }
}
