//! The page of a run: loss and latency against load.
use measure::Unit;
use report::html::figures::{Figures, Plot, Table};
use traffic::results::{Run, SizeResult};
use traffic::search::Record;

use super::{show, tables};

/// No loss has no place on a logarithmic axis; it is drawn here.
const NO_LOSS_PPM: f64 = 0.01;

/// Named in the titles: ticks have little room.
fn ppm() -> Unit {
    Unit::Other(String::new())
}

/// Renders one self-contained page.
pub fn page(run: &Run) -> String {
    report::html::figures::render(&figures(run))
}

/// All that is on the page.
fn figures(run: &Run) -> Figures {
    let mut facts =
        vec![("command".to_owned(), run.command.join(" ")), ("started".to_owned(), run.started.clone())];
    facts.extend(show::machine(run).into_iter().map(|(name, fact)| (name.to_owned(), fact)));
    facts.extend(show::labels(run).into_iter().map(|label| ("label".to_owned(), label)));
    facts.extend(run.ports.iter().map(|port| ("port".to_owned(), port.clone())));
    let of_each = |points: fn(&SizeResult) -> Vec<(f64, f64)>| {
        run.sizes
            .iter()
            .map(|size| (format!("{} bytes", size.frame_bytes_with_fcs), points(size)))
            .collect::<Vec<_>>()
    };
    let latency = |quantile: f64| {
        run.sizes
            .iter()
            .map(|size| {
                let points = size.latency.iter();
                let at = |l: &traffic::results::Latency| {
                    Some((l.load_fps as f64 / 1e6, l.histogram.as_ref()?.quantile_ns(quantile) as f64))
                };
                (format!("{} bytes", size.frame_bytes_with_fcs), points.filter_map(at).collect())
            })
            .collect::<Vec<_>>()
    };
    let plot = |title: &str, unit: Unit, lines| Plot {
        title: title.to_owned(),
        x_title: "Mpps offered".to_owned(),
        unit,
        lines,
    };
    let mut plots = vec![
        plot(
            &format!("Loss against load, ppm, every valid trial (none is drawn at {NO_LOSS_PPM})"),
            ppm(),
            of_each(|size| loss(size.search.records())),
        ),
        plot("Latency against load, median", Unit::Nanos, latency(0.5)),
        plot("Latency against load, 99 %", Unit::Nanos, latency(0.99)),
    ];
    if run.sizes.iter().any(|size| size.frame_loss.is_some()) {
        let walked = |size: &SizeResult| size.frame_loss.as_ref().map_or_else(Vec::new, |f| loss(&f.trials));
        let title = format!("Frame loss rate, ppm, RFC 2544 section 26.3 (none is drawn at {NO_LOSS_PPM})");
        plots.insert(1, plot(&title, ppm(), of_each(walked)));
    }
    Figures {
        title: "Packet rates and latency under load".to_owned(),
        facts,
        tables: tables::of(run).into_iter().map(table).collect(),
        plots,
    }
}

fn table(of: tables::Table) -> Table {
    Table {
        title: of.title.to_owned(),
        headings: of.headings.iter().map(|heading| (*heading).to_owned()).collect(),
        rows: of.rows,
        notes: of.notes,
    }
}

/// Load and loss of every valid trial, by rising load; the worst of several at one load.
fn loss(trials: &[Record]) -> Vec<(f64, f64)> {
    let valid = trials.iter().filter_map(|trial| Some((trial.input.load, trial.measured.valid()?)));
    let mut points: Vec<(f64, f64)> = valid
        .map(|(load, result)| {
            (load.frames_per_second() as f64 / 1e6, (result.loss_ratio() * 1e6).max(NO_LOSS_PPM))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    points.dedup_by(|next, kept| next.0 == kept.0);
    points
}
