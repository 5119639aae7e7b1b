//! Whether any frame at all can meet a filter.

use super::field::Field;
use super::filter::Filter;

/// Steps of the search. A filter that takes more is believed to be possible.
const STEPS: usize = 10_000;

/// False if the conditions contradict each other, as in `tcp and udp`.
pub fn is_possible(filter: &Filter) -> bool {
    let mut search = Search { known: Vec::new(), steps: STEPS };
    search.all_hold(&Goals { filter, is_wanted: true, rest: None })
}

/// Filters that are all to hold, or not to hold.
struct Goals<'a> {
    filter: &'a Filter,
    is_wanted: bool,
    rest: Option<&'a Goals<'a>>,
}

struct Search {
    /// The lowest and highest possible value of each field, by the goals that were met so far.
    known: Vec<(Field, u32, u32)>,
    steps: usize,
}

impl Search {
    fn all_hold(&mut self, goals: &Goals<'_>) -> bool {
        if self.steps == 0 {
            return true;
        }
        self.steps -= 1;
        let Goals { filter, is_wanted, rest } = *goals;
        match (filter, is_wanted) {
            (Filter::Not(one), _) => self.all_hold(&Goals { filter: one, is_wanted: !is_wanted, rest }),
            (Filter::All(all), true) | (Filter::Any(all), false) => self.each_holds(all, is_wanted, rest),
            (Filter::Any(any), true) | (Filter::All(any), false) => {
                any.iter().any(|filter| self.all_hold(&Goals { filter, is_wanted, rest }))
            }
            (Filter::Within(field, least, most), true) => self.is_within(*field, *least, *most, rest),
            (Filter::Within(field, least, most), false) => {
                least.checked_sub(1).is_some_and(|most| self.is_within(*field, 0, most, rest))
                    || most.checked_add(1).is_some_and(|least| self.is_within(*field, least, u32::MAX, rest))
            }
        }
    }

    fn each_holds(&mut self, all: &[Filter], is_wanted: bool, rest: Option<&Goals<'_>>) -> bool {
        match (all, rest) {
            ([filter], _) => self.all_hold(&Goals { filter, is_wanted, rest }),
            ([others @ .., filter], _) => {
                // From the last one on, so that the first is looked at first.
                self.each_holds(others, is_wanted, Some(&Goals { filter, is_wanted, rest }))
            }
            ([], Some(rest)) => self.all_hold(rest),
            ([], None) => true,
        }
    }

    /// Goes on with the rest, knowing this.
    fn is_within(&mut self, field: Field, least: u32, most: u32, rest: Option<&Goals<'_>>) -> bool {
        let same = self.known.iter().filter(|(known, ..)| *known == field);
        let (least, most) = same.fold((least, most), |(a, b), (_, c, d)| (a.max(*c), b.min(*d)));
        if least > most {
            return false;
        }
        self.known.push((field, least, most));
        let is_possible = rest.is_none_or(|rest| self.all_hold(rest));
        self.known.pop();
        is_possible
    }
}
