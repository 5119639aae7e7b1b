//! Memory of this process that a guest has too: QEMU's `ivshmem-plain` (QEMU, docs/specs/ivshmem-spec.rst). In the
//! guest it is the BAR 2 of a PCI device.

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
    /// All of a memory file. Its size is a power of two and at least a page, as of every BAR.
    ///
    /// # Errors
    /// It is another size, which no device has.
    pub fn new(memory: File) -> io::Result<Self> {
        let bytes = memory.metadata()?.len();
        if !bytes.is_power_of_two() || bytes < 4096 {
            let text = format!("{bytes} bytes; a device's memory is a power of two from 4096 on");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(SharedMemory { memory: Arc::new(memory), bytes })
    }

    /// For QEMU, which has to inherit [`SharedMemory::as_fd`].
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
