//! The format of an event's `hist` file (Documentation/trace/histogram.rst).

use std::collections::HashMap;

/// The histograms of one event.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Histograms {
    pub rows: Vec<Row>,
    /// Events for which there was no room. An event that found no room in several histograms counts once.
    pub dropped: u64,
}

/// One row of a histogram: keys and values by name.
#[derive(Debug, PartialEq, Eq)]
pub struct Row(HashMap<String, u64>);

impl Row {
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.get(name).copied()
    }

    pub fn thread(&self) -> Option<u64> {
        self.get("common_pid")
    }
}

impl Histograms {
    /// Lines that are no rows are skipped: comments, totals, and what later kernels may add.
    pub fn parse(text: &str) -> Self {
        let dropped = text.lines().filter_map(|line| line.trim().strip_prefix("Dropped:"));
        Self {
            rows: text.lines().filter_map(row).collect(),
            dropped: dropped.filter_map(|count| count.trim().parse::<u64>().ok()).max().unwrap_or(0),
        }
    }
}

/// `{ common_pid:  123, exit_reason:  123 } hitcount:  5000  ns:  17`
fn row(line: &str) -> Option<Row> {
    let line = line.trim();
    if !line.starts_with('{') || !line.contains("hitcount:") {
        return None;
    }
    let mut words = line.split(|c: char| c.is_whitespace() || "{},".contains(c)).filter(|w| !w.is_empty());
    let mut values = HashMap::new();
    while let Some(name) = words.next() {
        let name = name.strip_suffix(':')?;
        match words.next()? {
            // `.log2`: at most this power of two.
            "~" => values.insert(format!("{name}.log2"), words.next()?.strip_prefix("2^")?.parse().ok()?),
            value => values.insert(name.to_owned(), value.parse().ok()?),
        };
    }
    Some(Row(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_what_was_dropped() {
        let text = "# event histogram\n#\n# trigger info: hist:keys=common_pid,reason:vals=ns [active]\n#\n\n\
            { common_pid:        311, reason:        123 } hitcount:       5001  ns:   99\n\
            \tmax: 7  vcpu_id: 0\n\
            { broken } hitcount: 1\n{ ns: ~ 2^10 } hitcount: 3\n\nTotals:\n    Hits: 5009\n    Entries: 1\n    Dropped: 8\n\n\
            # event histogram\n{ common_pid: 5 } hitcount: 1\nTotals:\n    Dropped: 1\n";
        let found = Histograms::parse(text);
        assert_eq!(found.rows.len(), 3);
        let names = ["common_pid", "reason", "hitcount", "ns", "vcpu_id"];
        assert_eq!(
            names.map(|name| found.rows[0].get(name)),
            [Some(311), Some(123), Some(5001), Some(99), None]
        );
        assert_eq!((found.rows[1].get("ns.log2"), found.rows[1].get("ns")), (Some(10), None));
        assert_eq!(found.rows[2].thread(), Some(5));
        assert_eq!(found.dropped, 8);
        assert_eq!(Histograms::parse(""), Histograms::default());
    }
}
