//! The group `net` in every output: ladders with intervals, costs by role, emulated figures marked, gaps named.

use measure::compare::analyse;
use measure::network::example::with_network;
use measure::{Failure, Results};
use report::{EMULATED_MARK, html, terminal};

fn text(results: &Results) -> String {
    terminal::render(results, &analyse(results), 120, false)
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The one script of the page.
const FINDER: &str = concat!("<script>", include_str!("../src/html/find.js"), "</script>");

#[test]
fn the_ladder_shows_what_each_piece_adds_and_where_the_time_goes() {
    let results = with_network();
    let (shown, page) = (squeezed(&text(&results)), html::render(std::slice::from_ref(&results)));
    for part in [
        "UDP stream, 64 bytes path median CPU time a packet adds [≥ 95 %] lost",
        // From 300 ns in one half of the starts and 301 in the other.
        "+ bridge 383 Mb/s",
        "+300 ns [+300 ns, +301 ns] 0.99 %",
        "CPU time a packet by role of a thread path sender receiver CPU s a Gb",
        "copies and transitions a packet path copies exits system calls wake-ups",
        "veth + bridge 0 out, 1 in 2.00",
        "virtio + tap† 1 – 2.00",
        "cores to line rate, extrapolated path 1 Gb/s 10 Gb/s 25 Gb/s 100 Gb/s",
        "path virtio + vhost-net + tap†: ",
        "load vhost_net as root",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for part in [
        "What a packet costs",
        "UDP stream, 64 bytes on each path, stacked by role",
        "receiver",
        "load vhost_net as root",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let guest: Vec<&str> = shown.split("virtio + tap").skip(1).collect();
    assert!(!guest.is_empty() && guest.iter().all(|rest| rest.starts_with(EMULATED_MARK)), "{shown}");
}

#[test]
fn a_run_without_the_group_says_nothing_of_it() {
    let results = measure::example::results();
    assert!(!text(&results).contains("each path built anew"));
    assert!(!html::render(&[results]).contains("What a packet costs"));
}

#[test]
fn whatever_the_file_holds_is_drawn_and_drives_no_terminal() {
    let mut results = with_network();
    let hostile = "\x1b[31m</svg><script>\n";
    for path in &mut results.network.paths {
        path.pieces.push(hostile.into());
        path.failure = Some(Failure::new(hostile, hostile, hostile));
    }
    for flow in &mut results.network.flows {
        flow.title.push_str(hostile);
    }
    for (place, trial) in results.network.trials.iter_mut().enumerate() {
        trial.received = [0, 1, u64::MAX][place % 3];
        trial.sent = [0, u64::MAX][place % 2];
        trial.cost.roles[0].role.push_str(hostile);
        trial.cost.roles[1].cpu_ns = u64::MAX;
    }
    for trial in &mut results.trials {
        if trial.metric.as_str().starts_with("net.") {
            trial.outcome.value = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300][trial.block as usize % 5];
        }
    }
    assert!(!text(&results).contains('\x1b'));
    let page = html::render(&[results]);
    let page = page.replace(FINDER, "");
    assert!(!page.contains("<script") && !page.contains("NaN") && !page.contains("inf\""), "{page}");
}
