//! `--only`: groups, or metrics by the beginning of their names.

use measure::MetricSpec;

use crate::exit::Usage;

fn names(word: &str, spec: &MetricSpec) -> bool {
    let id = spec.id.as_str();
    spec.group.name() == word || id == word || id.strip_prefix(word).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether any of the words names it.
pub fn is_named(words: &[String], spec: &MetricSpec) -> bool {
    words.is_empty() || words.iter().any(|word| names(word, spec))
}

/// Whether each word names something.
pub fn check(specs: &[MetricSpec], words: &[String]) -> anyhow::Result<()> {
    for word in words {
        if !specs.iter().any(|spec| names(word, spec)) {
            let groups = measure::Group::ALL.map(measure::Group::name).join(", ");
            let known = specs.iter().map(|spec| spec.id.as_str()).collect::<Vec<_>>().join(" ");
            return Err(Usage(format!(
                "--only {word}: no metric has this name; the groups are {groups}, the metrics {known}"
            ))
            .into());
        }
    }
    Ok(())
}
