//! The path of interrupts: direct, forwarded or unknown. It is judged by counts alone, never by a feature flag.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::guest::GuestInterrupts;
use super::host::{Deliveries, Delivery};

/// How the interrupts of a line reached the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "path", content = "why")]
pub enum Path {
    /// Directly: none of the deliveries of the host's software can account for them.
    Direct,
    /// Through the host's software, which delivered the same number.
    Forwarded,
    /// The counts fit neither case, for this reason.
    Unknown(String),
}

/// One line of the guest, and what the host delivered for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The line's name in the guest (`26`, `LOC`).
    pub line: String,
    /// The line's description in the guest.
    pub about: String,
    /// Interrupts that the guest took.
    pub taken: u64,
    /// Interrupts that the host's software delivered with the line's vectors; `None` if no vector can be attributed
    /// to the line.
    pub delivered: Option<u64>,
    /// Of these, interrupts that were injected by an entry into the guest, which needs an exit. For a device, both
    /// counts are of the vector that fits best.
    pub injected: Option<u64>,
    /// The line's vectors. For a device, those whose counts match, the closest first.
    pub vectors: Vec<u64>,
    /// What follows.
    #[serde(flatten)]
    pub path: Path,
}

/// Vectors that Linux guests give to their own (arch/x86/include/asm/irq_vectors.h).
const OWN: [(&str, &[u64]); 3] = [("LOC", &[0xec]), ("RES", &[0xfd]), ("CAL", &[0xfb, 0xfc])];
/// Vectors from here on are no device's.
const FIRST_OF_SYSTEM: u64 = 0xec;
/// Fewer interrupts show nothing.
const FEWEST: u64 = 50;
/// The smallest share of a guest's interrupts that the host delivers if the interrupts are forwarded: some are in
/// flight when the counts are read.
const LEAST: f64 = 0.95;
/// The largest such share: the host counts for slightly longer than the guest.
const MOST: f64 = 1.25;
/// Vectors that a reason names at most.
const NAMED: usize = 4;
/// Less than this part of what a guest took accounts for nothing of it.
const TRACE: f64 = 0.05;

/// Judges every line that took interrupts. `others` says whether other guests run, whose deliveries are part of the
/// host's counts.
pub fn judge(taken: &GuestInterrupts, host: &Deliveries, others: bool) -> Vec<Judged> {
    let devices = Devices::of(host);
    let is_device = |name: &String| name.bytes().all(|byte| byte.is_ascii_digit());
    let enough = |count: u64| count >= FEWEST;
    // Devices that a vector might be of: where there are more of them than vectors, none of these is known.
    let candidates: Vec<(&String, Vec<usize>)> = taken
        .lines
        .iter()
        .filter(|(name, (count, _))| is_device(name) && enough(*count))
        .map(|(name, (count, _))| (name, devices.matching(*count)))
        .collect();
    let is_known = |own: &[usize]| {
        let rivals: Vec<&Vec<usize>> = candidates
            .iter()
            .map(|(_, other)| other)
            .filter(|other| other.iter().any(|place| own.contains(place)))
            .collect();
        let mut vectors: Vec<usize> = rivals.iter().flat_map(|rival| rival.iter().copied()).collect();
        vectors.sort_unstable();
        vectors.dedup();
        !own.is_empty() && rivals.len() <= vectors.len()
    };
    let claimed: Vec<usize> =
        candidates.iter().filter(|(_, own)| is_known(own)).flat_map(|(_, own)| own.iter().copied()).collect();
    let unclaimed: u64 = devices.without(&claimed).map(|place| devices.all[place].delivered).sum();

    let one = |(name, (count, about)): (&String, &(u64, String))| {
        let own = OWN.iter().find(|(own, _)| own == name).map(|(_, vectors)| *vectors);
        if !is_device(name) && own.is_none() {
            return None; // statistics of the guest's kernel, such as those of machine checks
        }
        let judged = |delivered, vectors: Vec<u64>, path| {
            // If several vectors match, any of them may be the device's: the counts are those of the first.
            let counted = if own.is_some() { &vectors[..] } else { &vectors[..vectors.len().min(1)] };
            let injected = counted.iter().map(|vector| host.injected.get(vector).copied().unwrap_or(0)).sum();
            Some(Judged {
                line: name.clone(),
                about: about.clone(),
                taken: *count,
                delivered,
                injected: (!vectors.is_empty()).then_some(injected),
                vectors,
                path,
            })
        };
        let unknown = |reason: String| Path::Unknown(reason);
        if host.dropped > 0 {
            let reason = format!("{} of the host's events were lost: watch for a shorter time", host.dropped);
            return judged(None, Vec::new(), unknown(reason));
        }
        if !enough(*count) {
            let reason =
                format!("only {count} interrupts, {FEWEST} are needed: use the device during the count");
            return judged(None, Vec::new(), unknown(reason));
        }
        if let Some(vectors) = own {
            let delivered = host.accepted.iter().filter(|delivery| vectors.contains(&delivery.vector));
            let delivered: u64 = delivered.map(|delivery| delivery.delivered).sum();
            return judged(Some(delivered), vectors.to_vec(), by_share(delivered, *count, others));
        }
        let matched = devices.matching(*count);
        if is_known(&matched) {
            let nearest = devices.nearest(matched, *count);
            let mut vectors: Vec<u64> = nearest.iter().map(|delivery| delivery.vector).collect();
            vectors.dedup();
            let path = match others {
                true => unknown("as many were delivered, but other guests run".into()),
                false => Path::Forwarded,
            };
            return judged(Some(nearest[0].delivered), vectors, path);
        }
        if (unclaimed as f64) < TRACE * *count as f64 {
            return judged(Some(0), Vec::new(), Path::Direct);
        }
        let reason = format!(
            "no vector's deliveries match, and others are left over ({})",
            devices.described(devices.without(&claimed)).join("; ")
        );
        judged(None, Vec::new(), unknown(reason))
    };
    taken.lines.iter().filter_map(one).collect()
}

/// The host's deliveries at the vectors of devices; a place is an index into them.
struct Devices<'a> {
    all: Vec<&'a Delivery>,
    injected: &'a BTreeMap<u64, u64>,
}

impl<'a> Devices<'a> {
    fn of(host: &'a Deliveries) -> Self {
        let all = host.accepted.iter().filter(|delivery| delivery.vector < FIRST_OF_SYSTEM).collect();
        Devices { all, injected: &host.injected }
    }

    /// Injections are counted by vector alone: they are known where one virtual CPU has the vector.
    fn injected(&self, place: usize) -> Option<u64> {
        let vector = self.all[place].vector;
        let alone = self.all.iter().filter(|other| other.vector == vector).count() == 1;
        alone.then(|| self.injected.get(&vector).copied().unwrap_or(0))
    }

    /// Places that may belong to a device with this count of interrupts in the guest.
    fn matching(&self, count: u64) -> Vec<usize> {
        let share = |delivered: u64| delivered as f64 / count as f64;
        let fits = |delivered: u64| (LEAST..=MOST).contains(&share(delivered));
        let fits_at = |place: &usize| {
            let delivered = self.all[*place].delivered;
            // A card that speaks again while its interrupt is pending is heard once, however often it was
            // delivered: there, the injections are as many as were taken.
            fits(delivered) || (share(delivered) > MOST && self.injected(*place).is_some_and(fits))
        };
        (0..self.all.len()).filter(fits_at).collect()
    }

    fn without(&self, claimed: &[usize]) -> impl Iterator<Item = usize> {
        (0..self.all.len()).filter(move |place| !claimed.contains(place))
    }

    /// The deliveries at these places, those nearest to a count first.
    fn nearest(&self, mut places: Vec<usize>, count: u64) -> Vec<&'a Delivery> {
        let distance = |place: usize| {
            let delivered = self.all[place].delivered.abs_diff(count);
            self.injected(place).map_or(delivered, |injected| injected.abs_diff(count).min(delivered))
        };
        places.sort_by_key(|&place| (distance(place), self.all[place].vector));
        places.into_iter().map(|place| self.all[place]).collect()
    }

    /// A few of these places in words.
    fn described(&self, places: impl Iterator<Item = usize>) -> Vec<String> {
        let described = |place: usize| {
            let injected = self.injected(place).map_or("unknown".into(), |count| count.to_string());
            let Delivery { vector, delivered, .. } = self.all[place];
            format!("{vector:#x}: {delivered} delivered, {injected} injected")
        };
        places.take(NAMED).map(described).collect()
    }
}

/// The path of interrupts on known vectors, judged by the share that the host delivered.
fn by_share(delivered: u64, taken: u64, others: bool) -> Path {
    let share = delivered as f64 / taken as f64;
    if share < TRACE {
        Path::Direct
    } else if others {
        Path::Unknown("other guests run, and their deliveries are counted too".into())
    } else if share >= LEAST {
        Path::Forwarded
    } else {
        Path::Unknown(format!("the host delivered {delivered} of {taken}"))
    }
}
