//! What everyone's memory is made of: huge pages, unless they cannot be had.
use peers::pages::{Grown, free_mib};

/// What nine of DPDK's testpmd, two Open vSwitches and our generators take of the system's huge pages.
const HUGE_PAGES_MIB: u64 = 1400;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Wanted {
    Huge,
    Small,
    Both,
}

/// The memory of each run, one after the other: whether it is of huge pages. And why it is not, where that was asked
/// for. The system's pool is larger as long as the last is there.
pub fn have(wanted: Wanted) -> (Vec<bool>, Option<String>, Option<Grown>) {
    let lacking = HUGE_PAGES_MIB.saturating_sub(free_mib());
    let grown = match wanted {
        Wanted::Small => return (vec![false], None, None),
        _ if lacking == 0 => Ok(None),
        _ => Grown::by(lacking).map(Some),
    };
    match (grown, wanted) {
        (Ok(grown), Wanted::Both) => (vec![true, false], None, grown),
        (Ok(grown), _) => (vec![true], None, grown),
        (Err(why), _) => {
            let why = format!("{HUGE_PAGES_MIB} MiB of them are needed; {why}");
            eprintln!("bench-peers: no huge pages, small ones instead: {why}");
            (vec![false], Some(why), None)
        }
    }
}
