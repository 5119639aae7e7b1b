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
pub struct Neighbours(BTreeMap<IpAddr, Neighbour>);

impl Neighbours {
    /// Notes that frames are to be sent to an address. Returns true if the address must be requested now. An address
    /// beyond [`MAX_NEIGHBOURS`] is not noted.
    pub fn want(&mut self, address: IpAddr, now: Duration) -> bool {
        if let Some(neighbour) = self.0.get_mut(&address) {
            neighbour.wanted = now;
            return false;
        }
        if self.0.len() >= MAX_NEIGHBOURS {
            return false;
        }
        let new = Neighbour { mac: None, wanted: now, answered: now, asked: None, tries: 0 };
        self.0.insert(address, new);
        true
    }

    /// Whether an answer about this address would be kept.
    pub fn is_wanted(&self, address: IpAddr) -> bool {
        self.0.contains_key(&address)
    }

    /// Takes note of the owner of an address. Returns true if the owner is new. Addresses that were not asked for are
    /// ignored.
    pub fn learn(&mut self, address: IpAddr, mac: Mac, now: Duration) -> bool {
        let Some(neighbour) = self.0.get_mut(&address) else { return false };
        (neighbour.answered, neighbour.tries) = (now, 0);
        neighbour.mac.replace(mac) != Some(mac)
    }

    /// The addresses to ask for now. Forgets owners that do not answer any more, and addresses that are not used.
    pub fn due(&mut self, now: Duration) -> Vec<IpAddr> {
        let since = |then: Duration| now.saturating_sub(then);
        self.0.retain(|_, neighbour| neighbour.mac.is_some() || since(neighbour.wanted) < IDLE);
        let mut due = Vec::new();
        for (address, neighbour) in &mut self.0 {
            let is_fresh = neighbour.mac.is_some() && since(neighbour.answered) < FRESH;
            if is_fresh || neighbour.asked.is_some_and(|asked| since(asked) < RETRY) {
                continue;
            }
            if neighbour.tries >= MAX_TRIES {
                neighbour.mac = None;
            }
            neighbour.tries = neighbour.tries.saturating_add(1);
            neighbour.asked = Some(now);
            due.push(*address);
        }
        due
    }

    /// The known neighbours, in the order of their addresses.
    pub fn known(&self) -> impl Iterator<Item = (IpAddr, Mac)> {
        self.0.iter().filter_map(|(address, neighbour)| Some((*address, neighbour.mac?)))
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
}
