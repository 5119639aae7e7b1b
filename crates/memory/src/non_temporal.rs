//! Copies that go past the caches directly to memory.
//!
//! An ordinary store first fetches its line from the cache or memory that holds it. For a buffer that is overwritten
//! completely, the old bytes are not needed, and fetching them from a distant core costs more than everything else.
//! Non-temporal stores write whole lines without fetching them (AMD64 Architecture Programmer's Manual 1, 3.9.6;
//! Intel SDM 1, 10.4.6.2). They are weakly ordered: other threads must not be notified of the bytes before
//! [`NonTemporal::finish`].
#![allow(unsafe_code)]

use crate::SharedSlice;
use crate::copy::copy_volatile;
use crate::lines::LINE_BYTES;

/// Proof that this processor has non-temporal stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonTemporal(());

impl NonTemporal {
    /// `None` if there are none. Those of aarch64 (`STNP`) are only a hint, and go through the caches.
    pub fn detect() -> Option<NonTemporal> {
        cfg!(target_arch = "x86_64").then_some(NonTemporal(()))
    }

    /// Copies as [`SharedSlice::copy_to`] does; whole lines go past the caches.
    #[inline]
    pub fn copy(self, from: SharedSlice<'_>, to: SharedSlice<'_>) -> usize {
        let len = from.len_bytes().min(to.len_bytes());
        // SAFETY: both hold `len` bytes, and this processor has the instruction: `self` says so.
        unsafe { copy_streamed(from.as_ptr(), to.as_ptr(), len) };
        len
    }

    /// Writes as [`SharedSlice::write`] does; whole lines go past the caches.
    #[inline]
    pub fn write(self, from: &[u8], to: SharedSlice<'_>) -> usize {
        let len = from.len().min(to.len_bytes());
        // SAFETY: both hold `len` bytes, and this processor has the instruction: `self` says so.
        unsafe { copy_streamed(from.as_ptr(), to.as_ptr(), len) };
        len
    }

    /// Orders the non-temporal stores before all later stores, as ordinary stores are ordered.
    #[inline]
    pub fn finish(self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has it; it changes no register or flag.
        unsafe {
            std::arch::asm!("sfence", options(nostack, preserves_flags));
        }
    }
}

/// As [`copy_volatile`], and with the same promises: source bytes are read once, target bytes written once.
///
/// # Safety
/// Both pointers must be valid for `len` bytes, for reading and writing respectively, and the processor one for
/// which [`NonTemporal`] exists.
#[inline(always)]
unsafe fn copy_streamed(from: *const u8, to: *mut u8, len: usize) {
    let front = len.min(to.align_offset(LINE_BYTES));
    let end = front + (len - front) / LINE_BYTES * LINE_BYTES;
    // SAFETY: `front <= end <= len`, and lines begin at `front`.
    unsafe {
        copy_volatile(from, to, front);
        for at in (front..end).step_by(LINE_BYTES) {
            stream_line(from.add(at), to.add(at));
        }
        copy_volatile(from.add(end), to.add(end), len - end);
    }
}

/// # Safety
/// Both pointers must be valid for a line, for reading and writing respectively; `to` is aligned to one.
#[inline(always)]
unsafe fn stream_line(from: *const u8, to: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: four loads and four stores of the bytes that the caller vouches for; nothing else changes.
    unsafe {
        use crate::word::{Chunk, Word};
        let chunks: [Chunk; 4] =
            [Word::load::<0>(from), Word::load::<16>(from), Word::load::<32>(from), Word::load::<48>(from)];
        std::arch::asm!(
            "movntdq [{to}], {a}", "movntdq [{to} + 16], {b}",
            "movntdq [{to} + 32], {c}", "movntdq [{to} + 48], {d}",
            to = in(reg) to,
            a = in(xmm_reg) chunks[0], b = in(xmm_reg) chunks[1],
            c = in(xmm_reg) chunks[2], d = in(xmm_reg) chunks[3],
            options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        copy_volatile(from, to, LINE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mapping, sealed_memfd};

    #[test]
    fn every_length_and_alignment_arrives_whole_and_nothing_beside_it() {
        let Some(stream) = NonTemporal::detect() else {
            println!("this processor has no stores that go past the caches: nothing to test");
            return;
        };
        let memory = Mapping::shared(sealed_memfd(c"streamed", 1 << 16).unwrap(), 0, 1 << 16).unwrap();
        let all = SharedSlice::of_mapping(&memory);
        let source = all.slice(1 << 15, 1 << 15);
        for len in (0..300).chain([1448, 1500, 9000]) {
            for offset in [0, 1, 12, 52, 63] {
                let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + offset) as u8 | 1).collect();
                source.write(&bytes);
                for ours in [true, false] {
                    all.write(&vec![0; 20000]);
                    let to = all.slice(128 + offset, len);
                    let copied = match ours {
                        true => stream.write(&bytes, to),
                        false => stream.copy(source.slice(0, len + 1), to),
                    };
                    stream.finish();
                    assert_eq!(copied, len);
                    let mut back = vec![0; len + 2];
                    all.slice(127 + offset, len + 2).read(&mut back);
                    assert_eq!((back[0], back[len + 1]), (0, 0));
                    assert_eq!(back[1..=len], bytes);
                }
            }
        }
        assert_eq!(stream.copy(source, all.slice(100, 7)), 7);
        assert_eq!(stream.copy(source.slice(0, 7), all), 7);
    }
}
