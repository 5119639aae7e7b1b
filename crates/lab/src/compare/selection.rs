//! `--only`: groups, or metrics by the beginning of their names.

use measure::MetricSpec;

use super::options::PlanError;

fn names(word: &str, spec: &MetricSpec) -> bool {
    let id = spec.id.as_str();
    spec.group.name() == word || id == word || id.strip_prefix(word).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether any of the words names this metric.
pub fn is_named(words: &[String], spec: &MetricSpec) -> bool {
    words.is_empty() || words.iter().any(|word| names(word, spec))
}

/// Checks that each word matches a group or a metric.
///
/// # Errors
/// A word matches none.
pub fn check(specs: &[MetricSpec], words: &[String]) -> Result<(), PlanError> {
    for word in words {
        if !specs.iter().any(|spec| names(word, spec)) {
            let groups = measure::Group::ALL.map(measure::Group::name).join(", ");
            let close = closest(specs, word).join(", ");
            return Err(PlanError::Selection(format!(
                "--only {word}: no metric's name begins with these words; the groups are {groups}; some that begin \
                 like it are {close}; `tautline compare --list` has all"
            )));
        }
    }
    Ok(())
}

/// A few names that have most of their beginning in common with the word.
fn closest<'a>(specs: &'a [MetricSpec], word: &str) -> Vec<&'a str> {
    const MOST: usize = 5;
    let common =
        |id: &str| id.bytes().zip(word.bytes()).take_while(|(of_id, of_word)| of_id == of_word).count();
    let mut ids: Vec<&str> = specs.iter().map(|spec| spec.id.as_str()).collect();
    ids.sort_by_key(|id| std::cmp::Reverse(common(id)));
    ids.truncate(MOST);
    ids
}
