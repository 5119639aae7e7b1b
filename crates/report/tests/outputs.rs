//! What a reader must find in the outputs, whatever the results file holds.

use measure::compare::{Analysis, analyse};
use measure::{Failure, Histogram, MetricId, Results, Verdict, example};
use report::{EMULATED_MARK, EMULATED_MEANING, diff::Diff, html, terminal};

fn wide(results: &Results) -> String {
    terminal::render(results, &analyse(results), 200, false)
}

fn line<'a>(text: &'a str, words: &[&str]) -> &'a str {
    text.lines()
        .find(|line| words.iter().all(|word| line.contains(word)))
        .unwrap_or_else(|| panic!("no line with {words:?} in\n{text}"))
}

fn place(text: &str, words: &str) -> usize {
    text.find(words).unwrap_or_else(|| panic!("no {words:?} in\n{text}"))
}

#[test]
fn worst_degradations_come_first_within_each_group() {
    let order = ["system call", "select on 500", "fork and exec", "pipe round trip", "AF_UNIX bandwidth"];
    let page = html::render(&[example::results()]);
    // What stands above the groups names the worst of each environment.
    let groups = page[place(&page, "id=\"run1-cpu\"")..].to_owned();
    for output in [wide(&example::results()), groups] {
        let places: Vec<_> = order.iter().map(|title| place(&output, title)).collect();
        assert!(places.is_sorted(), "{places:?}");
    }
}

#[test]
fn an_interval_that_holds_one_is_no_difference_shown_and_few_starts_are_no_finding() {
    let text = wide(&example::results());
    assert!(line(&text, &["read bandwidth"]).contains("no difference shown"));
    assert!(line(&text, &["system call"]).contains("×1.9"));
    assert!(line(&text, &["fork and exec"]).contains("too few starts (2)"));
    let page = html::render(&[example::results()]);
    assert!(page.contains("no difference shown") && page.contains("too few starts (2)"));
}

#[test]
fn every_emulated_figure_is_marked_and_the_mark_explained() {
    let results = example::results();
    let analysis = analyse(&results);
    for width in [60, 80, 120, 200] {
        let text = terminal::render(&results, &analysis, width, false);
        assert!(text.contains(&format!("vm{EMULATED_MARK}")));
        let words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(EMULATED_MEANING), "{text}");
    }
    let text = terminal::render(&results, &analysis, 200, false);
    let page = html::render(&[example::results()]);
    for ((metric, environment), summary) in &analysis.summaries {
        let spec = results.metric(metric).unwrap();
        if environment != "vm" || spec.curve.is_some() || summary.histogram.is_some() {
            continue;
        }
        let figure = report::units::value(summary.median, &spec.unit);
        for output in [&text, &page] {
            let found = output.match_indices(&figure).map(|(at, _)| &output[at + figure.len()..]);
            let marked = found.filter(|after| after.starts_with(EMULATED_MARK)).count();
            assert!(marked > 0, "{figure} of {metric} stands unmarked");
        }
        let slowdown = analysis.comparison(metric, environment).unwrap().slowdown;
        assert!(text.contains(&format!("{}{EMULATED_MARK}", report::units::factor(slowdown))));
    }
    let native = example::only_host();
    assert!(!wide(&native).contains(EMULATED_MARK));
}

#[test]
fn what_is_missing_is_named_with_its_reason() {
    let results = example::results();
    for output in [wide(&results), html::render(&[example::results()])] {
        assert!(output.contains("apt-get install lxc"), "the failed environment");
        assert!(output.contains("Cannot allocate memory"), "the absent metrics");
        assert!(output.contains("absent"), "the place of what is absent");
        assert!(output.contains("no SCHED_FIFO: EPERM"), "the agent's remark");
        assert!(output.contains("3 of 3159 trials discarded"), "the discarded trials");
        assert!(output.contains("2 kept although noisy"), "the noisy ones");
    }
}

#[test]
fn a_plot_names_the_environment_it_has_no_line_of() {
    let page = html::render(&[example::results()]);
    assert_eq!(page.matches("huge pages; not measured: vm†").count(), 2, "one for each pattern");
}

#[test]
fn tails_carry_their_samples_the_time_watched_and_the_bound() {
    for output in [wide(&example::results()), html::render(&[example::results()])] {
        assert!(output.contains("16\u{202f}000") && output.contains("16 s") && output.contains("0.0188 %"));
        assert!(!output.contains("WCET"));
    }
}

#[test]
fn no_width_loses_the_slowdown_of_the_tails() {
    let results = example::results();
    let analysis = analyse(&results);
    let comparison = analysis.comparison(&MetricId::new("wakeup.idle"), "container").unwrap();
    let factor = report::units::factor(comparison.slowdown);
    for width in [60, 80, 110, 130, 200] {
        let text = terminal::render(&results, &analysis, width, false);
        let wakeup = &text[place(&text, "\n wakeup\n")..place(&text, "\n external\n")];
        assert!(wakeup.contains(&factor), "{width}: {wakeup}");
    }
}

#[test]
fn an_interrupted_run_an_empty_one_and_one_environment_are_shown_as_such() {
    for output in [wide(&example::empty()), html::render(&[example::empty()])] {
        assert!(output.to_lowercase().contains("interrupted"));
        assert!(output.to_lowercase().contains("nothing was measured"), "{output}");
    }
    for output in [wide(&example::only_host()), html::render(&[example::only_host()])] {
        assert!(output.contains("system call") && !output.contains("no ratio"));
    }
    assert!(html::render(&[]).contains("nothing to show"));
}

#[test]
fn a_quick_run_says_so_in_every_output() {
    let mut results = example::results();
    assert!(wide(&results).contains("QUICK") && html::render(&[example::results()]).contains("QUICK"));
    results.plan.quick = false;
    assert!(!wide(&results).contains("QUICK") && !html::render(&[results]).contains("QUICK"));
}

#[test]
fn tables_fit_the_terminal() {
    let results = example::results();
    let analysis = analyse(&results);
    for width in [40, 60, 80, 100, 140, 200] {
        for row in terminal::render(&results, &analysis, width, false).lines() {
            assert!(row.chars().count() <= width, "{width}: {row}");
        }
    }
    assert!(terminal::render(&results, &analysis, 100, true).contains("\x1b["));
    assert!(!terminal::render(&results, &analysis, 100, false).contains('\x1b'));
}

/// The example with `hostile` in every text.
fn hostile_everywhere(hostile: &str) -> Results {
    let mut results = example::results();
    for environment in &mut results.environments {
        let name = format!("{}{hostile}", environment.name);
        for trial in results.trials.iter_mut().filter(|trial| trial.environment == environment.name) {
            trial.environment = name.clone();
        }
        for absence in results.absences.iter_mut().filter(|a| a.environment == environment.name) {
            absence.environment = name.clone();
            absence.reason = Failure::new(hostile, hostile, hostile);
        }
        environment.name = name;
        environment.accelerator.push_str(hostile);
        environment.facts.push((hostile.into(), hostile.into()));
        environment.failure = environment.failure.as_ref().map(|_| Failure::new(hostile, hostile, hostile));
    }
    for spec in &mut results.metrics {
        let id = MetricId::new(format!("{}{hostile}", spec.id));
        for trial in results.trials.iter_mut().filter(|trial| trial.metric == spec.id) {
            trial.metric = id.clone();
        }
        spec.id = id;
        spec.title.push_str(hostile);
        if let Some(curve) = &mut spec.curve {
            curve.curve.push_str(hostile);
            curve.x_title.push_str(hostile);
        }
        if let measure::Unit::Other(unit) = &mut spec.unit {
            unit.push_str(hostile);
        }
    }
    for trial in &mut results.trials {
        trial.outcome.remarks.push(hostile.into());
        if let Verdict::Discarded(reason) | Verdict::KeptNoisy(reason) = &mut trial.verdict {
            reason.push_str(hostile);
        }
    }
    results.host.cpu_model = hostile.into();
    results.host.kernel = hostile.into();
    results.host.command_line = hostile.into();
    results.host.hypervisor = hostile.into();
    results.host.mitigations.push((hostile.into(), hostile.into()));
    results.command.push(hostile.into());
    results.started = hostile.into();
    results.tautline = hostile.into();
    results
}

#[test]
fn texts_from_the_file_never_become_markup_or_terminal_commands() {
    let hostile = "<script>alert(1)</script>\"'><img src=http://127.0.0.1/x>&amp;\x1b[2J\r\n\u{202e}";
    let results = hostile_everywhere(hostile);
    let page =
        html::render(&[results.clone(), example::results()]) + &html::render(std::slice::from_ref(&results));
    let page = page.replace(FINDER, "");
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert!(page.contains("&lt;script&gt;") && page.contains("&amp;amp;"));
    let difference = Diff::new(&results, &results).render(100, false);
    for text in [wide(&results), difference, page] {
        for unfit in ['\x1b', '\r', '\u{202e}'] {
            let around =
                text.split(unfit).next().map(|before| &before[before.len() - before.len().min(200)..]);
            assert!(!text.contains(unfit), "{unfit:?} after {around:?}");
        }
    }
}

/// The one script of the page.
const FINDER: &str = concat!("<script>", include_str!("../src/html/find.js"), "</script>");

#[test]
fn the_page_forbids_itself_every_request() {
    let page = html::render(&[example::results()]);
    let policy = "Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-";
    assert!(page.contains(policy));
    assert_eq!(page.matches(FINDER).count(), 1);
    let page = page.replace(FINDER, "").replace("href=\"#", "");
    for word in ["src=", "href=", "url(", "@import", "<script", "http://", "https://"] {
        assert!(!page.contains(word), "{word}");
    }
}

/// What stands in quotes behind each occurrence of a word.
fn quoted<'a>(page: &'a str, word: &'a str) -> Vec<&'a str> {
    page.split(word).skip(1).map(|rest| rest.split('"').next().unwrap()).collect()
}

#[test]
fn every_link_leads_to_one_place_on_the_page() {
    for runs in
        [vec![example::results()], vec![example::results(), example::results()], vec![example::empty()]]
    {
        let page = html::render(&runs);
        let ids = quoted(&page, " id=\"");
        let links = quoted(&page, "href=\"#");
        assert!(links.len() > 5 * runs.len(), "{links:?}");
        for link in links {
            assert_eq!(ids.iter().filter(|id| **id == link).count(), 1, "{link} of {ids:?}");
        }
    }
}

#[test]
fn the_page_begins_with_a_sentence_and_a_chart_for_each_environment() {
    let results = example::results();
    let analysis = analyse(&results);
    let page = html::render(&[example::results()]);
    let answer = &page[place(&page, "id=\"run1-answer\"")..place(&page, "id=\"run1-read\"")];
    for record in &results.environments[1..] {
        let is_compared = analysis.comparisons.iter().any(|c| c.environment == record.name);
        let mark = if record.emulated { EMULATED_MARK } else { "" };
        let heading = format!("{}{mark} beside host</h3>", record.name);
        assert_eq!(answer.contains(&heading), is_compared, "{heading} in {answer}");
    }
    assert_eq!(answer.matches("<svg class=\"dots\"").count(), answer.matches(" beside host</h3>").count());
    assert!(
        answer.contains("metrics slower: ") && answer.contains("Not measured, and what would add it"),
        "{answer}"
    );
    // Facts and noise come last, folded; groups are open.
    let parts = ["run1-answer", "run1-cpu", "run1-os", "run1-gaps", "run1-environments", "run1-facts"];
    assert!(parts.map(|part| place(&page, &format!("id=\"{part}\""))).is_sorted());
    for (part, is_open) in [("run1-cpu", true), ("run1-gaps", false), ("run1-facts", false)] {
        let opening =
            format!("<section id=\"{part}\"><details class=\"part\"{}>", if is_open { " open" } else { "" });
        assert!(page.contains(&opening), "{opening}");
    }
}

#[test]
fn two_runs_show_what_changed_and_which_facts_differ() {
    let before = example::results();
    let mut after = example::results();
    after.host.kernel = "6.12.0-1-amd64 #1".into();
    after.environments.retain(|environment| environment.name != "lxc");
    for trial in after.trials.iter_mut().filter(|trial| trial.metric.as_str() == "os.syscall") {
        trial.outcome.value *= 1.4;
    }
    let diff = Diff::new(&before, &after);
    assert_eq!(diff.comparisons[0].metric.as_str(), "os.syscall");
    assert!((diff.comparisons[0].slowdown - 1.4).abs() < 1e-9);
    let text = diff.render(120, false);
    assert!(line(&text, &["system call", "host"]).contains("×1.40"));
    assert!(line(&text, &["kernel", "6.1.0-42"]).contains("6.12.0-1"));
    assert!(text.contains("environment lxc only before"));
    let page = html::render(&[before, after]);
    assert!(page.contains("6.12.0-1") && page.contains("×1.40"));
}

#[test]
fn published_figures_are_labelled_with_their_platform() {
    let page = html::render(&[example::results()]);
    assert!(page.contains("Published elsewhere") && page.contains("QorIQ T4240, 2014"));
    assert!(page.contains("×5.18 (417.81 %)"));
    assert!(!html::render(&[example::only_host()]).contains("QorIQ"), "nothing to hold it against");
}

#[test]
fn histograms_without_samples_and_values_that_are_no_numbers_are_drawn_without_harm() {
    let mut results = example::results();
    for (number, trial) in results.trials.iter_mut().enumerate() {
        trial.outcome.value = [f64::NAN, f64::INFINITY, 0.0, -1.0, f64::MAX, f64::MIN_POSITIVE][number % 6];
        if trial.outcome.histogram.is_some() {
            trial.outcome.histogram = Some(Histogram::new());
        }
    }
    assert!(!wide(&results).contains("NaN") && !wide(&results).contains("inf "));
    assert!(!html::render(&[results]).contains("NaN"));
    let nothing = terminal::render(&example::results(), &Analysis::default(), 80, false);
    assert!(nothing.contains("nothing was measured"));
}
