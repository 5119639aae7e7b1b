//! A page of latencies beside their limits, and of the programs and handlers that took the time of the worst.

use maud::{Markup, html};

/// The content of the page. Every text is escaped.
#[derive(Clone, Debug, Default)]
pub struct Bars {
    /// The page's title.
    pub title: String,
    /// Lines above.
    pub facts: Vec<String>,
    /// A bar for each figure.
    pub bars: Vec<Bar>,
    /// Causes with their times in µs, under a heading.
    pub parts: Vec<(&'static str, Vec<(String, f64)>)>,
}

/// A figure beside its limit.
#[derive(Clone, Debug)]
pub struct Bar {
    /// The stage and the statistic.
    pub name: String,
    /// The value found, µs; `None` if nothing was measured.
    pub found_us: Option<f64>,
    /// The limit, µs; `None` if there is none.
    pub limit_us: Option<f64>,
}

impl Bar {
    fn misses(&self) -> bool {
        self.limit_us.is_some_and(|limit| self.found_us.is_none_or(|found| found > limit))
    }

    fn said(&self) -> String {
        let found = self.found_us.map_or("nothing measured".into(), |found| format!("{found:.1} µs"));
        match self.limit_us {
            Some(limit) if self.misses() => format!("{found}, missed: at most {limit} µs"),
            Some(limit) => format!("{found} of {limit} µs"),
            None => found,
        }
    }
}

/// The page.
pub fn render(bars: &Bars) -> String {
    super::page::page(
        &bars.title,
        html! {
            header { p class="brand" { "Tautline" } h1 { (bars.title) } }
            main {
                @for fact in &bars.facts { p { (fact) } }
                @if !bars.bars.is_empty() { h2 { "Measured, and the limit" } (drawn(&bars.bars)) }
                @for (heading, parts) in &bars.parts { @if !parts.is_empty() {
                    h2 { (heading) }
                    table { tbody { @for (cause, us) in parts {
                        tr { td class="figure" { (format!("{us:.1} µs")) } td { (cause) } }
                    } } }
                } }
            }
        },
    )
}

pub(super) fn drawn(bars: &[Bar]) -> Markup {
    let ends = bars.iter().flat_map(|bar| [bar.found_us, bar.limit_us]).flatten();
    let end = ends.fold(f64::MIN_POSITIVE, f64::max);
    // On a linear scale, one long worst case would make the others invisible.
    let place = |us: f64| 100.0 * (1.0 + us.max(0.0)).ln() / (1.0 + end).ln().max(f64::MIN_POSITIVE);
    html! {
        div class="bars" { @for bar in bars {
            div {
            span { (bar.name) }
            div class="bar" role="img" aria-label=(bar.said()) {
                @if let Some(found) = bar.found_us {
                    span class=(if bar.misses() { "s2" } else { "s1" }) style=(format!("width:{:.3}%", place(found).min(100.0))) {}
                }
                @if let Some(limit) = bar.limit_us {
                    span class="limit" style=(format!("left:{:.3}%", place(limit).min(99.5))) {}
                }
            }
            span class=(if bar.misses() { "value missed" } else { "value" }) { (bar.said()) }
            }
        } }
        p class="note" { "The scale is logarithmic. An upright line is a limit; a bar that passes it misses it." }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_limit_is_said_and_drawn() {
        let bar = |found_us, limit_us| Bar { name: "<wake-up>".into(), found_us, limit_us };
        let page = render(&Bars {
            bars: vec![
                bar(Some(60.0), Some(50.0)),
                bar(Some(20.0), Some(50.0)),
                bar(None, Some(1.0)),
                bar(Some(1.0), None),
            ],
            parts: vec![("The worst", vec![("a <hog>".into(), 40.0)])],
            ..Bars::default()
        });
        assert!(page.contains("60.0 µs, missed: at most 50 µs") && page.contains("20.0 µs of 50 µs"));
        assert!(page.contains("nothing measured, missed") && page.contains("a &lt;hog&gt;"));
        assert_eq!(page.matches("class=\"limit\"").count(), 3);
        assert!(render(&Bars::default()).contains("Tautline"));
    }
}
