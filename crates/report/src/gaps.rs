//! What a run lacks, gathered by the remedy that would add it.

use measure::Failure;

use crate::view::View;
use crate::{network, units};

/// The measurements that one remedy would add.
pub(crate) struct Gap<'a> {
    /// Environments, metrics of an environment and paths.
    names: Vec<String>,
    /// The reason for the first of them. All have its remedy.
    failure: &'a Failure,
    /// Whether the reason holds for all of them.
    is_shared: bool,
}

/// The gaps of a run: one for each remedy.
pub(crate) fn by_remedy<'a>(view: &View<'a>) -> Vec<Gap<'a>> {
    let mut gaps: Vec<Gap> = Vec::new();
    for (name, failure) in all(view) {
        match gaps.iter_mut().find(|gap| gap.failure.remedy == failure.remedy) {
            Some(gap) => {
                gap.is_shared &= *gap.failure == *failure;
                gap.names.push(name);
            }
            None => gaps.push(Gap { names: vec![name], failure, is_shared: true }),
        }
    }
    gaps
}

/// The missing measurements, each with its reason and remedy.
fn all<'a>(view: &View<'a>) -> Vec<(String, &'a Failure)> {
    let environments = view.results.environments.iter();
    let failed = environments
        .filter_map(|environment| Some((units::text(&environment.name), environment.failure.as_ref()?)));
    let absent = view.absences().into_iter().map(|(environment, reason, metrics)| {
        let more = if metrics.len() > 1 { format!(" and {} more", metrics.len() - 1) } else { String::new() };
        let first = metrics.first().copied().unwrap_or_default();
        (format!("{}, {}{more}", units::text(environment), units::text(first)), reason)
    });
    failed.chain(absent).chain(network::missing(view.results)).collect()
}

impl Gap<'_> {
    /// All that the remedy would add.
    pub(crate) fn names(&self) -> String {
        self.names.join("; ")
    }

    /// The remedy.
    pub(crate) fn remedy(&self) -> String {
        units::text(&self.failure.remedy)
    }

    /// Whether a line of `room` characters has all names and the remedy.
    pub(crate) fn fits(&self, room: usize) -> bool {
        self.names().chars().count() + ": ".len() + self.remedy().chars().count() <= room
    }

    /// The missing measurements and the remedy, in one line of about `room` characters, with the reason and as many
    /// names as fit.
    pub(crate) fn line(&self, room: usize) -> String {
        let (names, remedy) = (self.names(), self.remedy());
        let whole = format!("{names}: {}", units::text(&self.failure.to_string()));
        if self.is_shared && whole.chars().count() <= room {
            return whole;
        }
        let shown = (1..=self.names.len()).rev().map(|count| match self.names.len() - count {
            0 => format!("{names}: {remedy}"),
            left => format!("{} and {left} more: {remedy}", self.names[..count].join("; ")),
        });
        let mut shown: Vec<String> = shown.collect();
        let fits = shown.iter().position(|line| line.chars().count() <= room);
        shown.swap_remove(fits.unwrap_or(shown.len() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::compare::analyse;
    use measure::{Absence, example};

    #[test]
    fn one_line_names_all_that_a_remedy_would_add() {
        let mut results = example::results();
        results.absences.clear();
        results.network.paths.clear();
        results.environments.iter_mut().for_each(|environment| environment.failure = None);
        for (place, answer, remedy) in [
            ("host", "no nft", "run `make setup`"),
            ("vm", "no such card", "run `make setup`"),
            ("container", "no runtime", "install crun"),
        ] {
            results.absences.push(Absence {
                metric: results.metrics[0].id.clone(),
                environment: place.into(),
                reason: Failure::new("looking", answer, remedy),
            });
        }
        let analysis = analyse(&results);
        let view = View::new(&results, &analysis);
        let metric = results.metrics[0].id.as_str();
        let lines = |room| by_remedy(&view).iter().map(|gap| gap.line(room)).collect::<Vec<_>>();
        let shared = format!("host, {metric}; vm, {metric}: run `make setup`");
        assert_eq!(lines(200), [shared, format!("container, {metric}: looking: no runtime; install crun")]);
        let narrow = format!("host, {metric} and 1 more: run `make setup`");
        assert_eq!(lines(narrow.len())[0], narrow);
        assert_eq!(lines(1)[1], format!("container, {metric}: install crun"));
    }

    #[test]
    fn a_reason_that_all_share_is_named_where_there_is_room() {
        let mut results = example::results();
        results.absences.clear();
        results.network.paths.clear();
        results.environments.iter_mut().for_each(|environment| environment.failure = None);
        let failure = Failure::new("looking for nft", "none", "install nftables");
        results.environments[0].failure = Some(failure.clone());
        results.environments[1].failure = Some(failure);
        let analysis = analyse(&results);
        let view = View::new(&results, &analysis);
        let names = format!("{}; {}", results.environments[0].name, results.environments[1].name);
        assert_eq!(
            by_remedy(&view)[0].line(200),
            format!("{names}: looking for nft: none; install nftables")
        );
    }
}
