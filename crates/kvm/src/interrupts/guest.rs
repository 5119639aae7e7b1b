//! A guest's own counts, from its `/proc/interrupts`.

use std::collections::BTreeMap;

/// Interrupts by line, summed over the guest's CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestInterrupts {
    /// For each line (`24`, `LOC`): the count and the description.
    pub lines: BTreeMap<String, (u64, String)>,
}

impl GuestInterrupts {
    /// `None` if the text is not such a file.
    pub fn parse(text: &str) -> Option<Self> {
        let mut all = text.lines();
        let cpus = all.next()?.split_whitespace().filter(|word| word.starts_with("CPU")).count();
        if cpus == 0 {
            return None;
        }
        let mut lines = BTreeMap::new();
        for line in all {
            let Some((name, rest)) = line.split_once(':') else { continue };
            let words: Vec<&str> = rest.split_whitespace().collect();
            let counts: Vec<u64> =
                words.iter().take(cpus).map_while(|word| word.parse::<u64>().ok()).collect();
            // ERR and MIS have one column, and belong to no CPU.
            if counts.len() == cpus {
                let sum = counts.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
                lines.insert(name.trim().to_owned(), (sum, words[cpus..].join(" ")));
            }
        }
        Some(GuestInterrupts { lines })
    }

    /// Interrupts since an earlier reading. Lines without any are left out.
    pub fn since(&self, before: &Self) -> Self {
        let taken = |(name, (count, about)): (&String, &(u64, String))| {
            let earlier = before.lines.get(name).map_or(0, |(count, _)| *count);
            let taken = count.saturating_sub(earlier);
            (taken > 0).then(|| (name.clone(), (taken, about.clone())))
        };
        GuestInterrupts { lines: self.lines.iter().filter_map(taken).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "           CPU0       CPU1\n  4:         10          0   IO-APIC   4-edge      ttyS0\n \
        26:        100         50   PCI-MSI 65537-edge      virtio2-input.0\nLOC:       1000       2000   Local timer interrupts\nERR:          0\n";

    #[test]
    fn counts_of_all_cpus_are_summed_and_set_against_those_before() {
        let before = GuestInterrupts::parse(BEFORE).unwrap();
        assert_eq!(before.lines["26"], (150, "PCI-MSI 65537-edge virtio2-input.0".into()));
        assert!(!before.lines.contains_key("ERR"));
        let after = GuestInterrupts::parse(&BEFORE.replace("        50 ", "       550 ")).unwrap();
        let taken = after.since(&before);
        assert_eq!(taken.lines.len(), 1);
        assert_eq!(taken.lines["26"].0, 500);
        // A guest that was booted anew counts from zero.
        assert_eq!(before.since(&after).lines.len(), 0);
    }

    #[test]
    fn any_other_text_is_refused_and_none_panics() {
        for text in ["", "hello", "CPU0\n:", "CPU0 CPU1\n 1: 5\n2: x y\n3: 18446744073709551615 1 z\n"] {
            let parsed = GuestInterrupts::parse(text);
            assert_eq!(parsed.is_some(), text.starts_with("CPU"), "{text:?}");
        }
    }
}
