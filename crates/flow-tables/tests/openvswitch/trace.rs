//! The flows that a frame passes, in Open vSwitch's `ofproto/trace` and here.

/// The lines of a trace that name a table and its flow.
pub fn passed(trace: &str) -> Vec<String> {
    let is_table =
        |line: &&str| line.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
    trace.lines().map(str::trim).filter(is_table).map(str::to_owned).collect()
}
