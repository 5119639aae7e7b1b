//! The parts of the page of one run: each has a heading, an address within the page, and can be folded.

use maud::{Markup, html};
use measure::Group;

/// One part.
pub(super) struct Section {
    /// The section's address within the run.
    pub(super) id: &'static str,
    pub(super) title: String,
    /// The text beside the title: the section's main result.
    pub(super) words: String,
    pub(super) content: Markup,
    fold: Fold,
}

#[derive(PartialEq)]
enum Fold {
    Never,
    Open,
    Closed,
}

impl Section {
    /// A part that cannot be folded.
    pub(super) fn always(id: &'static str, title: &str, content: Markup) -> Self {
        Section { id, title: title.into(), words: String::new(), content, fold: Fold::Never }
    }

    /// A section that can be folded and is open at first.
    pub(super) fn open(id: &'static str, title: String, words: String, content: Markup) -> Self {
        Section { id, title, words, content, fold: Fold::Open }
    }

    /// A section that is folded at first.
    pub(super) fn closed(id: &'static str, title: &str, content: Markup) -> Self {
        Section { id, title: title.into(), words: String::new(), content, fold: Fold::Closed }
    }

    /// Renders the section. The run's name is put before its address.
    pub(super) fn draw(&self, run: &str) -> Markup {
        let id = format!("{run}-{}", self.id);
        let heading = html! {
            h2 { (self.title) " " a class="anchor" href=(format!("#{id}")) aria-label=(format!("Link to {}", self.title)) { "#" } }
        };
        html! {
            section id=(id) {
                @if self.fold == Fold::Never { (heading) (self.content) }
                @else {
                    details class="part" open[self.fold == Fold::Open] {
                        summary { (heading) @if !self.words.is_empty() { span class="note" { (self.words) } } }
                        (self.content)
                    }
                }
            }
        }
    }
}

/// The contents of all runs: a link for each part.
pub(super) fn contents(runs: &[(String, String, Vec<Section>)]) -> Markup {
    html! {
        nav class="contents" aria-label="Contents" {
            form hidden role="search" {
                input id="find" type="search" placeholder="Find a metric" aria-label="Find a metric" autocomplete="off";
                output id="found" for="find" {}
            }
            @for (run, title, sections) in runs {
                @if !title.is_empty() { p class="note" { (title) } }
                @if !sections.is_empty() { ul class="scroll" { @for section in sections { li { a href=(format!("#{run}-{}", section.id)) { (section.title) } } } } }
            }
        }
    }
}

/// The title of a group of metrics.
pub(super) fn title(group: Group) -> &'static str {
    match group {
        Group::Cpu => "Computing (cpu)",
        Group::Memory => "Memory (memory)",
        Group::Os => "The kernel's services (os)",
        Group::Wakeup => "Wake-ups (wakeup)",
        Group::Tti => "Ticks (tti)",
        Group::Net => "Network (net)",
        Group::Kvm => "Exits and interrupts (kvm)",
        Group::External => "Your own program (external)",
    }
}
