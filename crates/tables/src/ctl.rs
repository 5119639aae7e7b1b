//! Answers of a switch as tables for people.
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use serde_json::Value;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn figure(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn direction(value: &Value) -> &'static str {
    if value["from_guest"].as_bool().unwrap_or_default() { "from guest" } else { "to guest" }
}

/// A table whose columns `figures` are aligned to the right.
fn table(head: &[&str], rows: Vec<Vec<String>>, figures: std::ops::Range<usize>, width: usize) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.min(400) as u16);
    table.set_header(head).add_rows(rows);
    for column in figures {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines: Vec<String> =
        table.to_string().lines().map(|line| line.trim_end().to_owned() + "\n").collect();
    lines.concat()
}

/// Each port with the features agreed on, and its queues.
pub fn ports(answer: &Value, width: usize) -> String {
    let mut out = String::new();
    for port in list(&answer["ports"]) {
        let addresses = figure(&port["addresses"]);
        out += &format!(
            "{}: {}; {addresses} addresses behind it\n",
            text(&port["name"]),
            text(&port["description"])
        );
        let features: Vec<&str> = list(&port["features"]).iter().map(text).collect();
        if !features.is_empty() {
            out += &format!("  features: {}\n", features.join(" "));
        }
    }
    let rows = queues(answer).map(|(port, queue)| {
        let dropped: u64 =
            queue["drops"].as_object().into_iter().flatten().map(|(_, frames)| figure(frames)).sum();
        vec![
            text(&port["name"]).to_owned(),
            figure(&queue["pair"]).to_string(),
            direction(queue).to_owned(),
            figure(&queue["frames"]).to_string(),
            figure(&queue["bytes"]).to_string(),
            dropped.to_string(),
            figure(&queue["notifications"]).to_string(),
        ]
    });
    let head = ["port", "pair", "direction", "frames", "bytes", "dropped", "notifications"];
    out + &table(&head, rows.collect(), 3..7, width)
}

fn queues(answer: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    list(&answer["ports"])
        .iter()
        .flat_map(|port| list(&port["queues"]).iter().map(move |queue| (port, queue)))
}

/// Ports, and the other counters of the switch.
pub fn stats(answer: &Value, width: usize) -> String {
    let mut out = ports(answer, width);
    let of_table = &answer["table"];
    let one = |name: &str| figure(&of_table[name]);
    out += &format!(
        "addresses: {} known, {} learned, {} moved ({} times refused), {} expired, {} evicted; {} frames over a port's \
         limit\n",
        one("addresses"),
        one("learned"),
        one("moved"),
        one("moves_refused"),
        one("expired"),
        one("evicted"),
        one("over_limit"),
    );
    for (index, worker) in list(&answer["workers"]).iter().enumerate() {
        let one = |name: &str| figure(&worker[name]);
        let all = (one("busy_ns") + one("spinning_ns") + one("asleep_ns")).max(1);
        let share = |name: &str| 100.0 * one(name) as f64 / all as f64;
        out += &format!(
            "worker {index}: {:.1} % busy, {:.1} % empty polls, {:.1} % asleep; {} frames, {} flooded, {} sleeps\n",
            share("busy_ns"),
            share("spinning_ns"),
            share("asleep_ns"),
            one("frames"),
            one("flooded"),
            one("sleeps"),
        );
    }
    out
}

/// Dropped frames by reason and queue.
pub fn drops(answer: &Value, width: usize) -> String {
    let drops = list(&answer["drops"]);
    if drops.is_empty() {
        return "no frame was dropped\n".to_owned();
    }
    let row = |drop: &Value| {
        let place = format!("{} {}", direction(drop), figure(&drop["pair"]));
        let detail = drop["detail"].as_str().map(|detail| format!(": {detail}")).unwrap_or_default();
        vec![
            figure(&drop["frames"]).to_string(),
            format!("{}{detail}", text(&drop["reason"])),
            text(&drop["port"]).to_owned(),
            place,
        ]
    };
    table(&["frames", "reason", "port", "queue"], drops.iter().map(row).collect(), 0..1, width)
}

/// The state of each ring, in words.
pub fn rings(answer: &Value, width: usize) -> String {
    let row = |one: &Value| {
        let ring = &one["ring"];
        let place = if ring.is_null() {
            "-".to_owned()
        } else {
            format!("{} {}", text(&ring["layout"]), figure(&ring["size"]))
        };
        let available = ring["available"].as_u64().map_or_else(|| "-".to_owned(), |count| count.to_string());
        vec![
            text(&one["port"]).to_owned(),
            format!("{} {}", direction(one), figure(&one["pair"])),
            place,
            available,
            text(&one["words"]).to_owned(),
        ]
    };
    let rows = list(&answer["rings"]).iter().map(row).collect();
    table(&["port", "queue", "ring", "available", "state"], rows, 3..4, width)
}

/// Rates between two snapshots.
pub fn rates(before: &Value, now: &Value, width: usize) -> String {
    let seconds = (now["seconds"].as_f64().unwrap_or_default()
        - before["seconds"].as_f64().unwrap_or_default())
    .max(1e-3);
    let name = |(port, queue): (&Value, &Value)| {
        (text(&port["name"]).to_owned(), figure(&queue["pair"]), direction(queue))
    };
    let dropped = |queue: &Value| -> u64 {
        queue["drops"].as_object().into_iter().flatten().map(|(_, frames)| figure(frames)).sum()
    };
    let rows = queues(now).map(|(port, queue)| {
        let of = name((port, queue));
        let old = queues(before).find(|one| name(*one) == of).map(|(_, queue)| queue);
        let rate = |what: &dyn Fn(&Value) -> u64| {
            let since = old.map_or(0, what);
            what(queue).saturating_sub(since) as f64 / seconds
        };
        let reasons = queue["drops"].as_object().into_iter().flatten();
        let worst =
            reasons.max_by_key(|(_, frames)| figure(frames)).map_or("", |(reason, _)| reason.as_str());
        vec![
            of.0,
            format!("{} {}", of.2, of.1),
            format!("{:.0}", rate(&|queue| figure(&queue["frames"]))),
            format!("{:.2}", 8.0 * rate(&|queue| figure(&queue["bytes"])) / 1e6),
            format!("{:.0}", rate(&|queue| dropped(queue))),
            worst.to_owned(),
        ]
    });
    let head = ["port", "queue", "frames/s", "Mbit/s", "drops/s", "mostly"];
    table(&head, rows.collect(), 2..5, width)
}

/// Flows with their counts, a line each, as `ovs-ofctl dump-flows` prints them.
pub fn flows(answer: &Value) -> String {
    let line = |entry: &Value| {
        let cookie = figure(&entry["cookie"]);
        let seconds = entry["seconds"].as_f64().unwrap_or_default();
        let one = |name: &str| figure(&entry[name]);
        format!(
            " cookie={cookie:#x}, duration={seconds:.3}s, table={}, n_packets={}, n_bytes={}, {}\n",
            one("table"),
            one("packets"),
            one("bytes"),
            text(&entry["flow"])
        )
    };
    list(&answer["flows"]).iter().map(line).collect()
}

/// The trace of a frame.
pub fn trace(answer: &Value) -> String {
    text(&answer["trace"]).to_owned()
}
