//! Lists of CPUs in the kernel's syntax (`bitmap_parselist`), as on its command line, in `/proc/irq` and in cpusets.

use std::fmt;
use std::str::FromStr;

/// The highest number of CPUs of any kernel: x86 allows 8192.
pub const MOST: usize = 8192;

/// A text that is no list of CPUs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCpuList {
    /// The text does not follow the kernel's grammar, or has a range without CPUs.
    #[error("{0:?} is no list of CPUs; write for example 0,2-5 or 2-N")]
    Form(String),
    /// The text does not follow the grammar of an option that accepts only numbers and ranges.
    #[error("{0:?} is no list of CPUs; write for example 0,2-5")]
    Numbers(String),
    /// The text names a CPU that the machine cannot have.
    #[error("{list:?} is no list of CPUs of this machine, whose last CPU is {last}")]
    Beyond {
        /// The list.
        list: String,
        /// The number of the machine's last CPU.
        last: usize,
    },
    /// The text refers to the last CPU, but no machine is given.
    #[error("{0:?}: N and all stand for CPUs of one machine; write their numbers here, for example 2-5")]
    NoMachine(String),
}

impl BadCpuList {
    /// This error, changed for a list in which only numbers are allowed.
    fn without_machine(self) -> Self {
        match self {
            BadCpuList::Form(list) => BadCpuList::Numbers(list),
            other => other,
        }
    }
}

/// A list of CPUs as written, before the machine is known: `0,2-5`, `2-N`, `all`, `0-10:2/4`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenCpus {
    text: String,
    regions: Vec<Region>,
}

/// CPUs from `first` to `last`; with a pattern, only the first `used` of each `group`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Region {
    first: Number,
    last: Number,
    pattern: Option<(Number, Number)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Is(usize),
    /// `N`: the machine's last CPU.
    Last,
}

impl Number {
    fn on(self, last: usize) -> usize {
        match self {
            Number::Is(number) => number,
            Number::Last => last,
        }
    }
}

impl WrittenCpus {
    /// The CPUs, in order, each once, on a machine whose last possible CPU is `last`.
    ///
    /// # Errors
    /// The kernel of that machine would reject the list.
    pub fn on(&self, last: usize) -> Result<Vec<usize>, BadCpuList> {
        let last = last.min(MOST - 1);
        let mut has = vec![false; last + 1];
        for region in &self.regions {
            let (first, end) = (region.first.on(last), region.last.on(last));
            let (used, group) = match region.pattern {
                Some((used, group)) => (used.on(last), group.on(last)),
                None => (end.saturating_add(1), end.saturating_add(1)),
            };
            if first > end || group == 0 || used > group {
                return Err(BadCpuList::Form(self.text.clone()));
            }
            let cpus = has
                .get_mut(first..=end)
                .ok_or_else(|| BadCpuList::Beyond { list: self.text.clone(), last })?;
            for group in cpus.chunks_mut(group) {
                let used = used.min(group.len());
                group[..used].fill(true);
            }
        }
        Ok((0..=last).filter(|&cpu| has[cpu]).collect())
    }

    /// The CPUs of a list that names all of them by number.
    ///
    /// # Errors
    /// No kernel would accept the list, or it refers to the last CPU of a machine.
    pub fn numbered(&self) -> Result<Vec<usize>, BadCpuList> {
        let open = |region: &Region| {
            let (used, group) = region.pattern.unwrap_or((Number::Is(0), Number::Is(0)));
            [region.first, region.last, used, group].contains(&Number::Last)
        };
        match self.regions.iter().any(open) {
            true => Err(BadCpuList::NoMachine(self.text.clone())),
            false => {
                let largest = self.regions.iter().map(|region| region.last.on(0)).max().unwrap_or(0);
                self.on(largest.min(MOST - 1)).map_err(BadCpuList::without_machine)
            }
        }
    }
}

impl fmt::Display for WrittenCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for WrittenCpus {
    type Err = BadCpuList;

    fn from_str(text: &str) -> Result<Self, BadCpuList> {
        let mut reader = Reader(text);
        let mut regions = Vec::new();
        while !reader.at_end() {
            regions.push(reader.region().ok_or_else(|| BadCpuList::Form(text.to_owned()))?);
        }
        Ok(WrittenCpus { text: text.to_owned(), regions })
    }
}

/// The rest of a list's text.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    /// Commas and blanks may stand before each region and behind the last.
    fn at_end(&mut self) -> bool {
        self.0 = self.0.trim_start_matches(is_separator);
        self.0.is_empty()
    }

    fn region(&mut self) -> Option<Region> {
        let (first, last) = if self.0.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("all")) {
            self.0 = &self.0[3..];
            (Number::Is(0), Number::Last)
        } else {
            let first = self.number()?;
            if self.ends_region() {
                return Some(Region { first, last: first, pattern: None });
            }
            (first, self.after('-')?)
        };
        if self.ends_region() {
            return Some(Region { first, last, pattern: None });
        }
        let used = self.after(':')?;
        // No separator needs to follow a pattern.
        Some(Region { first, last, pattern: Some((used, self.after('/')?)) })
    }

    fn ends_region(&self) -> bool {
        self.0.is_empty() || self.0.starts_with(is_separator)
    }

    fn after(&mut self, sign: char) -> Option<Number> {
        self.0 = self.0.strip_prefix(sign)?;
        self.number()
    }

    fn number(&mut self) -> Option<Number> {
        if let Some(rest) = self.0.strip_prefix('N') {
            self.0 = rest;
            return Some(Number::Last);
        }
        let length = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(Number::Is(digits.parse::<u32>().ok()? as usize))
    }
}

fn is_separator(c: char) -> bool {
    c == ',' || is_blank(c)
}

/// Whether a character is white space for the kernel's `isspace`.
pub fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// The CPUs of a list that names all of them by number, in order, each once.
///
/// # Errors
/// No kernel would accept the list, or it refers to the last CPU of a machine.
pub fn parse(list: &str) -> Result<Vec<usize>, BadCpuList> {
    list.parse::<WrittenCpus>().map_err(BadCpuList::without_machine)?.numbered()
}

/// The list of these CPUs, which must be in order, as the kernel writes it: `0-3,7`.
pub fn list(cpus: &[usize]) -> String {
    let ranges = cpus.chunk_by(|before, after| before + 1 == *after).map(|range| match range {
        [first, .., last] => format!("{first}-{last}"),
        [only] => only.to_string(),
        [] => String::new(),
    });
    ranges.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// crates/tautline/tests/commands/host_command/booted/cpu_lists.rs asks a kernel about many more.
    #[test]
    fn lists_are_read_and_written() {
        for (text, written) in [
            ("", ""),
            ("0", "0"),
            ("0-2,7", "0-2,7"),
            ("3,4", "3-4"),
            ("2-N", "2-15"),
            ("N", "15"),
            ("all", "0-15"),
            ("ALL:1/4", "0,4,8,12"),
            ("0-10:2/4", "0-1,4-5,8-9"),
            ("5-10:3/4,,2,", "2,5-7,9-10"),
            (", 7 1-2\t2 ,", "1-2,7"),
            ("0-3:0/1", ""),
            ("0-3:1/2N", "0,2,15"),
        ] {
            assert_eq!(list(&text.parse::<WrittenCpus>().unwrap().on(15).unwrap()), written, "{text}");
        }
        for bad in
            ["x", "-1", "1-2-3", "1 - 2", "3:1/2", "0-3:1", "0-3:/2", "n", "4294967296", "all-3", "\u{e9}"]
        {
            assert_eq!(bad.parse::<WrittenCpus>(), Err(BadCpuList::Form(bad.into())));
        }
        for bad in ["3-1", "N-3", "0-3:1/0", "0-3:3/2"] {
            assert_eq!(bad.parse::<WrittenCpus>().unwrap().on(15), Err(BadCpuList::Form(bad.into())));
        }
        for beyond in ["16", "0-99999999", "0-4294967295:1/4294967295"] {
            let error = beyond.parse::<WrittenCpus>().unwrap().on(15).unwrap_err();
            assert!(matches!(error, BadCpuList::Beyond { last: 15, .. }), "{beyond}");
        }
    }

    #[test]
    fn without_a_machine_only_numbers_are_taken() {
        assert_eq!(parse("0-10:2/4,3").unwrap(), [0, 1, 3, 4, 5, 8, 9]);
        for open in ["N", "2-N", "all", "0-8:2/N"] {
            assert!(parse(open).unwrap_err().to_string().contains("write their numbers"), "{open}");
        }
        assert!(matches!(parse("8192"), Err(BadCpuList::Beyond { .. })));
        // A list that an error proposes is accepted.
        for bad in ["x", "3-1"] {
            assert_eq!(parse(bad).unwrap_err().to_string().split_once("example ").unwrap().1, "0,2-5");
        }
        assert!(parse("0,2-5").is_ok());
    }
}
