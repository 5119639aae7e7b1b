//! Slowdowns as points with their intervals on a logarithmic axis, a line at 1.

use maud::{Markup, html};

use crate::units;

use super::scale::{LogAxis, drawable};
use super::{Series, WIDTH, frame, number};

/// One metric's slowdowns.
pub(crate) struct Row {
    pub(crate) title: String,
    pub(crate) points: Vec<Point>,
}

/// One slowdown.
pub(crate) struct Point {
    pub(crate) series: Series,
    pub(crate) ratio: f64,
    pub(crate) interval: Option<(f64, f64)>,
    /// The finding, in words.
    pub(crate) finding: String,
}

const LEFT: f64 = 172.0;
const RIGHT: f64 = WIDTH - 66.0;
const TOP: f64 = 24.0;
const POINT_HEIGHT: f64 = 15.0;
const ROW_GAP: f64 = 9.0;
/// The characters that fit left of the axis.
const TITLE_WIDTH: usize = 27;

/// The chart; `None` if no ratio can be drawn. The axis also covers `range`, so that charts side by side have the
/// same scale.
pub(crate) fn draw(label: &str, rows: &[Row], range: &[f64]) -> Option<Markup> {
    let points = || rows.iter().flat_map(|row| &row.points);
    let extents = points()
        .flat_map(|p| [p.ratio, p.interval.map_or(p.ratio, |i| i.0), p.interval.map_or(p.ratio, |i| i.1)]);
    if !points().any(|point| drawable(point.ratio)) {
        return None;
    }
    let axis = LogAxis::around(extents.chain([1.0]).chain(range.iter().copied()), 1.25, LEFT, RIGHT)?;
    let mut top = TOP;
    let placed: Vec<(f64, f64, &Row)> = rows
        .iter()
        .map(|row| {
            let lines = row.points.len().max(if row.title.chars().count() > TITLE_WIDTH { 2 } else { 1 });
            let height = lines as f64 * POINT_HEIGHT + ROW_GAP;
            top += height;
            (top - height, height, row)
        })
        .collect();
    let bottom = top;
    Some(frame(
        bottom + 8.0,
        label,
        html! {
            @for (top, height, _) in placed.iter().step_by(2) {
                rect class="stripe" x="0" width=(number(WIDTH)) y=(number(*top)) height=(number(*height)) {}
            }
            @for tick in axis.ticks(6) {
                line class="grid" x1=(number(axis.at(tick))) x2=(number(axis.at(tick))) y1=(number(TOP)) y2=(number(bottom)) {}
                text class="tick" x=(number(axis.at(tick))) y=(number(TOP - 8.0)) text-anchor="middle" { (super::factor_label(tick)) }
            }
            line class="one" x1=(number(axis.at(1.0))) x2=(number(axis.at(1.0))) y1=(number(TOP - 3.0)) y2=(number(bottom)) {}
            @for (top, height, row) in &placed {
                (title(&row.title, *top, *height))
                @for (line, point) in row.points.iter().enumerate() {
                    @let free = height - row.points.len() as f64 * POINT_HEIGHT;
                    @let y = top + free / 2.0 + (line as f64 + 0.5) * POINT_HEIGHT;
                    (draw_point(&axis, point, &row.title, y))
                }
            }
        },
    ))
}

fn draw_point(axis: &LogAxis, point: &Point, title: &str, y: f64) -> Markup {
    let mark = if point.series.emulated { crate::EMULATED_MARK } else { "" };
    html! {
        g {
            title { (title) ", " (point.series.name) ": " (point.finding) }
            @if let Some((low, high)) = point.interval {
                line class=(point.series.class("whisker")) x1=(number(axis.at(low))) x2=(number(axis.at(high))) y1=(number(y)) y2=(number(y)) {}
                @for end in [low, high] {
                    line class=(point.series.class("whisker end")) x1=(number(axis.at(end))) x2=(number(axis.at(end))) y1=(number(y - 4.0)) y2=(number(y + 4.0)) {}
                }
            }
            @if drawable(point.ratio) { (point.series.marker(axis.at(point.ratio), y)) }
            text class="figure" x=(number(WIDTH - 4.0)) y=(number(y + 4.0)) text-anchor="end" {
                (units::factor(point.ratio)) (mark)
            }
        }
    }
}

/// The title on one line or two. A longer title is cut; the tooltip and the table have all of it.
fn title(title: &str, top: f64, height: f64) -> Markup {
    let lines = broken(title);
    let first = top + height / 2.0 + 4.0 - (lines.len() - 1) as f64 * 7.0;
    html! {
        @for (number_of_line, line) in lines.iter().enumerate() {
            text class="label" x="4" y=(number(first + number_of_line as f64 * 14.0)) { (line) }
        }
    }
}

fn broken(title: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in title.split(' ') {
        let last = lines.last_mut().expect("starts with one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > TITLE_WIDTH {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    let cut = lines.len() > 2;
    lines.truncate(2);
    let last = lines.len() - 1;
    for (place, line) in lines.iter_mut().enumerate() {
        if line.chars().count() > TITLE_WIDTH || (cut && place == last) {
            *line = line.chars().take(TITLE_WIDTH - 1).chain(['…']).collect();
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::broken;

    #[test]
    fn titles_break_between_words_and_never_run_into_the_plot() {
        assert_eq!(broken("system call"), ["system call"]);
        assert_eq!(broken("select on 500 TCP sockets of one"), ["select on 500 TCP sockets", "of one"]);
        for title in ["x".repeat(90), "a b ".repeat(40), String::new(), "ä".repeat(28)] {
            let lines = broken(&title);
            assert!(lines.len() <= 2 && lines.iter().all(|line| line.chars().count() <= 27), "{lines:?}");
        }
    }
}
