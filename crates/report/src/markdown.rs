//! Tables in Markdown, aligned so that a terminal shows them as well.
use std::fmt::Write;

/// Stands for a missing figure.
pub const NONE: &str = "–";

/// A heading and its table; empty if there is no row. Columns that contain only numbers are aligned to the right.
pub fn table(title: &str, headings: &[&str], rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let length = |text: &str| text.chars().count();
    let width = |at: usize| rows.iter().map(|row| length(&row[at])).chain([length(headings[at]), 3]).max();
    let number = |cell: &str| cell == NONE || cell.trim_start_matches(['≥', ' ']).parse::<f64>().is_ok();
    let columns: Vec<(usize, bool)> = (0..headings.len())
        .map(|at| (width(at).unwrap_or_default(), rows.iter().all(|row| number(&row[at]))))
        .collect();
    let mut text = format!("### {title}\n\n");
    let mut line = |cells: &[&str]| {
        for (cell, (width, right)) in cells.iter().zip(&columns) {
            let _ = match right {
                true => write!(text, "| {cell:>width$} "),
                false => write!(text, "| {cell:<width$} "),
            };
        }
        text.push_str("|\n");
    };
    line(headings);
    let rules: Vec<String> = columns
        .iter()
        .map(|(width, right)| "-".repeat(width - usize::from(*right)) + if *right { ":" } else { "" })
        .collect();
    line(&rules.iter().map(String::as_str).collect::<Vec<_>>());
    rows.iter().for_each(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_to_the_right_and_words_to_the_left() {
        let row = |name: &str, rate: &str| vec![name.to_owned(), rate.to_owned()];
        let text = table("Rates", &["ring", "Mpps"], &[row("packed", "≥ 12.5"), row("TAP", NONE)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "### Rates",
                "",
                "| ring   |   Mpps |",
                "| ------ | -----: |",
                "| packed | ≥ 12.5 |",
                "| TAP    |      – |",
                "",
            ]
        );
        assert_eq!(table("None", &["ring"], &[]), "");
    }
}
