//! Results as rows of text, which the terminal and the page share.
use traffic::results::{Bursts, Latency, Run, SearchResult, SizeResult};
use traffic::rfc2544::SOFTWARE_TAP;
use traffic::search::rfc2544::BackToBack;
use traffic::search::{Finding, Load};

use super::undecided::{why_cut, why_undecided};

/// A table and what its columns mean.
pub struct Table {
    pub title: &'static str,
    pub headings: &'static [&'static str],
    pub rows: Vec<Vec<String>>,
    pub notes: Vec<String>,
}

/// Marks a figure that a disturbed machine may have falsified.
pub const DISTURBED: &str = "!";

/// Replaces a latency that the generator itself would have caused.
pub const GENERATOR_LATE: &str = "generator late";

/// All tables that have a row.
pub fn of(run: &Run) -> Vec<Table> {
    let all = [rates(run), latency(run), goals(run), frame_loss(run), back_to_back(run)];
    all.into_iter().filter(|table| !table.rows.is_empty() || !table.notes.is_empty()).collect()
}

fn mega(fps: f64) -> String {
    format!("{:.3}", fps / 1e6)
}

fn mega_load(load: Load) -> String {
    mega(load.frames_per_second() as f64)
}

fn us(seconds: f64) -> String {
    format!("{:.1}", seconds * 1e6)
}

/// A percentage with enough digits to differ from zero.
fn percent(ratio: f64) -> String {
    match ratio * 100.0 {
        0.0 => "0".to_owned(),
        percent if percent < 0.001 => format!("{percent:.1e}"),
        percent if percent < 1.0 => format!("{percent:.3}"),
        percent => format!("{percent:.1}"),
    }
}

/// Whether the device under test runs in the generator's thread.
pub fn is_software(run: &Run) -> bool {
    run.labels.iter().any(|label| label == SOFTWARE_TAP)
}

const RATES: &[&str] = &[
    "bytes",
    "maximum Mpps",
    "throughput Mpps",
    "lowest failing Mpps",
    "L1 Gbit/s",
    "of maximum",
    "limited by",
    "trials (invalid)",
];

const RECEIVED: &[&str] = &[
    "bytes",
    "maximum Mpps",
    "received Mpps",
    "lowest failing Mpps",
    "L1 Gbit/s",
    "of maximum",
    "limited by",
    "trials (invalid)",
];

fn rates(run: &Run) -> Table {
    let row = |size: &SizeResult| {
        let rate = size.search.rate_fps();
        let (trials, invalid) = size.search.trials();
        let disturbed = if size.maximum.disturbed { DISTURBED } else { "" };
        let limited = if is_software(run) { "not told" } else { size.maximum.bottleneck() };
        vec![
            size.frame_bytes_with_fcs.clone(),
            mega(size.maximum.received_fps) + disturbed,
            rate.map_or_else(|| "-".to_owned(), mega),
            upper(&size.search).map_or_else(String::new, mega_load),
            rate.map_or_else(String::new, |fps| {
                format!("{:.3}", fps * size.mean_frame_bytes_at_layer_1 * 8.0 / 1e9)
            }),
            rate.filter(|_| size.maximum.received_fps > 0.0)
                .map_or_else(String::new, |fps| format!("{:.2}", fps / size.maximum.received_fps)),
            limited.to_owned(),
            format!("{trials} ({invalid})"),
        ]
    };
    // Without a search there is no throughput in RFC 2544's sense.
    let is_searched = run.sizes.iter().any(|size| !matches!(size.search, SearchResult::Maximum { .. }));
    let headings = if is_searched { RATES } else { RECEIVED };
    Table { title: "Rates", headings, rows: run.sizes.iter().map(row).collect(), notes: rate_notes(run) }
}

/// Whether the search ended at the largest load that it had.
pub fn at_the_most(search: &SearchResult) -> bool {
    match search {
        SearchResult::Rfc2544 { finding, .. } | SearchResult::Tst009 { finding, .. } => {
            matches!(finding, Finding::AtMaximum { .. })
        }
        SearchResult::Mlr { outcome } => {
            outcome.results.first().is_some_and(|goal| matches!(goal.finding, Finding::AtMaximum { .. }))
        }
        SearchResult::Maximum { .. } => false,
    }
}

/// The lowest load that was not carried.
fn upper(search: &SearchResult) -> Option<Load> {
    fn of<L>(finding: &Finding<Load, L>) -> Option<Load> {
        match finding {
            Finding::Bracketed { upper, .. } | Finding::BelowMinimum { upper } => Some(*upper),
            Finding::AtMaximum { .. } => None,
            Finding::Undecided { upper, .. } => *upper,
        }
    }
    match search {
        SearchResult::Rfc2544 { finding, .. } | SearchResult::Tst009 { finding, .. } => of(finding),
        SearchResult::Mlr { outcome } => outcome.results.first().and_then(|goal| of(&goal.finding)),
        SearchResult::Maximum { .. } => None,
    }
}

fn rate_notes(run: &Run) -> Vec<String> {
    let search = match run.sizes.first().map(|size| &size.search) {
        Some(SearchResult::Rfc2544 { .. }) => {
            "throughput: no frame lost in the deciding trial (RFC 2544 section 26.1). lowest failing: the lowest \
             rate that was not carried; none where all was."
        }
        Some(SearchResult::Tst009 { .. }) => {
            "throughput: no frame lost in one of the trials at that load (ETSI NFV-TST 009 section 12.3.3). lowest failing: the \
             lowest rate that was not carried; none where all was."
        }
        Some(SearchResult::Mlr { .. }) => {
            "throughput, lowest failing: the bounds of MLRsearch (RFC 9971) for no loss, exceed ratio 50 %."
        }
        _ => {
            "received: as much as came through at the most that was offered, whatever was lost: no throughput."
        }
    };
    let seconds = run.maximum_trial_ns as f64 / 1e9;
    let mut notes = vec![
        search.to_owned(),
        format!(
            "maximum: as much as the device takes, whatever it loses; the median of trials of {seconds:.3} s."
        ),
        "bytes: as RFC 2544 counts them, with frame check sequence; a buffer holds 4 less. L1: what the \
         frames take of a link (layer 1), with preamble and gap 20 bytes more each."
            .to_owned(),
    ];
    if is_software(run) {
        notes.push(
            "limited by: not told on a TAP, where the kernel does its part within the generator's own system \
             calls."
                .to_owned(),
        );
    }
    if run.sizes.iter().any(|size| size.maximum.disturbed) {
        notes.push(format!("{DISTURBED} the generator was preempted in every trial; it may be too low."));
    }
    for size in &run.sizes {
        let margin = size.loopback_fps / size.maximum.received_fps.max(1.0);
        notes.push(format!(
            "{}: the generator alone moves {:.2} Mpps, {margin:.1} times what was measured{}",
            size.frame_bytes_with_fcs,
            size.loopback_fps / 1e6,
            if margin < 1.5 { " (too close: it is the generator that is measured)" } else { "" }
        ));
        if size.generator_kept_less {
            notes.push(format!(
                "{}: the generator kept no more than {} Mpps; nothing above that was offered",
                size.frame_bytes_with_fcs,
                mega(size.most_fps as f64)
            ));
        }
        if at_the_most(&size.search) {
            notes.push(format!(
                "{}: carried at the most that was offered: the device's limit is not below it, and was not seen",
                size.frame_bytes_with_fcs
            ));
        }
        notes.extend(why_undecided(&size.search).map(|why| format!("{}: {why}", size.frame_bytes_with_fcs)));
    }
    notes
}

fn latency(run: &Run) -> Table {
    let row = |size: &SizeResult, at: &Latency| {
        let seconds = run.latency_trial_ns as f64 / 1e9;
        let percent = at.percent_of_throughput;
        let share = if percent == 0 { "idle".to_owned() } else { format!("{percent} %") };
        let disturbed = if at.disturbed { DISTURBED } else { "" };
        let us = |ns: u64| format!("{:.1}{disturbed}", ns as f64 / 1e3);
        let [median, most, maximum, frames] = match &at.histogram {
            Some(h) => {
                let frames = format!("{} in {seconds:.2} s", h.count());
                [us(h.median_ns()), us(h.quantile_ns(0.99)), us(h.max_ns()), frames]
            }
            None => [GENERATOR_LATE, "", "", ""].map(str::to_owned),
        };
        vec![
            size.frame_bytes_with_fcs.clone(),
            share,
            mega(at.load_fps as f64),
            median,
            most,
            maximum,
            frames,
            format!("{} / {}", at.lost, at.unsent),
            at.invalid.to_string(),
        ]
    };
    let rows: Vec<_> =
        run.sizes.iter().flat_map(|size| size.latency.iter().map(|at| row(size, at))).collect();
    let headings = &[
        "bytes",
        "load",
        "Mpps",
        "median µs",
        "99 % µs",
        "maximum µs",
        "frames",
        "lost / unsent",
        "invalid",
    ];
    let mut notes = Vec::new();
    if !rows.is_empty() {
        notes.push(
            "Latency counts from when a frame was due, the generator's own share included. load: of the \
             throughput; at all of it (RFC 2544 section 26.2) it is the generator that would be measured. The \
             maximum is that of these frames in this time, no bound. unsent: frames for which the generator was \
             too late; they have no latency. invalid: trials that were discarded and repeated."
                .to_owned(),
        );
    }
    let mut all = run.sizes.iter().flat_map(|size| &size.latency);
    if all.clone().any(|at| at.disturbed) {
        notes.push(format!(
            "{DISTURBED} every trial was disturbed; this is the last, and says nothing for sure."
        ));
    }
    if all.any(|at| at.histogram.is_none()) {
        notes.push(format!(
            "{GENERATOR_LATE}: in every trial the generator lagged behind its schedule; half or more of the latency \
             would be its own. Give it a CPU of its own (--cpu)."
        ));
    }
    Table { title: "Latency", headings, rows, notes }
}

fn goals(run: &Run) -> Table {
    let mut rows = Vec::new();
    for size in &run.sizes {
        let SearchResult::Mlr { outcome } = &size.search else { continue };
        for result in &outcome.results {
            let goal = &result.goal;
            let (lower, upper, remark) = match result.finding {
                Finding::Bracketed { lower, upper } => (Some(lower), Some(upper), String::new()),
                Finding::AtMaximum { lower } => {
                    (Some(lower), None, "irregular: at the most offered".to_owned())
                }
                Finding::BelowMinimum { upper } => {
                    (None, Some(upper), "irregular: not even the least".to_owned())
                }
                Finding::Undecided { lower, upper, .. } => (lower, upper, "irregular: undecided".to_owned()),
            };
            rows.push(vec![
                size.frame_bytes_with_fcs.clone(),
                format!("{} %", percent(goal.loss().parts_per_billion() as f64 / 1e9)),
                lower.map_or_else(String::new, |lower| mega_load(lower.load)),
                upper.map_or_else(String::new, mega_load),
                lower.map_or_else(String::new, |lower| mega(lower.conditional_throughput_fps)),
                remark,
            ]);
        }
    }
    let headings = &[
        "bytes",
        "loss at most",
        "lower bound Mpps",
        "upper bound Mpps",
        "conditional throughput Mpps",
        "result",
    ];
    let mut notes = Vec::new();
    if !rows.is_empty() {
        notes.push(
            "Both bounds of each goal (RFC 9971): at most half of the time at a lower bound may have more loss. \
             Conditional throughput: what came through at the lower bound."
                .to_owned(),
        );
    }
    Table { title: "MLRsearch goals", headings, rows, notes }
}

fn frame_loss(run: &Run) -> Table {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for size in &run.sizes {
        let Some(found) = &size.frame_loss else { continue };
        for point in &found.points {
            rows.push(vec![
                size.frame_bytes_with_fcs.clone(),
                format!("{} %", point.percent),
                mega_load(point.load),
                mega(point.result.received_fps()),
                percent(point.result.loss_ratio()),
            ]);
        }
        if let Some(cut) = found.cut {
            notes.push(format!("{}: cut short: {}", size.frame_bytes_with_fcs, why_cut(cut)));
        } else if !found.ended_lossless {
            notes.push(format!("{}: no two loads in succession without loss", size.frame_bytes_with_fcs));
        }
    }
    if !rows.is_empty() {
        let what = "From the most that was offered downwards, until two loads in succession lose nothing (RFC \
                    2544 section 26.3).";
        notes.insert(0, what.to_owned());
    }
    let headings = &["bytes", "of the most", "offered Mpps", "received Mpps", "lost %"];
    Table { title: "Frame loss rate", headings, rows, notes }
}

fn back_to_back(run: &Run) -> Table {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    for size in &run.sizes {
        let why = match &size.back_to_back {
            None => continue,
            Some(Bursts::LeftOut { why }) => why.clone(),
            Some(Bursts::Made { outcome: BackToBack::NotApplicable { plan } }) => format!(
                "not applicable: the throughput is not below the {} Mpps that the generator can offer, so no \
                 burst fills a buffer (RFC 9004 section 6.1)",
                mega_load(plan.max_rate)
            ),
            Some(Bursts::Made { outcome: BackToBack::Measured { plan, statistics: Some(found), .. } }) => {
                rows.push(vec![
                    size.frame_bytes_with_fcs.clone(),
                    found.searches.to_string(),
                    format!("{:.0}", found.mean_frames),
                    found.min_frames.to_string(),
                    found.max_frames.to_string(),
                    format!("{:.1}", found.standard_deviation_frames),
                    mega_load(plan.max_rate),
                    us(found.implied_buffer_seconds),
                    us(found.corrected_buffer_seconds),
                ]);
                continue;
            }
            Some(Bursts::Made { outcome: BackToBack::Measured { cut: Some(cut), .. } }) => {
                format!("no figure, cut short: {}", why_cut(*cut))
            }
            Some(Bursts::Made { outcome: BackToBack::Measured { plan, .. } }) => format!(
                "no figure: a burst of {} frames, the longest that was tried, still lost none",
                plan.max_burst.frames()
            ),
        };
        notes.push(format!("{}: {why}", size.frame_bytes_with_fcs));
    }
    if !rows.is_empty() {
        notes.push(
            "Longest burst without loss, over so many searches (RFC 9004). The buffer's time is mean over rate; \
             corrected, it leaves out what the device forwards meanwhile."
                .to_owned(),
        );
        if run.quick {
            notes.push("Quick: shorter bursts and waits than the 30 s and 2 s of RFC 9004.".to_owned());
        }
    }
    let headings = &[
        "bytes",
        "searches",
        "mean frames",
        "minimum",
        "maximum",
        "std. deviation",
        "burst at Mpps",
        "buffer µs",
        "corrected µs",
    ];
    Table { title: "Back-to-back", headings, rows, notes }
}

#[cfg(test)]
mod tests;
