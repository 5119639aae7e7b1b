//! Memory of the guest.

use std::ops::Deref;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use measure::Failure;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Size of the large pages of x86, and of arm64 with small pages of 4 KiB.
pub const HUGE: usize = 2 << 20;

/// Which pages a mapping is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 4 KiB.
    Small,
    /// Transparent huge pages, if the kernel has them.
    Huge,
}

/// Anonymous memory for a guest-physical address, not yet accessed. It is unmapped when dropped.
pub struct Memory {
    mapping: NonNull<u8>,
    mapped: usize,
    /// The first byte that is aligned to [`HUGE`].
    start: NonNull<u8>,
    size: usize,
    guest: u64,
}

// SAFETY: it owns its mapping, which no thread is bound to.
unsafe impl Send for Memory {}
// SAFETY: through a shared reference the mapping is only read and written by atomics of eight bytes.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `size` bytes for the guest-physical address `guest`. They start at a multiple of 2 MiB.
    ///
    /// # Errors
    /// `mmap` is refused: too little address space, or a limit on it.
    pub fn new(guest: u64, size: usize, pages: Pages) -> Result<Self, Failure> {
        let failed = |error: rustix::io::Errno| {
            Failure::new(
                format!("mapping {size} bytes of guest memory"),
                error,
                "free memory, or lift limits",
            )
        };
        let mapped = size.next_multiple_of(HUGE) + HUGE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let mapping =
            unsafe { mmap_anonymous(null_mut(), mapped, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let mapping = NonNull::new(mapping.map_err(failed)?.cast::<u8>()).expect("never mapped at zero");
        let offset = mapping.align_offset(HUGE);
        // SAFETY: the mapping is longer than the size by HUGE, and the offset is less.
        let start = unsafe { mapping.add(offset) };
        let memory = Self { mapping, mapped, start, size, guest };
        memory.advise(match pages {
            Pages::Small => Advice::LinuxNoHugepage,
            Pages::Huge => Advice::LinuxHugepage,
        });
        Ok(memory)
    }

    /// A kernel without huge pages refuses, and has small ones only.
    fn advise(&self, advice: Advice) {
        // SAFETY: its own mapping; none of these advices changes the content.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.size, advice) };
    }

    /// Gives the memory to a virtual machine, in the slot with this number.
    ///
    /// # Errors
    /// KVM refuses the memory slot: its range overlaps another one, or a flag is unknown.
    pub fn attach(self, vm: &Arc<VmFd>, slot: u32, flags: u32) -> Result<Attached, Failure> {
        self.set(vm, slot, flags, self.size)?;
        Ok(Attached { memory: Arc::new(self), vm: Arc::clone(vm), slot })
    }

    /// A size of zero takes the slot's memory away.
    fn set(&self, vm: &VmFd, slot: u32, flags: u32, size: usize) -> Result<(), Failure> {
        let region = kvm_userspace_memory_region {
            slot,
            flags,
            guest_phys_addr: self.guest,
            memory_size: size as u64,
            userspace_addr: self.start.as_ptr() as u64,
        };
        // SAFETY: the region is this mapping. Where KVM takes it, `Attached` owns it, and unmaps it only after KVM has
        // given it up.
        unsafe { vm.set_user_memory_region(region) }
            .map_err(|error| Failure::new("KVM_SET_USER_MEMORY_REGION", error, crate::failed::SEE_LOG))
    }

    /// The memory's size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// How many of its bytes are in huge pages, as the kernel reports.
    pub fn huge_bytes(&self) -> usize {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let start = self.start.as_ptr() as usize;
        huge_bytes_within(&smaps, start, start + self.size)
    }

    /// The word at a guest-physical address, which is a multiple of eight.
    fn word(&self, address: u64) -> &AtomicU64 {
        let offset = address.checked_sub(self.guest).and_then(|offset| usize::try_from(offset).ok());
        let offset = offset.filter(|offset| offset + 8 <= self.size && offset % 8 == 0);
        let offset = offset.unwrap_or_else(|| panic!("no word of the guest's memory at {address:#x}"));
        // SAFETY: within the mapping and aligned, as was just checked; it lives as long as self.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast().as_ptr()) }
    }

    /// Reads a word. Words that the guest wrote before it are visible afterwards.
    pub fn load(&self, address: u64) -> u64 {
        self.word(address).load(Ordering::Acquire)
    }

    /// Writes a word, after all earlier writes are visible.
    pub fn store(&self, address: u64, value: u64) {
        self.word(address).store(value, Ordering::Release);
    }

    /// Reads `count` words from an address on.
    pub fn words(&self, address: u64, count: usize) -> Vec<u64> {
        (0..count as u64).map(|index| self.load(address + index * 8)).collect()
    }

    /// Writes bytes, padded to words with zeros.
    pub fn write(&self, address: u64, bytes: &[u8]) {
        for (index, chunk) in bytes.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.store(address + index as u64 * 8, u64::from_le_bytes(word));
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: its own mapping. No reference into it is left, and no virtual machine has it: one that has it is in
        // `Attached`, which takes it away first.
        let _ = unsafe { munmap(self.mapping.as_ptr().cast(), self.mapped) };
    }
}

/// Memory of a virtual machine, in a slot. Dropping it removes it from the machine first and unmaps it then, so that
/// no guest accesses unmapped memory.
pub struct Attached {
    memory: Arc<Memory>,
    vm: Arc<VmFd>,
    slot: u32,
}

impl Deref for Attached {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.memory.set(&self.vm, self.slot, 0, 0).is_err() {
            // The guest may still reach it: it stays mapped for good.
            std::mem::forget(Arc::clone(&self.memory));
        }
    }
}

/// The sum of `AnonHugePages` over the mappings of an address range, which the kernel may have split.
fn huge_bytes_within(smaps: &str, start: usize, end: usize) -> usize {
    let mut inside = false;
    let mut sum = 0;
    for line in smaps.lines() {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let range = range.and_then(|(from, to)| {
            Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
        });
        if let Some((from, to)) = range {
            inside = from < end && start < to;
        } else if let Some(rest) = line.strip_prefix("AnonHugePages:").filter(|_| inside) {
            sum += rest.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0) * 1024;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_where_they_were_written() {
        let memory = Memory::new(0x1000, 0x2000, Pages::Small).unwrap();
        memory.write(0x1ff8, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(memory.words(0x1ff8, 2), [0x0807_0605_0403_0201, 9]);
        for outside in [0xff8, 0x3000, 0x1004] {
            assert!(std::panic::catch_unwind(|| memory.load(outside)).is_err());
        }
    }

    /// Whether an address of this process is mapped.
    fn is_mapped(address: usize) -> bool {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().any(|line| {
            let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
            (start..end).contains(&address)
        })
    }

    /// KVM refuses two slots at one address: that the second is taken says that the first is gone.
    #[test]
    fn memory_is_mapped_for_as_long_as_a_machine_has_it() {
        let vm = match kvm_ioctls::Kvm::new().and_then(|kvm| kvm.create_vm()) {
            Ok(vm) => Arc::new(vm),
            // `peers::required`, whose rule this is, would bring a second copy of this crate and of its symbols.
            Err(error) => {
                let skipped = std::env::var("TAUTLINE_SKIP").unwrap_or_default();
                let tolerated =
                    std::env::var_os("CI").is_none() || skipped.split(',').any(|name| name == "kvm");
                assert!(tolerated, "/dev/kvm: {error}; load kvm_intel or kvm_amd, or set TAUTLINE_SKIP=kvm");
                eprintln!("not run here for want of kvm: {error}");
                return;
            }
        };
        let attach = |slot| Memory::new(0x10_0000, 0x4000, Pages::Small).unwrap().attach(&vm, slot, 0);
        let first = attach(1).unwrap();
        let address = first.start.as_ptr() as usize;
        assert!(attach(2).is_err(), "two slots at one address");
        assert!(is_mapped(address));
        first.store(0x10_0000, 7);
        assert_eq!(first.load(0x10_0000), 7);
        drop(first);
        assert!(!is_mapped(address));
        attach(2).unwrap();
    }

    #[test]
    fn huge_pages_of_other_mappings_do_not_count() {
        let smaps = "1000-3000 rw-p 0 00:00 0\nSize: 8 kB\nAnonHugePages:      2048 kB\n\
                     3000-5000 rw-p 0 00:00 0\nAnonHugePages:      4096 kB\n";
        assert_eq!(huge_bytes_within(smaps, 0x3000, 0x5000), 4 << 20);
        assert_eq!(huge_bytes_within(smaps, 0x2000, 0x4000), 6 << 20);
    }
}
