//! What two cores can do while other threads may be at work on them: [`measure::siblings`].

/// [`measure::siblings::arithmetic_ns`] of two CPUs.
///
/// # Errors
///
/// A CPU that this process may not use.
pub fn arithmetic_ns(cpus: [usize; 2]) -> std::io::Result<[f64; 2]> {
    let times = measure::siblings::arithmetic_ns(&cpus)?;
    Ok([times[0], times[1]])
}
