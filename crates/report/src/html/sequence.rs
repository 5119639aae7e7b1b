//! A page with a sequence diagram: the steps of one packet, top down.

use maud::{Markup, html};

/// The content of the page. Every text is escaped.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    /// The page's title.
    pub title: String,
    /// Lines above the diagram.
    pub facts: Vec<String>,
    /// Each lane's program and mode. A lane is a vertical line.
    pub lanes: Vec<[String; 2]>,
    /// The arrows between lanes.
    pub arrows: Vec<Arrow>,
    /// Lines below.
    pub notes: Vec<String>,
}

/// One step.
#[derive(Clone, Debug, Default)]
pub struct Arrow {
    /// The lane where the arrow begins.
    pub from: usize,
    /// To which.
    pub to: usize,
    /// What.
    pub label: String,
    /// Its times.
    pub time: String,
}

const LANE: usize = 150;
const MARGIN: usize = 70;
const HEAD: usize = 50;
const ROW: usize = 34;

/// The page.
pub fn render(sequence: &Sequence) -> String {
    super::page::page(
        &sequence.title,
        html! {
            header { p class="brand" { "Tautline" } h1 { (sequence.title) } }
            main {
                @for fact in &sequence.facts { p { (fact) } }
                @if !sequence.arrows.is_empty() {
                    h2 { "Sequence" }
                    (super::page::scrolling(diagram(sequence)))
                    h2 { "Steps" }
                    (super::page::scrolling(table(sequence)))
                }
                @if !sequence.notes.is_empty() {
                    h2 { "Notes" }
                    ul class="plain" { @for note in &sequence.notes { li { (note) } } }
                }
            }
        },
    )
}

fn diagram(sequence: &Sequence) -> Markup {
    let lanes = sequence.lanes.len();
    let last = lanes.saturating_sub(1);
    let width = 2 * MARGIN + last * LANE;
    let height = HEAD + (sequence.arrows.len() + 1) * ROW;
    let x = |lane: usize| MARGIN + lane.min(last) * LANE;
    html! {
        svg width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(sequence.title) {
            @for (lane, [who, mode]) in sequence.lanes.iter().enumerate() {
                text x=(x(lane)) y="16" text-anchor="middle" { (who) }
                text class="tick" x=(x(lane)) y="32" text-anchor="middle" { (mode) }
                line x1=(x(lane)) x2=(x(lane)) y1=(HEAD - 10) y2=(height) stroke="var(--rule)" {}
            }
            @for (number, arrow) in sequence.arrows.iter().enumerate() {
                @let y = HEAD + (number + 1) * ROW;
                @let (from, to) = (x(arrow.from), x(arrow.to));
                @let tip = if to >= from { to.saturating_sub(7) } else { to + 7 };
                text class="tick" x="4" y=(y + 4) { (number + 1) }
                line x1=(from) x2=(to) y1=(y) y2=(y) stroke="var(--accent)" stroke-width="1.5" {}
                polygon points=(format!("{to},{y} {tip},{} {tip},{}", y - 4, y + 4)) fill="var(--accent)" {}
                text class="small over" x=((from + to) / 2) y=(y - 5) text-anchor="middle" { (arrow.label) }
            }
        }
    }
}

fn table(sequence: &Sequence) -> Markup {
    let name = |lane: usize| sequence.lanes.get(lane).map(|lane| format!("{} ({})", lane[0], lane[1]));
    html! {
        table class="steps" {
            thead { tr { th {} th { "from" } th { "to" } th { "by" } th { "median, worst" } } }
            tbody {
                @for (number, arrow) in sequence.arrows.iter().enumerate() {
                    tr {
                        td { (number + 1) }
                        td class="figure" { (name(arrow.from).unwrap_or_default()) }
                        td class="figure" { (name(arrow.to).unwrap_or_default()) }
                        td { (arrow.label) }
                        td class="figure" { (arrow.time) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_every_step_and_no_markup_of_others() {
        let arrow = |from, to, label: &str| Arrow { from, to, label: label.into(), time: "1 µs".into() };
        let page = render(&Sequence {
            title: "A <b>packet".into(),
            lanes: vec![["vCPU 0".into(), "guest".into()], ["vCPU 0".into(), "host kernel".into()]],
            arrows: vec![arrow(0, 1, "exit: <npf>"), arrow(1, 0, "entry"), arrow(7, 9, "broken")],
            ..Sequence::default()
        });
        assert!(page.contains("exit: &lt;npf&gt;") && !page.contains("<b>packet"));
        assert_eq!(page.matches("<polygon").count(), 3);
    }
}
