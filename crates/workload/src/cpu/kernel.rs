//! What every kernel does.

/// A piece of computing that always does the same and knows its result.
pub(crate) trait Kernel: Default {
    /// The checksum of a right result.
    const EXPECTED: u32;

    /// Does the work once, from the same start every time.
    fn run(&mut self) -> u32;

    /// Spoils the input, so that a test can see the result being checked.
    #[cfg(test)]
    fn corrupt(&mut self);
}
