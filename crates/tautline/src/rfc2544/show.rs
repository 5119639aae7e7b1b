//! The table, and the page.
use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use traffic::results::{Run, SearchResult, SizeResult};

use super::measure::why_undecided;

/// What a person reads first.
pub fn text(run: &Run, width: usize) -> String {
    let mut text = String::new();
    for port in &run.ports {
        let _ = writeln!(text, "{port}");
    }
    if run.quick {
        text.push_str("Quick: trials are shorter than the 60 s of RFC 2544 section 24.\n");
    }
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width.min(usize::from(u16::MAX)) as u16);
    table.set_header(HEADINGS);
    table.add_rows(run.sizes.iter().map(row));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{table}");
    text.push_str(&notes(run));
    text
}

const HEADINGS: [&str; 10] = [
    "bytes",
    "maximum Mpps",
    "found Mpps",
    "found Gbit/s",
    "of maximum",
    "limited by",
    "latency idle µs 50/99 % max",
    "at 50 % load",
    "at 90 % load",
    "trials (disturbed)",
];

fn row(size: &SizeResult) -> Vec<String> {
    let rate = size.search.rate_fps();
    let mega = |fps: f64| format!("{:.3}", fps / 1e6);
    let latency = |percent| {
        let at = size.latency.iter().find(|latency| latency.percent == percent);
        at.map_or_else(String::new, |latency| {
            let us = |ns: u64| format!("{:.1}", ns as f64 / 1e3);
            let h = &latency.histogram;
            format!("{} {} {}", us(h.median_ns()), us(h.quantile_ns(0.99)), us(h.max_ns()))
        })
    };
    let (trials, invalid) = size.search.trials();
    vec![
        size.frames.clone(),
        mega(size.maximum.received_fps),
        rate.map_or_else(|| "-".to_owned(), mega),
        rate.map_or_else(String::new, |fps| format!("{:.3}", fps * size.mean_bytes * 8.0 / 1e9)),
        rate.map_or_else(String::new, |fps| format!("{:.2}", fps / size.maximum.received_fps)),
        size.maximum.bottleneck().to_owned(),
        latency(0),
        latency(50),
        latency(90),
        format!("{trials} ({invalid})"),
    ]
}

/// What the table's columns mean, and what did not go well.
fn notes(run: &Run) -> String {
    let search = match run.sizes.first().map(|size| &size.search) {
        Some(SearchResult::Rfc2544 { .. }) => "no frame lost in the deciding trial (RFC 2544 section 26.1)",
        Some(SearchResult::Tst009 { .. }) => {
            "no frame lost in one of two trials (ETSI NFV-TST 009 section 12.3.3)"
        }
        Some(SearchResult::Mlr { .. }) => "MLRsearch (RFC 9971), first goal: no loss, exceed ratio 50 %",
        _ => "as much as came through, whatever was lost",
    };
    let mut text = format!(
        "found: {search}. maximum: as much as the device takes, whatever it loses.\n\
         Lengths are those in the buffers, without frame check sequence. Latency counts from when a frame was \
         due, the generator's own share included.\n"
    );
    for size in &run.sizes {
        let margin = size.loopback_fps / size.maximum.received_fps.max(1.0);
        let _ = writeln!(
            text,
            "{}: the generator alone moves {:.2} Mpps, {margin:.1} times what was measured{}",
            size.frames,
            size.loopback_fps / 1e6,
            if margin < 1.5 { " (too close: it is the generator that is measured)" } else { "" }
        );
        if let Some(why) = why_undecided(&size.search) {
            let _ = writeln!(text, "{}: {why}", size.frames);
        }
        if let SearchResult::Mlr { outcome } = &size.search {
            for result in &outcome.results {
                let loss = result.goal.loss().parts_per_billion() as f64 / 1e7;
                let _ = writeln!(text, "{}: goal {loss} % loss: {:?}", size.frames, result.finding);
            }
        }
    }
    text
}

/// One self-contained page.
pub fn page(run: &Run) -> String {
    let headings = HEADINGS.map(str::to_owned).to_vec();
    let table = std::iter::once(headings).chain(run.sizes.iter().map(row)).collect();
    report::html::figures::render(&super::pages::figures(run, table, &notes(run)))
}
