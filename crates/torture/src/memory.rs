//! A hostile guest's memory: the middle of a file, which is shared, and which is written by system calls without being
//! mapped here.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};

/// The size of the memory in bytes.
pub const BYTES: u64 = 1 << 20;
/// Bytes of the file in front of the memory and behind it. They are not shared, and hold [`MARK`].
pub const MARGIN: u64 = 0x1_0000;
/// What stands where no back-end may write.
const MARK: u8 = 0xa5;
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

/// The memory's file (memfd): a margin, the memory, and another margin.
pub struct Memory(File);

impl Memory {
    /// Makes a memory of [`BYTES`] bytes, all zero.
    ///
    /// # Errors
    /// `memfd_create` or `ftruncate` is refused: too many open files, or too little memory.
    pub fn new() -> io::Result<Self> {
        let file = File::from(memfd_create("torture", MemfdFlags::CLOEXEC)?);
        let memory = Memory(file);
        memory.set_len(BYTES)?;
        memory.0.write_all_at(&[MARK; MARGIN as usize], 0)?;
        Ok(memory)
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
        self.0.write_all_at(&bytes[..bytes.len().min(room)], MARGIN + offset)
    }

    /// Reads a little-endian 16-bit number at an offset in bytes.
    ///
    /// # Errors
    /// The file ends before the number does.
    pub fn read_u16(&self, offset: u64) -> io::Result<u16> {
        let mut bytes = [0; 2];
        self.0.read_exact_at(&mut bytes, MARGIN + offset)?;
        Ok(u16::from_le_bytes(bytes))
    }

    /// Fills the memory with the bytes of its margins, for memory that no back-end may write any more.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn fill(&self) -> io::Result<()> {
        self.write(0, &vec![MARK; BYTES as usize])
    }

    /// Whether the memory still holds what [`Self::fill`] wrote.
    ///
    /// # Errors
    /// The file is shorter than it was.
    pub fn is_untouched(&self) -> io::Result<bool> {
        self.is_marked(MARGIN, BYTES)
    }

    /// Whether no byte of the margins has changed.
    ///
    /// # Errors
    /// As [`Self::is_untouched`].
    pub fn has_margins(&self) -> io::Result<bool> {
        Ok(self.is_marked(0, MARGIN)? && self.is_marked(MARGIN + BYTES, MARGIN)?)
    }

    fn is_marked(&self, at: u64, bytes: u64) -> io::Result<bool> {
        let mut found = vec![0; bytes as usize];
        self.0.read_exact_at(&mut found, at)?;
        Ok(found.iter().all(|byte| *byte == MARK))
    }

    /// Sets the memory's length in bytes: truncates the file, or restores it with its second margin.
    ///
    /// # Errors
    /// `ftruncate` is refused: too little memory, or a limit on the size of files.
    pub fn set_len(&self, bytes: u64) -> io::Result<()> {
        if bytes < BYTES {
            return self.0.set_len(MARGIN + bytes);
        }
        self.0.set_len(MARGIN + BYTES + MARGIN)?;
        self.0.write_all_at(&[MARK; MARGIN as usize], MARGIN + BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_in_a_margin_and_in_withdrawn_memory_is_noticed() {
        let memory = Memory::new().unwrap();
        memory.write(0, &[1; BYTES as usize]).unwrap();
        assert!(memory.has_margins().unwrap());
        memory.fill().unwrap();
        assert!(memory.is_untouched().unwrap());
        memory.write(BYTES - 1, &[0]).unwrap();
        assert!(!memory.is_untouched().unwrap() && memory.has_margins().unwrap());
        memory.set_len(4096).unwrap();
        assert!(memory.has_margins().is_err());
        memory.set_len(BYTES).unwrap();
        assert!(memory.has_margins().unwrap());
        for at in [MARGIN - 1, MARGIN + BYTES] {
            memory.file().write_all_at(&[0], at).unwrap();
            assert!(!memory.has_margins().unwrap(), "{at:#x}");
            memory.file().write_all_at(&[MARK], at).unwrap();
        }
    }
}
