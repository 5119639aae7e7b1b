//! What the kernel writes into an event's `hist` file.

/// What the histogram counts by; the kernel takes three keys at most.
pub const KEYS: [&str; 3] = ["common_pid", "vcpu_id", "exit_reason"];

/// The content.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    pub rows: Vec<Row>,
    /// Events that there was no room for.
    pub dropped: u64,
}

/// One combination of the keys.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    pub thread: u64,
    pub vcpu: u64,
    pub reason: u64,
    pub count: u64,
}

impl Histogram {
    /// Lines that are none of its rows are passed over: comments, totals, what later kernels may add.
    pub fn parse(text: &str) -> Self {
        let dropped = text.lines().find_map(|line| line.trim().strip_prefix("Dropped:"));
        Self {
            rows: text.lines().filter_map(row).collect(),
            dropped: dropped.and_then(|count| count.trim().parse().ok()).unwrap_or(0),
        }
    }
}

/// `{ common_pid:  123, vcpu_id:  0, exit_reason:  123 } hitcount:  5000`
fn row(line: &str) -> Option<Row> {
    let (keys, values) = line.trim().strip_prefix('{')?.split_once('}')?;
    let mut numbers = KEYS.iter().map(|name| {
        let key = keys.split(',').find_map(|key| key.trim().strip_prefix(name)?.strip_prefix(':'))?;
        key.trim().parse::<u64>().ok()
    });
    let mut number = || numbers.next().flatten();
    Some(Row {
        thread: number()?,
        vcpu: number()?,
        reason: number()?,
        count: values.trim().strip_prefix("hitcount:")?.split_whitespace().next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_what_was_dropped() {
        let text = "# event histogram\n#\n# trigger info: hist:keys=common_pid,vcpu_id,exit_reason [active]\n#\n\n\
            { common_pid:        311, vcpu_id:          1, exit_reason:        123 } hitcount:       5001\n\
            { broken } hitcount: 1\n\nTotals:\n    Hits: 5009\n    Entries: 1\n    Dropped: 8\n";
        let histogram = Histogram::parse(text);
        assert_eq!(histogram.rows, [Row { thread: 311, vcpu: 1, reason: 123, count: 5001 }]);
        assert_eq!(histogram.dropped, 8);
        assert_eq!(Histogram::parse(""), Histogram::default());
    }
}
