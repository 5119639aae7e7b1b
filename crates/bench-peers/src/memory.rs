//! The kind of memory pages of all systems: huge pages, unless they cannot be had.
use peers::pages::{Grown, free_mib};

/// The huge pages, in MiB, that nine processes of DPDK's testpmd, two Open vSwitches and our generators use.
const HUGE_PAGES_MIB: u64 = 1400;

/// The requested kind of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Wanted {
    Huge,
    Small,
    Both,
}

/// The memory of each run, one after the other: whether it consists of huge pages. Also the reason if huge pages were
/// requested and cannot be had. The system's pool is larger until the last value is dropped.
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
