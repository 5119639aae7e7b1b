//! The summary of a run, in at most [`LINES`] lines: where each environment differs and by how much, what a packet
//! costs on each path, how certain that is, and what was not measured. If a run's tables are no longer than that,
//! or it has no intervals, the tables are shown instead.

use comfy_table::{Attribute, Cell, Color};
use measure::compare::{Analysis, Comparison, Finding, expected_by_chance};
use measure::{EnvironmentRecord, Group, Results};

use crate::canvas::Canvas;
use crate::gaps::{self, Gap};
use crate::view::{View, environment_name, lengths};
use crate::{EMULATED_MEANING, coverage, network, units};

/// No answer is longer: with the two lines that name the results file and the page, a terminal of 30 lines shows all.
pub const LINES: usize = 28;

/// The most missing measurements that are shown.
const GAPS: usize = 4;
/// The most metrics that are named among those that differ in a group.
const WORST: usize = 3;
/// Columns of a group's name, and those that a line and its first column leave blank at their sides.
const GROUP: usize = 9;
const MARGIN: usize = 3;
/// The starts after which a line of progress names what differs.
const EARLIEST: usize = 3;
/// The narrowest terminal that lines are laid out for.
const NARROWEST: usize = 60;

/// The summary as text for a terminal of `width` columns, with or without colours.
pub fn render(results: &Results, analysis: &Analysis, width: usize, color: bool) -> String {
    let view = View::new(results, analysis);
    let tables = crate::terminal::render(results, analysis, width, color);
    let compares = analysis.comparisons.iter().any(|c| c.interval.is_some()) || !results.network.is_empty();
    if !compares || tables.lines().count() <= LINES {
        return tables;
    }
    let width = width.max(NARROWEST);
    let mut screen = Screen { canvas: Canvas::new(width, color), width, left: LINES };
    screen.head(&view);
    // Room is reserved for the last lines, on confidence and gaps, each with its heading.
    let (sure, gaps) = (sure(&view), gaps::by_remedy(&view));
    let kept = 1 + usize::from(sure.is_some()) + gaps.len().min(GAPS + 1) + usize::from(!gaps.is_empty());
    for environment in results.environments.iter().skip(1) {
        screen.environment(&view, environment, kept);
    }
    screen.network(&view, kept);
    if let Some(words) = sure {
        screen.line("sure", &words);
    }
    screen.gaps(&gaps);
    screen.canvas.finish()
}

/// The largest differences of each environment, in a few words for the progress line. `None` until three starts
/// have ended: before that, any order of the figures is likely by chance. A difference that is shown has no mark.
/// A difference has a question mark while too few starts have ended to judge it.
pub fn so_far(results: &Results) -> Option<String> {
    let analysis = measure::compare::analyse(results);
    let of = |environment: &EnvironmentRecord| {
        let differs = |c: &&Comparison| {
            let (low, high) = c.interval.unwrap_or((c.slowdown, c.slowdown));
            c.environment == environment.name && c.blocks >= EARLIEST && low > 1.0 && high.is_finite()
        };
        let found = analysis.comparisons.iter().filter(differs);
        let worst = found.max_by(|one, other| one.slowdown.total_cmp(&other.slowdown))?;
        let title = &results.metric(&worst.metric)?.title;
        let mark = if worst.finding == Finding::Slower { "" } else { "?" };
        Some(format!(
            "{}: {} {}{mark}",
            environment_name(environment),
            units::text(title),
            units::factor(worst.slowdown)
        ))
    };
    let found: Vec<String> = results.environments.iter().skip(1).filter_map(of).collect();
    (!found.is_empty()).then(|| format!("so far {}", found.join(", ")))
}

struct Screen {
    canvas: Canvas,
    width: usize,
    /// How many more lines may be written.
    left: usize,
}

impl Screen {
    /// One line of the first column and words, cut where the terminal ends.
    fn put(&mut self, first: Cell, words: &str, style: impl Fn(Cell) -> Cell) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let words = cut(words, self.width.saturating_sub(GROUP + 2 * MARGIN));
        self.canvas.columns(&[], vec![vec![first, style(Cell::new(words))]]);
    }

    fn line(&mut self, name: &str, words: &str) {
        self.put(Cell::new(format!("{name:GROUP$}")), words, |cell| cell);
    }

    fn heading(&mut self, words: &str, style: impl Fn(Cell) -> Cell) {
        if self.left > 0 {
            self.left -= 1;
            let words = cut(words, self.width.saturating_sub(MARGIN));
            self.canvas.columns(&[], vec![vec![style(Cell::new(words).add_attribute(Attribute::Bold))]]);
        }
    }

    fn head(&mut self, view: &View) {
        let host = &view.results.host;
        let machine = format!("{} CPUs, {}", host.cpus_online, units::text(&host.cpu_model));
        self.line("machine", &machine);
        let starts = view.results.plan.blocks;
        self.line("run", &format!("{}; {starts} fresh starts of every environment", lengths(view.results)));
        if !view.results.complete {
            let after = units::watched((view.results.elapsed_s.max(0.0) * 1e9) as u64);
            let words = format!("INTERRUPTED after {after}: what follows was gathered before");
            self.heading(&words, |cell| cell.fg(Color::Yellow));
        }
    }

    /// A line for each group; nothing for an environment that gave no figure.
    fn environment(&mut self, view: &View, environment: &EnvironmentRecord, kept: usize) {
        let of_it = |c: &&Comparison| c.environment == environment.name;
        let found: Vec<&Comparison> = view.analysis.comparisons.iter().filter(of_it).collect();
        if found.is_empty() || self.left <= kept + 1 {
            return;
        }
        let base = view.results.environments.first().map_or("", |base| base.name.as_str());
        let mut words = format!("{} beside {}", environment_name(environment), units::text(base));
        if environment.emulated {
            words.push_str(&format!(" ({EMULATED_MEANING})"));
        }
        self.heading(&words, |cell| cell);
        for group in Group::ALL {
            let is_of =
                |c: &&&Comparison| view.results.metric(&c.metric).is_some_and(|spec| spec.group == group);
            let found: Vec<&Comparison> = found.iter().filter(is_of).copied().collect();
            if !found.is_empty() && self.left > kept {
                let is_slower = found.iter().any(|c| c.finding == Finding::Slower && !c.emulated);
                let style = |cell: Cell| if is_slower { cell.fg(Color::Red) } else { cell };
                let room = self.width.saturating_sub(GROUP + 2 * MARGIN);
                self.put(Cell::new(format!("{:GROUP$}", group.name())), &verdict(view, &found, room), style);
            }
        }
    }

    /// The cost of a packet of the smallest datagrams on each path, and the parts that add most.
    fn network(&mut self, view: &View, kept: usize) {
        for line in network::in_short(view) {
            if self.left > kept {
                self.line(line.name, &line.words);
            }
        }
    }

    fn gaps(&mut self, gaps: &[Gap]) {
        let shown = if gaps.len() > GAPS + 1 { GAPS } else { gaps.len() };
        let room = self.width.saturating_sub(GROUP + 2 * MARGIN);
        // Lines that nothing else needs: a gap that is longer than a line then has one for its remedy.
        let mut spare = self.left.saturating_sub(shown + usize::from(shown < gaps.len()));
        for (index, one) in gaps[..shown].iter().enumerate() {
            let name = if index == 0 { "not there" } else { "" };
            if one.fits(room) || spare == 0 {
                self.line(name, &one.line(room));
            } else {
                spare -= 1;
                self.line(name, &one.names());
                self.line("", &format!("  {}", one.remedy()));
            }
        }
        if shown < gaps.len() {
            self.line("", &format!("and {} more: `tautline report FILE` names all", gaps.len() - shown));
        }
    }
}

/// How many of a group's metrics differ, and which differ most.
pub(crate) fn verdict(view: &View, found: &[&Comparison], room: usize) -> String {
    let count = |finding: Finding| found.iter().filter(|c| c.finding == finding).count();
    let [none, slower, faster, few] =
        [Finding::NoDifferenceShown, Finding::Slower, Finding::Faster, Finding::TooFewBlocks].map(count);
    let all = found.len();
    if few == all {
        return format!("too few starts to tell anything of {all} metrics; 6 are needed (--blocks 6)");
    }
    if none == all {
        return format!("no difference shown in {all} of {all} metrics");
    }
    let mut words = match (slower, faster) {
        (0, _) => format!("{faster} of {all} metrics faster"),
        (_, 0) => format!("{slower} of {all} metrics slower"),
        _ => format!("{slower} of {all} metrics slower, {faster} faster"),
    };
    // The largest differences come first; if no metric is slower, the faster ones.
    let kind = if slower > 0 { Finding::Slower } else { Finding::Faster };
    let mut worst: Vec<&&Comparison> = found.iter().filter(|c| c.finding == kind).collect();
    worst.sort_by(|one, other| other.slowdown.total_cmp(&one.slowdown));
    if slower == 0 {
        worst.reverse();
    }
    let mut separator = ": ";
    for comparison in worst.into_iter().take(WORST) {
        let Some(spec) = view.results.metric(&comparison.metric) else { continue };
        let piece = format!("{separator}{} {}", units::text(&spec.title), crate::view::finding(comparison));
        if words.chars().count() + piece.chars().count() > room {
            break;
        }
        words.push_str(&piece);
        separator = "; ";
    }
    words
}

/// The coverage of the intervals, and the expected number of differences by chance.
fn sure(view: &View) -> Option<String> {
    let comparisons = &view.analysis.comparisons;
    let blocks = comparisons.iter().filter(|c| c.interval.is_some()).map(|c| c.blocks).max()?;
    let compared = comparisons.iter().filter(|c| c.interval.is_some()).count();
    let trials = view.results.trials.len();
    Some(format!(
        "intervals of at least 95 % over {blocks} starts; about {} of {compared} differ by chance; {} of {trials} trials \
         noisy",
        coverage::by_chance(expected_by_chance(comparisons.iter())),
        view.analysis.noisy,
    ))
}

/// The words as far as there is room for them.
fn cut(words: &str, room: usize) -> String {
    if words.chars().count() <= room {
        return words.to_owned();
    }
    words.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::compare::analyse;
    use measure::{Absence, Failure, example};

    fn text(results: &Results, width: usize) -> String {
        render(results, &analyse(results), width, false)
    }

    #[test]
    fn an_answer_has_a_line_for_each_group_and_names_the_worst() {
        let found = text(&example::results(), 118);
        println!("{found}");
        assert!(found.lines().count() <= LINES, "{found}");
        for words in ["container beside host", "metrics slower: ", "intervals of at least 95 %"] {
            assert!(found.contains(words), "{words}: {found}");
        }
    }

    #[test]
    fn no_answer_is_longer_than_a_screen_or_wider_than_the_terminal() {
        let mut results = example::results();
        let metric = results.metrics[0].clone();
        for number in 0..200 {
            results.absences.push(Absence {
                metric: metric.id.clone(),
                environment: format!("place {number}"),
                reason: Failure::new("looking for it", "there is none ".repeat(20), format!("find {number}")),
            });
        }
        let environment = results.environments[1].clone();
        for number in 0..20 {
            let name = format!("{} {number}", environment.name);
            let own = results.trials.iter().filter(|trial| trial.environment == environment.name);
            let copies: Vec<_> =
                own.map(|trial| measure::Trial { environment: name.clone(), ..trial.clone() }).collect();
            results.trials.extend(copies);
            results.environments.push(EnvironmentRecord { name, ..environment.clone() });
        }
        for width in [20, 60, 80, 118, 200] {
            let found = text(&results, width);
            assert!(found.lines().count() <= LINES, "{width}: {found}");
            assert!(
                found.lines().all(|line| line.chars().count() <= width.max(NARROWEST)),
                "{width}: {found}"
            );
            assert!(found.contains("more: `tautline report FILE`"), "{width}: {found}");
        }
    }

    #[test]
    fn a_narrow_terminal_shows_what_to_do_about_a_gap_in_place_of_its_reason() {
        let mut results = example::results();
        results.absences.clear();
        results.environments.retain(|environment| environment.failure.is_none());
        results.absences.push(Absence {
            metric: results.metrics[0].id.clone(),
            environment: "host".into(),
            reason: Failure::new(
                "looking for it in all of these places",
                "there is none",
                "apt-get install it",
            ),
        });
        assert!(text(&results, 200).contains("places: there is none; apt-get install it"));
        let narrow = text(&results, 80);
        assert!(narrow.contains("apt-get install it") && !narrow.contains("places"), "{narrow}");
    }

    #[test]
    fn a_long_gap_has_a_line_for_its_remedy_where_the_screen_has_room() {
        let mut results = example::results();
        results.absences.clear();
        let places: Vec<String> = (0..5).map(|number| format!("a place with a long name {number}")).collect();
        for place in &places {
            results.absences.push(Absence {
                metric: results.metrics[0].id.clone(),
                environment: place.clone(),
                reason: Failure::new("looking", "nothing", "install what is missing"),
            });
        }
        let found = text(&results, 200);
        assert!(places.iter().all(|place| found.contains(place)), "{found}");
        assert!(found.lines().any(|line| line.trim() == "install what is missing"), "{found}");
        assert!(found.lines().count() <= LINES, "{found}");
    }

    #[test]
    fn a_line_of_progress_names_the_worst_once_three_starts_have_ended() {
        let mut results = example::results();
        let after = |results: &mut Results, blocks: u32| {
            results.trials.retain(|trial| trial.block < blocks);
            so_far(results)
        };
        let shown = after(&mut results, 8).unwrap();
        assert!(shown.starts_with("so far container: system call ×1.91, vm†: "), "{shown}");
        assert!(!shown.contains('?'), "{shown}");
        let early = after(&mut results, 3).unwrap();
        assert!(early.contains("container: system call ×1.9") && early.contains('?'), "{early}");
        assert_eq!(after(&mut results, 2), None);
        assert_eq!(after(&mut results, 0), None);
    }

    #[test]
    fn what_is_short_or_has_no_intervals_is_shown_in_tables() {
        let mut alone = example::results();
        alone.environments.truncate(1);
        alone.trials.retain(|trial| trial.environment == "host");
        let mut short = example::results();
        short.absences.clear();
        short.environments.truncate(2);
        short.environments.iter_mut().for_each(|environment| environment.facts.clear());
        let metric = short.metrics[0].id.clone();
        short.metrics.truncate(1);
        short.trials.retain(|trial| trial.metric == metric);
        let mut few = example::results();
        few.trials.retain(|trial| trial.block < 5);
        let mut empty = example::results();
        empty.trials.clear();
        for results in [alone, short, few, empty] {
            let tables = crate::terminal::render(&results, &analyse(&results), 118, false);
            assert_eq!(text(&results, 118), tables);
        }
    }
}
