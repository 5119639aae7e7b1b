//! The order of versions in file names.

use std::cmp::Ordering;
use std::iter;

/// Compares two names, each run of digits by its number: `vmlinuz-6.9` comes before `vmlinuz-6.10`.
///
/// Names that differ in leading zeros alone are compared as text.
pub fn compare(one: &str, other: &str) -> Ordering {
    pieces(one).cmp(pieces(other)).then_with(|| one.cmp(other))
}

/// A run of digits without its leading zeros, by length and then by text; or one character that is no digit.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Piece<'a> {
    Number(usize, &'a str),
    Character(char),
}

fn pieces(name: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut left = name;
    iter::from_fn(move || {
        let first = left.chars().next()?;
        let digits = left.len() - left.trim_start_matches(|character: char| character.is_ascii_digit()).len();
        let (piece, rest) = left.split_at(digits.max(first.len_utf8()));
        left = rest;
        let number = piece.trim_start_matches('0');
        Some(if digits > 0 { Piece::Number(number.len(), number) } else { Piece::Character(first) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_and_not_their_digits() {
        let rising = [
            "",
            "vmlinuz",
            "vmlinuz-6.1.0-9-amd64",
            "vmlinuz-6.1.0-048-amd64",
            "vmlinuz-6.1.0-48-amd64",
            "vmlinuz-6.9",
            "vmlinuz-6.9.1",
            "vmlinuz-6.10",
            "vmlinuz-6.18446744073709551616",
            "vmlinuz-7.0",
            "vmlinuz-7.0-\u{e4}",
        ];
        for (index, one) in rising.iter().enumerate() {
            for (place, other) in rising.iter().enumerate() {
                assert_eq!(compare(one, other), index.cmp(&place), "{one} and {other}");
            }
        }
    }
}
