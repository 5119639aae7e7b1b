//! Coverage of intervals in words: between which values the interval of a median lies, how often it covers the
//! true median, and how many differences chance causes.

use std::collections::BTreeSet;

use measure::median_interval;

/// The ends of the interval, and its coverage in percent; `None` for too few blocks.
fn ends(blocks: usize) -> Option<(String, f64)> {
    let (rank, coverage) = (median_interval::rank(blocks)?, median_interval::coverage(blocks)?);
    let ends = match rank {
        1 => "minimum to maximum".to_owned(),
        rank => format!("{0} smallest to {0} largest", ordinal(rank)),
    };
    Some((ends, coverage * 100.0))
}

/// Text such as "8 rounds: minimum to maximum of the rounds' ratios, 99.2 %", where `of` is "rounds". `None` if
/// there are too few blocks for an interval.
pub fn of_ratios(blocks: usize, of: &str) -> Option<String> {
    let (ends, percent) = ends(blocks)?;
    Some(format!("{blocks} {of}: {ends} of the {of}' ratios, {percent:.1} %"))
}

/// The coverage of many ratios, each given by its number of blocks, and how many of them are expected to differ by
/// chance. Empty if there are no ratios.
pub fn of_many(ratios: &[usize], of: &str) -> String {
    if ratios.is_empty() {
        return String::new();
    }
    let kinds: BTreeSet<usize> = ratios.iter().copied().collect();
    let word = |blocks| ends(blocks).map(|(ends, percent)| format!("{blocks} {of}: {ends}, {percent:.1} %"));
    let words: Vec<String> = kinds.into_iter().filter_map(word).collect();
    let chances = ratios.iter().filter_map(|blocks| Some(1.0 - median_interval::coverage(*blocks)?));
    format!(
        "{}. Of {} ratios with an interval, about {} would differ by chance alone (taking {of} as independent). ",
        words.join("; "),
        ratios.len(),
        by_chance(chances.sum())
    )
}

/// How many ratios are expected to differ by chance.
pub fn by_chance(expected: f64) -> String {
    if expected < 0.05 { "none".into() } else { format!("{expected:.1}") }
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 10, number % 100) {
        (1, tens) if tens != 11 => "st",
        (2, tens) if tens != 12 => "nd",
        (3, tens) if tens != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_called_what_they_are() {
        let six_and_eight = [vec![6; 30], vec![8; 10]].concat();
        assert_eq!(
            of_many(&six_and_eight, "rounds"),
            "6 rounds: minimum to maximum, 96.9 %; 8 rounds: minimum to maximum, 99.2 %. Of 40 ratios with an interval, \
             about 1.0 would differ by chance alone (taking rounds as independent). "
        );
        assert_eq!(of_many(&[], "rounds"), "");
        assert_eq!(of_ratios(5, "rounds"), None);
    }

    #[test]
    fn places_are_counted_as_people_do() {
        let found = [1, 2, 3, 4, 11, 12, 13, 21, 22, 111, 113].map(ordinal);
        assert_eq!(
            found,
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "111th", "113th"]
        );
    }
}
