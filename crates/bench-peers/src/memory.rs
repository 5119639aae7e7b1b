//! What everyone's memory is made of: huge pages, unless they cannot be had.
use peers::pages::{Grown, free_mib};
use peers::{Error, Pages};

/// What nine of DPDK's testpmd, two Open vSwitches and our generators take of the system's huge pages.
const HUGE_PAGES_MIB: u64 = 1400;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Wanted {
    Huge,
    Small,
    Both,
}

/// What there is, for one run.
#[derive(Debug)]
pub struct Memory {
    pub pages: Pages,
    /// Why they are not huge, though that was asked for.
    pub no_huge_pages: Option<String>,
    /// In the system's pool as long as this is here.
    _grown: Option<Grown>,
}

impl Memory {
    fn small(no_huge_pages: Option<String>) -> Self {
        Memory { pages: Pages::Small, no_huge_pages, _grown: None }
    }

    pub fn name(&self) -> &'static str {
        match self.pages {
            Pages::Huge => "huge",
            Pages::Small => "small",
        }
    }
}

/// The memory of each run, one after the other. Where there are no huge pages a line says why, and small ones are
/// measured once.
pub fn have(wanted: Wanted) -> Vec<Memory> {
    let grow = || match HUGE_PAGES_MIB.saturating_sub(free_mib()) {
        0 => Ok(None),
        lacking => Grown::by(lacking).map(Some),
    };
    let all = have_by(wanted, grow);
    for why in all.iter().filter_map(|memory| memory.no_huge_pages.as_ref()) {
        eprintln!("bench-peers: no huge pages, small ones instead: {why}");
    }
    all
}

fn have_by(wanted: Wanted, grow: impl FnOnce() -> Result<Option<Grown>, Error>) -> Vec<Memory> {
    if wanted == Wanted::Small {
        return vec![Memory::small(None)];
    }
    match grow() {
        Err(why) => vec![Memory::small(Some(format!("{HUGE_PAGES_MIB} MiB of them are needed; {why}")))],
        Ok(grown) => {
            let huge = Memory { pages: Pages::Huge, no_huge_pages: None, _grown: grown };
            let small = (wanted == Wanted::Both).then(|| Memory::small(None));
            std::iter::once(huge).chain(small).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pages_stand_in_for_huge_ones_that_cannot_be_had() {
        let named = |wanted, grow: fn() -> Result<Option<Grown>, Error>| {
            let all = have_by(wanted, grow);
            all.iter().map(|memory| (memory.name(), memory.no_huge_pages.clone())).collect::<Vec<_>>()
        };
        let none = || Err(Error::Missing(vec!["the rights of root".to_owned()]));
        assert_eq!(named(Wanted::Huge, || Ok(None)), [("huge", None)]);
        assert_eq!(named(Wanted::Both, || Ok(None)), [("huge", None), ("small", None)]);
        assert_eq!(named(Wanted::Small, none), [("small", None)]);
        for wanted in [Wanted::Huge, Wanted::Both] {
            let [("small", Some(why))] = &named(wanted, none)[..] else {
                panic!("{:?}", named(wanted, none))
            };
            assert!(why.contains("1400 MiB") && why.contains("the rights of root"), "{why}");
        }
    }
}
