use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::step::{Arrow, Mode, Place, Step};
use super::walk::Chain;

/// The most frequent sequence of steps, with times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many packets were followed completely.
    pub packets: usize,
    /// The number of paths that had exactly these steps.
    pub alike: usize,
    /// Where the path begins.
    pub began: Option<Place>,
    /// The steps of the packet with the median time.
    pub steps: Vec<Arrows>,
    /// The median time from the beginning to the last step, ns.
    pub median_ns: u64,
    /// The longest time, ns.
    pub max_ns: u64,
    /// Steps after which another thread runs.
    pub context_switches: usize,
    /// Other sequences of steps, the most frequent first.
    pub variants: Vec<Variant>,
}

/// One step, over all packets with the same steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arrows {
    /// Where the step begins.
    pub from: Place,
    /// Where the step ends.
    pub to: Place,
    /// How control passes from one place to the other.
    pub arrow: Arrow,
    /// The reason of an exit, or the name of a system call.
    pub what: String,
    /// The median time since the previous step, ns.
    pub median_ns: u64,
    /// The longest time since the previous step, ns.
    pub max_ns: u64,
}

/// A sequence of steps other than the most frequent one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The number of steps.
    pub steps: usize,
    /// The number of packets.
    pub packets: usize,
}

type Signature<'a> = Vec<(&'a str, Mode, &'a str, Mode, Arrow, &'a str)>;

fn signature(steps: &[Step]) -> Signature<'_> {
    steps
        .iter()
        .map(|step| (&*step.from.who, step.from.mode, &*step.to.who, step.to.mode, step.arrow, &*step.what))
        .collect()
}

impl Summary {
    /// The summary; `None` without packets.
    pub fn of(chains: &[Chain]) -> Option<Self> {
        let mut groups: HashMap<Signature, Vec<&Chain>> = HashMap::new();
        for chain in chains {
            groups.entry(signature(&chain.steps)).or_default().push(chain);
        }
        let mut groups: Vec<(Signature, Vec<&Chain>)> = groups.into_iter().collect();
        groups.sort_by(|(a, x), (b, y)| (y.len(), a.len(), a).cmp(&(x.len(), b.len(), b)));
        let (_, alike) = groups.first()?;
        let mut alike = alike.clone();
        alike.sort_by_key(|chain| duration(chain));
        let median = alike[alike.len() / 2];
        let steps = (0..median.steps.len()).map(|number| arrows(&alike, median, number));
        let steps: Vec<Arrows> = steps.collect();
        let mut variants: Vec<Variant> = Vec::new();
        for (signature, chains) in &groups[1..] {
            match variants.iter_mut().find(|known| known.steps == signature.len()) {
                Some(known) => known.packets += chains.len(),
                None => variants.push(Variant { steps: signature.len(), packets: chains.len() }),
            }
        }
        Some(Self {
            packets: chains.len(),
            alike: alike.len(),
            began: steps.first().map(|step| step.from.clone()),
            median_ns: duration(median),
            max_ns: alike.last().map_or(0, |chain| duration(chain)),
            context_switches: steps.iter().filter(|step| step.arrow.is_context_switch()).count(),
            steps,
            variants,
        })
    }
}

fn duration(chain: &Chain) -> u64 {
    let last = chain.steps.iter().map(|step| step.at).max().unwrap_or(chain.began);
    last.saturating_sub(chain.began)
}

fn arrows(alike: &[&Chain], median: &Chain, number: usize) -> Arrows {
    let time = |chain: &Chain| {
        let before = number.checked_sub(1).map_or(chain.began, |before| chain.steps[before].at);
        chain.steps[number].at.saturating_sub(before)
    };
    let mut times: Vec<u64> = alike.iter().map(|chain| time(chain)).collect();
    times.sort_unstable();
    let Step { from, to, arrow, what, .. } = median.steps[number].clone();
    Arrows { from, to, arrow, what, median_ns: times[times.len() / 2], max_ns: times[times.len() - 1] }
}
