//! A page of a guest's exits: how often, how long, and where each virtual CPU's time went.

use maud::{Markup, html};

/// The content of the page. Every text is escaped.
#[derive(Clone, Debug, Default)]
pub struct Exits {
    /// The page's title.
    pub title: String,
    /// Lines above the tables.
    pub facts: Vec<String>,
    /// The reasons, the one with the longest time first.
    pub reasons: Vec<Reason>,
    /// By number.
    pub vcpus: Vec<Vcpu>,
    /// The kernel's own counts a second, by name, if nothing was traced.
    pub counts: Vec<(String, f64)>,
    /// Lines below.
    pub notes: Vec<String>,
}

/// Exits of a virtual CPU for one reason.
#[derive(Clone, Debug)]
pub struct Reason {
    /// The number of the virtual CPU.
    pub vcpu: u64,
    /// The reason.
    pub name: String,
    /// Exits a second.
    pub per_second: f64,
    /// The median, 99th percentile and maximum of the exits' times, ns.
    pub at_most_ns: [Option<u64>; 3],
    /// The share of these exits in the time of all virtual CPUs, not counting halted time.
    pub share: f64,
}

/// The use of a virtual CPU's time, ns.
#[derive(Clone, Debug)]
pub struct Vcpu {
    /// Its number.
    pub number: u64,
    /// Time in the guest.
    pub guest_ns: u64,
    /// Time in the kernel.
    pub kernel_ns: u64,
    /// Time in user space.
    pub user_ns: u64,
    /// Halted.
    pub halted_ns: u64,
}

impl Vcpu {
    fn parts(&self) -> [(&'static str, &'static str, u64); 4] {
        [
            ("guest", "s3", self.guest_ns),
            ("kernel", "s1", self.kernel_ns),
            ("user space", "s2", self.user_ns),
            ("halted", "s0", self.halted_ns),
        ]
    }
}

/// The page.
pub fn render(exits: &Exits) -> String {
    super::page::page(
        &exits.title,
        html! {
            header { p class="brand" { "Tautline" } h1 { (exits.title) } }
            main {
                @for fact in &exits.facts { p { (fact) } }
                @if !exits.vcpus.is_empty() { h2 { "Where the time went" } (bars(&exits.vcpus)) }
                @if !exits.reasons.is_empty() {
                    h2 { "Exits" }
                    (super::page::scrolling(reasons(&exits.reasons)))
                    p class="note" {
                        "Lengths are from exit to entry, to the next power of two, what was halted included; the share is \
                         without it."
                    }
                }
                @if exits.reasons.is_empty() && exits.counts.is_empty() { p class="warning" { "No exit was seen." } }
                @if !exits.counts.is_empty() {
                    h2 { "Counted by KVM" }
                    table {
                        thead { tr { th { "what" } th { "a second" } } }
                        tbody { @for (name, rate) in &exits.counts {
                            tr { th { (name) } td class="figure" { (format!("{rate:.0}")) } }
                        } }
                    }
                }
                @if !exits.notes.is_empty() {
                    h2 { "Notes" }
                    ul class="plain" { @for note in &exits.notes { li { (note) } } }
                }
            }
        },
    )
}

fn bars(vcpus: &[Vcpu]) -> Markup {
    html! {
        @if let Some(first) = vcpus.first() {
            ul class="legend" { @for (name, color, _) in first.parts() {
                li { span class=(format!("swatch box {color}")) {} (name) }
            } }
        }
        div class="bars" { @for vcpu in vcpus {
            @let whole = vcpu.parts().iter().map(|part| part.2).sum::<u64>().max(1) as f64;
            div {
            span { "vCPU " (vcpu.number) }
            div class="bar" role="img" aria-label=(said(vcpu, whole)) {
                @for (name, color, ns) in vcpu.parts() { @if ns > 0 {
                    span class=(color) title=(name) style=(format!("width:{:.3}%", ns as f64 * 100.0 / whole)) {}
                } }
            }
            span class="value" { (format!("{:.2} s", whole / 1e9)) }
            }
        } }
        ul class="plain" { @for vcpu in vcpus {
            @let whole = vcpu.parts().iter().map(|part| part.2).sum::<u64>().max(1) as f64;
            li { "vCPU " (vcpu.number) ": " (said(vcpu, whole)) }
        } }
    }
}

fn said(vcpu: &Vcpu, whole: f64) -> String {
    let parts = vcpu.parts().map(|(name, _, ns)| format!("{name} {:.1} %", ns as f64 * 100.0 / whole));
    parts.join(", ")
}

fn reasons(reasons: &[Reason]) -> Markup {
    html! {
        table class="exits" {
            thead { tr {
                th { "vCPU" } th { "reason" } th { "exits/s" } th { "p50" } th { "p99" } th { "max" } th { "share of time" }
            } }
            tbody { @for reason in reasons {
                tr {
                    td { (reason.vcpu) }
                    th { (reason.name) }
                    td class="figure" { (format!("{:.0}", reason.per_second)) }
                    @for at_most in reason.at_most_ns { td class="figure" { (length(at_most)) } }
                    td class="figure" { (format!("{:.2} %", reason.share * 100.0)) }
                }
            } }
        }
    }
}

fn length(at_most_ns: Option<u64>) -> String {
    at_most_ns.map_or("–".into(), |ns| format!("< {:.1} µs", ns as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_times_are_on_the_page_and_no_markup_of_others() {
        let page = render(&Exits {
            title: "A <b>guest".into(),
            reasons: vec![Reason {
                vcpu: 3,
                name: "<npf>".into(),
                per_second: 1234.4,
                at_most_ns: [Some(2048), Some(4096), None],
                share: 0.0625,
            }],
            vcpus: vec![Vcpu { number: 3, guest_ns: 50, kernel_ns: 25, user_ns: 25, halted_ns: 0 }],
            ..Exits::default()
        });
        assert!(page.contains("&lt;npf&gt;") && !page.contains("<b>guest"));
        for shown in ["1234", "&lt; 2.0 µs", "6.25 %", "guest 50.0 %, kernel 25.0 %", "width:50.000%"] {
            assert!(page.contains(shown), "{shown} in {page}");
        }
        assert!(render(&Exits::default()).contains("No exit was seen"));
    }
}
