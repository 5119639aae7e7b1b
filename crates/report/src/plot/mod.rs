//! Plots as inline SVG.
//!
//! Plots are written with the page's own markup macro, which escapes every text. Colours are CSS classes, so that
//! light, dark and print styles apply. Each plot has a title and a label for screen readers. All are [`WIDTH`]
//! units wide, so that a phone shows one readable plot and a desk two side by side.

pub(crate) mod curves;
pub(crate) mod dots;
pub(crate) mod histogram;
pub(crate) mod ratios;
mod scale;
pub(crate) mod trend;

use maud::{Markup, html};

/// Units of every plot's view box.
pub(crate) const WIDTH: f64 = 480.0;

/// Colours the style sheet knows.
const COLORS: usize = 6;

/// How a series looks: colour and shape by its position, dashed and hollow if emulated.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) place: usize,
    pub(crate) emulated: bool,
}

impl Series {
    pub(crate) fn class(&self, kind: &str) -> String {
        let emulated = if self.emulated { " emulated" } else { "" };
        format!("{kind} s{}{emulated}", self.place % COLORS)
    }

    /// The series' marker around a point. Shapes differ too: colour alone would leave some readers out.
    fn marker(&self, x: f64, y: f64) -> Markup {
        let class = self.class("marker");
        let around = |points: &[(f64, f64)]| -> String {
            points.iter().map(|(dx, dy)| format!("{},{} ", number(x + dx), number(y + dy))).collect()
        };
        html! {
            @match self.place % 4 {
                0 => { circle class=(class) cx=(number(x)) cy=(number(y)) r="3.5" {} }
                1 => { polygon class=(class) points=(around(&[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)])) {} }
                2 => { polygon class=(class) points=(around(&[(0.0, -4.4), (4.4, 0.0), (0.0, 4.4), (-4.4, 0.0)])) {} }
                _ => { polygon class=(class) points=(around(&[(0.0, -4.2), (4.0, 3.2), (-4.0, 3.2)])) {} }
            }
        }
    }
}

/// The legend of the colours, as a line of text with swatches.
pub(crate) fn legend(series: &[Series]) -> Markup {
    html! {
        ul class="legend" {
            @for one in series {
                li {
                    svg class="swatch" viewBox="0 0 28 12" width="28" height="12" aria-hidden="true" {
                        line class=(one.class("line")) x1="1" x2="27" y1="6" y2="6" {}
                        (one.marker(14.0, 6.0))
                    }
                    (one.name)
                    @if one.emulated { " " span class="note" { "(" (crate::EMULATED_MEANING) ")" } }
                }
            }
        }
    }
}

/// The frame of a plot of the given height.
pub(crate) fn frame(height: f64, label: &str, content: Markup) -> Markup {
    let label = crate::units::text(label);
    html! {
        svg class="plot" role="img" aria-label=(label) viewBox=(format!("0 0 {WIDTH} {}", number(height))) {
            title { (label) }
            (content)
        }
    }
}

/// A coordinate, short.
pub(crate) fn number(coordinate: f64) -> String {
    let text = format!("{coordinate:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A tick of an axis of ratios: `×1.5`.
fn factor_label(tick: f64) -> String {
    let text = format!("{tick:.2}");
    let text = if tick < 0.01 {
        format!("{tick:.0e}")
    } else {
        text.trim_end_matches('0').trim_end_matches('.').into()
    };
    format!("×{text}")
}
