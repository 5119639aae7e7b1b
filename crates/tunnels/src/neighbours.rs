//! The Ethernet addresses of neighbours that this end has requested.
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::Mac;

/// The most neighbours of one network.
pub const MAX_NEIGHBOURS: usize = 1024;

/// The time between two requests for an unknown address (RFC 4861 §10: `RETRANS_TIMER`).
const RETRY: Duration = Duration::from_secs(1);
/// After this time a known address is requested again; it is forgotten after unanswered requests.
const FRESH: Duration = Duration::from_secs(30);
const MAX_TRIES: u32 = 3;
/// Unknown addresses to which no frame was sent for this time are forgotten.
const IDLE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    mac: Option<Mac>,
    /// When it was wanted, answered and asked for the last time.
    wanted: Duration,
    answered: Duration,
    asked: Option<Duration>,
    /// Requests since the last answer.
    tries: u32,
}

/// The neighbours in one network. Time is that of any clock which never goes back.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    all: BTreeMap<IpAddr, Neighbour>,
    /// Whether known neighbours have come, gone or changed.
    has_changed: bool,
}

impl Neighbours {
    /// Notes that frames are to be sent to an address. Returns true if the address must be requested now. Beyond
    /// [`MAX_NEIGHBOURS`] it replaces the address that was not wanted for the longest time: an unknown one if there is one.
    pub fn want(&mut self, address: IpAddr, now: Duration) -> bool {
        if let Some(neighbour) = self.all.get_mut(&address) {
            neighbour.wanted = now;
            return false;
        }
        if self.all.len() >= MAX_NEIGHBOURS {
            let unused = self.all.iter().min_by_key(|(_, of)| (of.mac.is_some(), of.wanted));
            let Some((unused, _)) = unused.map(|(address, of)| (*address, *of)) else { return false };
            self.forget(unused);
        }
        let new = Neighbour { mac: None, wanted: now, answered: now, asked: None, tries: 0 };
        self.all.insert(address, new);
        true
    }

    fn forget(&mut self, address: IpAddr) {
        self.has_changed |= self.all.remove(&address).is_some_and(|of| of.mac.is_some());
    }

    /// Whether known neighbours have come, gone or changed since the last call.
    pub fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Whether an answer about this address would be kept.
    pub fn is_wanted(&self, address: IpAddr) -> bool {
        self.all.contains_key(&address)
    }

    /// Takes note of the owner of an address. Returns true if the owner is new. Addresses that are not wanted are ignored.
    pub fn learn(&mut self, address: IpAddr, mac: Mac, now: Duration) -> bool {
        let Some(neighbour) = self.all.get_mut(&address) else { return false };
        (neighbour.answered, neighbour.tries) = (now, 0);
        let is_new = neighbour.mac.replace(mac) != Some(mac);
        self.has_changed |= is_new;
        is_new
    }

    /// The addresses to ask for now. Forgets owners that do not answer any more, and addresses that are not used.
    pub fn due(&mut self, now: Duration) -> Vec<IpAddr> {
        let since = |then: Duration| now.saturating_sub(then);
        self.all.retain(|_, neighbour| neighbour.mac.is_some() || since(neighbour.wanted) < IDLE);
        let mut due = Vec::new();
        for (address, neighbour) in &mut self.all {
            let is_fresh = neighbour.mac.is_some() && since(neighbour.answered) < FRESH;
            if is_fresh || neighbour.asked.is_some_and(|asked| since(asked) < RETRY) {
                continue;
            }
            if neighbour.tries >= MAX_TRIES {
                self.has_changed |= neighbour.mac.take().is_some();
            }
            neighbour.tries = neighbour.tries.saturating_add(1);
            neighbour.asked = Some(now);
            due.push(*address);
        }
        due
    }

    /// The known neighbours, in the order of their addresses.
    pub fn known(&self) -> impl Iterator<Item = (IpAddr, Mac)> {
        self.all.iter().filter_map(|(address, neighbour)| Some((*address, neighbour.mac?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: Mac = [2, 0, 0, 0, 0, 1];

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_address_is_asked_for_until_it_answers_and_again_when_it_is_old() {
        let mut neighbours = Neighbours::default();
        let one: IpAddr = [10, 0, 0, 1].into();
        assert!(!neighbours.learn(one, MAC, at(0)), "nobody asked");
        assert!(neighbours.want(one, at(0)) && !neighbours.want(one, at(0)));
        assert_eq!(neighbours.due(at(0)), [one]);
        assert!(neighbours.due(at(0)).is_empty());
        assert_eq!(neighbours.due(at(1)), [one]);
        assert!(neighbours.learn(one, MAC, at(2)) && !neighbours.learn(one, MAC, at(2)));
        assert_eq!(neighbours.known().collect::<Vec<_>>(), [(one, MAC)]);
        assert!(neighbours.due(at(31)).is_empty());
        for second in 32..35 {
            assert_eq!(neighbours.due(at(second)), [one]);
            assert_eq!(neighbours.known().count(), 1);
        }
        assert_eq!(neighbours.due(at(35)), [one]);
        assert_eq!(neighbours.known().count(), 0, "it is gone");
        assert!(neighbours.due(at(100)).is_empty());
        assert!(!neighbours.is_wanted(one));
    }

    #[test]
    fn memory_is_bounded() {
        let mut neighbours = Neighbours::default();
        for number in 0..2000u32 {
            neighbours.want(IpAddr::V4(number.into()), at(0));
        }
        assert_eq!(neighbours.due(at(0)).len(), MAX_NEIGHBOURS);
    }

    /// A new address finds room: first that of an unknown address, then that of the known one that is unused the longest.
    #[test]
    fn a_new_address_replaces_the_longest_unused_one() {
        let mut neighbours = Neighbours::default();
        let address = |number: u32| IpAddr::V4(number.into());
        for number in 0..MAX_NEIGHBOURS as u32 {
            neighbours.want(address(number), at(number.into()));
            if number != 5 {
                neighbours.learn(address(number), MAC, at(number.into()));
            }
        }
        assert!(neighbours.take_change() && !neighbours.take_change());
        neighbours.want(address(0), at(5000));
        for (number, gone, is_known) in [(4000, 5, false), (4001, 1, true), (4002, 2, true)] {
            assert!(neighbours.want(address(number), at(5000 + u64::from(number))), "a request is due");
            assert!(neighbours.is_wanted(address(number)) && !neighbours.is_wanted(address(gone)));
            assert_eq!(neighbours.take_change(), is_known);
            assert!(neighbours.learn(address(number), MAC, at(9100)) && neighbours.take_change());
        }
        assert!(neighbours.is_wanted(address(0)));
    }
}
