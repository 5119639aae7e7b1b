//! iperf3's report.

/// The payload in bytes that the receiving side counted, from a report made with `--json` (also with `--reverse`).
/// `None` if the report has no such figure: its field `error` then gives iperf3's reason.
pub fn bytes_received(report: &str) -> Option<u64> {
    // One number of one section: a JSON reader would be a dependency for the sake of it.
    let section = report.split("\"sum_received\"").nth(1)?;
    let value = section.split("\"bytes\":").nth(1)?;
    value.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receivers_bytes_are_found() {
        let report = "{\"end\":{\"sum_sent\":\t{\"bytes\":\t9},\n\"sum_received\":\t{\"start\":0,\n\"bytes\":\t1234,\n}}}";
        assert_eq!(bytes_received(report), Some(1234));
        assert_eq!(bytes_received("{\"error\":\t\"unable to connect\"}"), None);
    }
}
