//! Large areas of memory that the agent keeps between trials while enough memory is available.

use measure::Failure;

use super::available::{available_bytes, huge_bytes};
use super::chains::Slots;
use super::sizes;
use super::streams::Streams;
use crate::facts;
use crate::sys::{Area, Pages};

/// What must be left to the kernel and to the other processes.
const RESERVE_BYTES: u64 = 48 << 20;

/// The kind of pages that back an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageKind {
    Small,
    Huge,
}

/// An area whose first part is backed by pages; this part grows.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) area: Area,
    kind: PageKind,
    /// The number of bytes from the start that are backed by pages.
    pub(crate) touched_bytes: usize,
    /// The chain in each slot of the lines.
    pub(crate) slots: Slots,
}

impl Arena {
    /// Reserves addresses, and no memory yet.
    pub(crate) fn reserve(bytes: usize, kind: PageKind) -> Result<Self, Failure> {
        let pages = match kind {
            PageKind::Small => Pages::Small,
            PageKind::Huge => Pages::Huge(facts::huge_page_bytes().ok_or_else(no_huge_pages)?),
        };
        let area = Area::map(bytes, pages).map_err(|error| {
            Failure::new(
                format!("mapping {} MiB of memory", bytes >> 20),
                error,
                "allow the agent more memory",
            )
        })?;
        Ok(Arena { area, kind, touched_bytes: 0, slots: Default::default() })
    }

    /// Backs the first `bytes` with pages, writes the sequential chain to them, and checks that the pages are of the
    /// wanted kind.
    pub(crate) fn touch(&mut self, bytes: usize) -> Result<(), Failure> {
        if bytes <= self.touched_bytes {
            return Ok(());
        }
        let words = self.area.half_words_mut();
        for line in self.touched_bytes / sizes::LINE_BYTES..bytes / sizes::LINE_BYTES {
            words[line * sizes::LINE_WORDS] = ((line + 1) * sizes::LINE_WORDS) as u32;
        }
        self.touched_bytes = bytes;
        self.verify()
    }

    fn verify(&mut self) -> Result<(), Failure> {
        let start = self.area.words().as_ptr() as usize;
        let Some(huge) = huge_bytes(start) else {
            return Err(Failure::new(
                "looking up huge pages in /proc/self/smaps",
                "the memory just mapped is not listed",
                "mount /proc in this environment",
            ));
        };
        let wanted = match self.kind {
            PageKind::Small => return if huge == 0 { Ok(()) } else { Err(unwanted_huge_pages()) },
            PageKind::Huge => self.touched_bytes as u64,
        };
        if huge * 100 >= wanted * 95 {
            return Ok(());
        }
        self.touched_bytes = 0;
        self.slots = Default::default();
        let _ = self.area.discard();
        Err(Failure::new(
            format!("backing {} KiB with huge pages", wanted >> 10),
            format!("the kernel gave {} KiB of them", huge >> 10),
            "set /sys/kernel/mm/transparent_hugepage/enabled to madvise, or free and compact memory",
        ))
    }
}

fn no_huge_pages() -> Failure {
    Failure::new(
        "asking for transparent huge pages",
        "this kernel has none (/sys/kernel/mm/transparent_hugepage is missing)",
        "use a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
    )
}

fn unwanted_huge_pages() -> Failure {
    Failure::new(
        "asking for small pages",
        "the kernel gave huge ones in spite of MADV_NOHUGEPAGE",
        "write never to /sys/kernel/mm/transparent_hugepage/enabled",
    )
}

/// The arenas. The areas together can be larger than a small guest's memory; areas that are not in use are then
/// released.
#[derive(Debug, Default)]
pub(crate) struct Arenas {
    small: Option<Arena>,
    huge: Option<Arena>,
    pub(super) streams: Option<Streams>,
}

impl Arenas {
    /// The arena of a kind, with at least `bytes` backed by pages.
    pub(crate) fn with_pages(&mut self, kind: PageKind, bytes: usize) -> Result<&mut Arena, Failure> {
        let arena = match kind {
            PageKind::Small => &self.small,
            PageKind::Huge => &self.huge,
        };
        let missing = bytes.saturating_sub(arena.as_ref().map_or(0, |arena| arena.touched_bytes));
        if !has_room(missing) {
            self.streams = None;
            match kind {
                PageKind::Small => self.huge = None,
                PageKind::Huge => self.small = None,
            }
            need_room(missing)?;
        }
        let place = match kind {
            PageKind::Small => &mut self.small,
            PageKind::Huge => &mut self.huge,
        };
        let arena = match place {
            Some(arena) => arena,
            None => place.insert(Arena::reserve(sizes::LARGEST_BYTES, kind)?),
        };
        arena.touch(bytes)?;
        Ok(arena)
    }

    /// Releases areas until `bytes` of memory are available for other use.
    pub(super) fn make_room(&mut self, bytes: usize) -> Result<(), Failure> {
        if !has_room(bytes) {
            (self.small, self.huge) = (None, None);
            need_room(bytes)?;
        }
        Ok(())
    }
}

fn has_room(bytes: usize) -> bool {
    // Where nothing tells, the attempt decides.
    bytes == 0 || available_bytes().is_none_or(|available| available >= bytes as u64 + RESERVE_BYTES)
}

fn need_room(bytes: usize) -> Result<(), Failure> {
    if has_room(bytes) {
        return Ok(());
    }
    let available = available_bytes().unwrap_or(0);
    Err(Failure::new(
        format!("using {} KiB of memory more", bytes >> 10),
        format!("{} KiB are available, of which {} KiB are left alone", available >> 10, RESERVE_BYTES >> 10),
        "give this environment more memory",
    ))
}
