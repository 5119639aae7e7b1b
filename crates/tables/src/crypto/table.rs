//! The text for the terminal.

use std::fmt::Write;

use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use crypto_driver::bench::Row;
use measure::Unit;
use measure::bootstrap::RatioEstimate;
use measure::statistics::median;
use report::units;

use super::results::Results;

/// The size that the first table is about, if it was measured.
const SIZE: u32 = 16 << 10;

/// The overall result, a table for one size, and the ratio by size.
pub fn text(results: &Results, width: usize) -> String {
    let depth = results.depth;
    let mut sizes: Vec<u32> = results.rows.iter().map(|row| row.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let Some(&largest) = sizes.last() else { return "Nothing was measured.\n".to_owned() };
    let size = if sizes.contains(&SIZE) { SIZE } else { largest };
    let rows = || results.rows.iter().filter(move |row| row.bytes == size);
    let mut text = answer(size, rows());
    let ring = if results.packed { "packed" } else { "split" };
    let _ = writeln!(
        text,
        "{}, {ring} ring; device and library in turns of {}, {} blocks; other load: {}\n",
        results.target.display(),
        units::watched(results.trial_ns),
        results.rows.iter().map(|row| row.blocks.len()).max().unwrap_or(0),
        disturbed(results)
    );
    let deep = format!("{depth} at once");
    let header = [
        "",
        "device",
        "library",
        "device/library",
        "alone: median",
        "p99",
        &format!("{deep}: median"),
        "p99",
    ];
    let table_rows = rows().map(|row| {
        let rate = |value| units::value(value, &Unit::OpsPerSecond);
        let time = |histogram: &measure::Histogram, quantile| units::nanos(histogram.quantile_ns(quantile));
        vec![
            row.algorithm.clone(),
            rate(row.median(|block| block.device_per_s)),
            rate(row.median(|block| block.library_per_s)),
            ratio(row.throughput()),
            time(&row.alone, 0.5),
            time(&row.alone, 0.99),
            time(&row.deep, 0.5),
            time(&row.deep, 0.99),
        ]
    });
    let _ = writeln!(text, "{}\n", table(width, &header, table_rows));
    let names: Vec<String> = sizes.iter().map(|size| units::size(f64::from(*size))).collect();
    let header: Vec<&str> =
        std::iter::once("device/library").chain(names.iter().map(String::as_str)).collect();
    let by_size = rows().map(|row| {
        let at = |bytes: &u32| {
            let found =
                results.rows.iter().find(|other| other.algorithm == row.algorithm && other.bytes == *bytes);
            found.and_then(Row::throughput).map_or("-".to_owned(), |found| format!("{:.2}", found.ratio))
        };
        std::iter::once(row.algorithm.clone()).chain(sizes.iter().map(at)).collect()
    });
    let _ = writeln!(text, "{}", table(width, &header, by_size));
    text
}

/// The device's operations a second divided by the library's.
fn answer<'a>(size: u32, rows: impl Iterator<Item = &'a Row>) -> String {
    let ratios: Vec<(f64, &str)> =
        rows.filter_map(|row| Some((row.throughput()?.ratio, row.algorithm.as_str()))).collect();
    let all: Vec<f64> = ratios.iter().map(|(ratio, _)| *ratio).collect();
    let least = ratios.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(middle), Some((least, name))) = (median(&all), least) else { return String::new() };
    let size = units::size(f64::from(size));
    match all.len() {
        1 => {
            format!("With {size} a request the device does {least:.2} of the library's operations ({name})\n")
        }
        count => format!(
            "With {size} a request the device does {middle:.2} of the library's operations (median of {count}), \
             {least:.2} at least ({name})\n"
        ),
    }
}

fn disturbed(results: &Results) -> String {
    let blocks = || results.rows.iter().flat_map(|row| &row.blocks);
    match blocks().filter(|block| block.disturbance.is_some()).count() {
        0 => "none".to_owned(),
        count => format!("in {count} of {} blocks", blocks().count()),
    }
}

fn ratio(estimate: Option<RatioEstimate>) -> String {
    let Some(RatioEstimate { ratio, interval, .. }) = estimate else { return "-".to_owned() };
    match interval {
        Some((low, high)) => format!("{ratio:.2} [{low:.2}, {high:.2}]"),
        None => format!("{ratio:.2}"),
    }
}

fn table(width: usize, header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Disabled).set_width(width as u16).set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

#[cfg(test)]
mod tests {
    use crypto_driver::bench::Block;
    use lab::Origin;
    use measure::Histogram;

    use super::super::SCHEMA;
    use super::*;

    fn row(algorithm: &str, bytes: u32, ratio: f64) -> Row {
        let block = |level: f64| Block {
            library_per_s: 1000.0 * level,
            alone_per_s: 100.0 * level,
            device_per_s: 1000.0 * level * ratio,
            disturbance: (level > 5.0).then(|| "10 ms stolen".to_owned()),
        };
        let mut alone = Histogram::new();
        alone.record_ns(10_000);
        let blocks = (1..=6).map(f64::from).map(block).collect();
        Row { algorithm: algorithm.to_owned(), bytes, blocks, alone: alone.clone(), deep: alone }
    }

    #[test]
    fn the_answer_comes_first_and_all_of_it_fits_a_screen() {
        let algorithms = crypto_driver::bench::Algorithm::ALL;
        let rows = algorithms.iter().enumerate().flat_map(|(number, algorithm)| {
            let ratio = 0.5 + 0.05 * number as f64;
            [64, 16384, 65536]
                .map(|bytes| row(algorithm.name, bytes, if bytes == 16384 { ratio } else { 0.1 }))
        });
        let results = Results {
            origin: Origin::now(SCHEMA).unwrap(),
            target: "/run/c.sock".into(),
            packed: true,
            depth: 16,
            trial_ns: 20_000_000,
            rows: rows.collect(),
        };
        let text = text(&results, 120);
        let first = text.lines().next().unwrap();
        assert!(
            first.contains("16 KiB a request")
                && first.contains("0.73 of")
                && first.contains("0.50 at least"),
            "{text}"
        );
        assert!(text.contains("0.50 [0.50, 0.50]") && text.contains("in 30 of 180 blocks"), "{text}");
        assert!(text.lines().count() <= 30, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }
}
