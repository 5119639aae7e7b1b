//! Memory that this process and a guest share: QEMU's `ivshmem-plain` (QEMU, docs/specs/ivshmem-spec.rst). In the
//! guest this memory is BAR 2 of a PCI device.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

/// A memory file, for QEMU to inherit.
#[derive(Clone, Debug)]
pub struct SharedMemory {
    memory: Arc<File>,
    bytes: u64,
}

impl SharedMemory {
    /// Shares all of a memory file. The file's size must be a power of two and at least a page, like the size of
    /// every BAR.
    ///
    /// # Errors
    /// The file has another size.
    pub fn new(memory: File) -> io::Result<Self> {
        let bytes = memory.metadata()?.len();
        if !bytes.is_power_of_two() || bytes < 4096 {
            let text = format!("{bytes} bytes; a device's memory is a power of two from 4096 on");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(SharedMemory { memory: Arc::new(memory), bytes })
    }

    /// QEMU's arguments for the memory; QEMU must inherit [`SharedMemory::as_fd`].
    pub fn arguments(&self) -> [String; 4] {
        let (descriptor, bytes) = (self.memory.as_raw_fd(), self.bytes);
        [
            "-object".into(),
            format!(
                "memory-backend-file,id=shared,share=on,size={bytes},mem-path=/proc/self/fd/{descriptor}"
            ),
            "-device".into(),
            "ivshmem-plain,memdev=shared".into(),
        ]
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}
