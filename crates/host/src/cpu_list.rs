//! Sets of CPUs, as the kernel reads and prints them: lists (`0,2-5`) and masks (`ff,ffffffff`).

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use linux::cpu_list::MOST;
pub use linux::cpu_list::{BadCpuList, WrittenCpus};
use serde::{Deserialize, Serialize};

/// A set of CPUs. `Display` prints the shortest list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(BTreeSet<usize>);

impl CpuList {
    /// Parses a mask such as in `smp_affinity` and `cpumask`: hexadecimal words of 32 bits, the highest first.
    ///
    /// # Errors
    /// A word is not a hexadecimal number of 32 bits, or the mask has more words than the largest number of CPUs
    /// needs.
    pub fn from_mask(text: &str) -> Result<Self, BadCpuList> {
        let wrong = || BadCpuList::Form(text.trim().to_owned());
        let words: Vec<&str> = text.trim().split(',').collect();
        let mut cpus = BTreeSet::new();
        for (place, word) in words.iter().rev().enumerate() {
            // The kernel omits no word, but the highest may be shorter.
            let value = u32::from_str_radix(word, 16).map_err(|_| wrong())?;
            if place >= MOST / 32 {
                return Err(wrong());
            }
            cpus.extend((0..32).filter(|bit| value >> bit & 1 == 1).map(|bit| place * 32 + bit));
        }
        Ok(CpuList(cpus))
    }

    /// The set as a mask of words of 32 bits.
    pub fn to_mask(&self) -> String {
        let words = self.0.last().map_or(1, |last| last / 32 + 1);
        let word = |place: usize| {
            (0..32).filter(|bit| self.0.contains(&(place * 32 + bit))).fold(0u32, |word, bit| word | 1 << bit)
        };
        let mut texts = (0..words).rev().map(word);
        let first = format!("{:x}", texts.next().unwrap_or_default());
        texts.fold(first, |text, word| format!("{text},{word:08x}"))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a CPU is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// The highest CPU.
    pub fn last(&self) -> Option<usize> {
        self.0.last().copied()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }

    /// The CPUs that are in both sets.
    pub fn and(&self, other: &Self) -> Self {
        CpuList(&self.0 & &other.0)
    }

    /// The CPUs that are in either set.
    pub fn or(&self, other: &Self) -> Self {
        CpuList(&self.0 | &other.0)
    }

    /// The CPUs that are not in the other set.
    pub fn without(&self, other: &Self) -> Self {
        CpuList(&self.0 - &other.0)
    }

    /// Whether every CPU of this set is in the other one.
    pub fn within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }
}

impl FromIterator<usize> for CpuList {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        CpuList(cpus.into_iter().collect())
    }
}

impl FromStr for CpuList {
    type Err = BadCpuList;

    /// A list of numbers; empty text and the kernel's `(null)` are the empty set.
    fn from_str(text: &str) -> Result<Self, BadCpuList> {
        let text = if text.trim() == "(null)" { "" } else { text };
        Ok(linux::cpu_list::parse(text)?.into_iter().collect())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut cpus = self.0.iter().copied().peekable();
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                1 => write!(f, "{separator}{first},{last}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuList {
    type Error = BadCpuList;

    fn try_from(text: String) -> Result<Self, BadCpuList> {
        text.parse()
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> Self {
        list.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_printed_as_short_as_they_can_be() {
        for (text, short) in [("3,2,1,0,7", "0-3,7"), ("0-55,56-110", "0-110"), ("0,1", "0,1"), ("", "")] {
            assert_eq!(text.parse::<CpuList>().unwrap().to_string(), short);
        }
        for bad in ["x", "3-1", "0-99999999", "2-N", "-1"] {
            assert!(bad.parse::<CpuList>().is_err(), "{bad}");
        }
    }

    #[test]
    fn masks_and_lists_say_the_same() {
        for (mask, list) in
            [("f", "0-3"), ("ff,00000000", "32-39"), ("1,00000000,80000001", "0,31,64"), ("0", "")]
        {
            let cpus = CpuList::from_mask(mask).unwrap();
            assert_eq!(cpus.to_string(), list);
            assert_eq!(CpuList::from_mask(&cpus.to_mask()).unwrap(), cpus);
        }
        assert!(CpuList::from_mask("xyz").is_err());
    }
}
