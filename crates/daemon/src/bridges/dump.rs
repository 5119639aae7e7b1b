//! Flows with their counts, for `tautline ctl flows dump`.
use std::time::Duration;

use control::protocol::FlowEntry;
use flow::Flow;
use flow_tables::Tables;

use ::bridge::line::Selection;

/// The selected flows, by table and from the highest priority on.
pub fn entries(tables: &Tables, selection: &Selection, now: Duration) -> Vec<FlowEntry> {
    let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
    let all = (0..=u8::MAX).flat_map(|table| tables.entries(table));
    let selected = all.filter(|entry| selection.has(&entry.flow));
    let described = selected.map(|entry| {
        let (packets, bytes) = entry.counters().get();
        let Flow { table, cookie, .. } = entry.flow;
        FlowEntry {
            cookie,
            seconds: now_ms.saturating_sub(entry.added_ms) as f64 / 1e3,
            table,
            packets,
            bytes,
            flow: Flow { table: 0, cookie: 0, ..entry.flow.clone() }.to_string(),
        }
    });
    described.collect()
}
