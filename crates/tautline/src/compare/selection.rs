//! `--only`: groups, or metrics by the beginning of their names.

use super::job::Job;
use crate::exit::Usage;

/// The jobs that any of the words names; all where there is no word.
pub fn choose(jobs: Vec<Job>, words: &[String]) -> anyhow::Result<Vec<Job>> {
    let names = |word: &str, job: &Job| {
        let id = job.spec.id.as_str();
        job.spec.group.name() == word
            || id == word
            || id.strip_prefix(word).is_some_and(|rest| rest.starts_with('.'))
    };
    for word in words {
        if !jobs.iter().any(|job| names(word, job)) {
            let groups = measure::Group::ALL.map(measure::Group::name).join(", ");
            let known = jobs.iter().map(|job| job.spec.id.as_str()).collect::<Vec<_>>().join(" ");
            return Err(Usage(format!(
                "--only {word}: no metric has this name; the groups are {groups}, the metrics {known}"
            ))
            .into());
        }
    }
    Ok(jobs.into_iter().filter(|job| words.is_empty() || words.iter().any(|word| names(word, job))).collect())
}
