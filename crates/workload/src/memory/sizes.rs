//! The sizes of arrays and of loads.

/// The bytes that one load uses: a cache line of most CPUs.
pub(super) const LINE_BYTES: usize = 64;
pub(super) const LINE_WORDS: usize = LINE_BYTES / size_of::<u32>();

/// Array sizes of the quick profile.
pub(crate) const QUICK_BYTES: [usize; 9] =
    [16 << 10, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];

/// Array sizes of the full profile: two for each doubling.
pub(crate) const FULL_BYTES: [usize; 29] = {
    let mut sizes = [0; 29];
    let mut at = 0;
    while at < sizes.len() {
        sizes[at] = (if at % 2 == 0 { 16 << 10 } else { 24 << 10 }) << (at / 2);
        at += 1;
    }
    sizes
};

/// The largest array size.
pub(super) const LARGEST_BYTES: usize = FULL_BYTES[FULL_BYTES.len() - 1];

/// A size in the written form: `24KiB`, `256MiB`.
pub(crate) fn size_text(bytes: usize) -> String {
    match bytes {
        0 => "0".into(),
        bytes if bytes % (1 << 20) == 0 => format!("{}MiB", bytes >> 20),
        bytes => format!("{}KiB", bytes >> 10),
    }
}
