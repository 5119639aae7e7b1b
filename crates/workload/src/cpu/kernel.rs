//! The interface of every kernel.

/// A computation that always does the same work and whose result is known.
pub(crate) trait Kernel: Default {
    /// The checksum of a correct result.
    const EXPECTED: u32;

    /// Does the work once, from the same initial state every time.
    fn run(&mut self) -> u32;

    /// Changes the input, so that a test can show that the result is checked.
    #[cfg(test)]
    fn corrupt(&mut self);
}
