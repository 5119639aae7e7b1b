//! What workers have heard about neighbours, for the control side.
use std::sync::{Mutex, PoisonError, TryLockError};

use tunnels::Message;

/// The most addresses of which something was heard between two looks of the control side.
const MAX_HEARD: usize = 64;

/// Messages that the control side has not seen, at most one for each address.
#[derive(Debug)]
pub(crate) struct Heard(Mutex<Vec<Message>>);

impl Default for Heard {
    fn default() -> Self {
        Heard(Mutex::new(Vec::with_capacity(MAX_HEARD)))
    }
}

impl Heard {
    /// Adds a message, in place of an earlier one about the same address. A message that finds no room, or another thread at
    /// work, is lost: the address will be asked for again. Returns true if the control side is to be woken.
    pub fn add(&self, message: Message) -> bool {
        let mut all = match self.0.try_lock() {
            Ok(all) => all,
            Err(TryLockError::Poisoned(all)) => all.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let (is_first, has_room) = (all.is_empty(), all.len() < MAX_HEARD);
        match all.iter_mut().find(|known| known.address == message.address) {
            Some(known) => *known = message,
            None if has_room => all.push(message),
            None => return false,
        }
        is_first
    }

    /// Gives each message to `take`, and forgets it. Memory is kept.
    pub fn drain(&self, take: impl FnMut(Message)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).for_each(take);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_about_one_address_take_one_place_and_the_places_end() {
        let heard = Heard::default();
        let message = |number: u32, mac: u8| Message {
            address: std::net::IpAddr::V4(number.into()),
            mac: [2, mac, 0, 0, 0, 0],
        };
        for round in 0..1000 {
            assert_eq!(heard.add(message(7, round as u8)), round == 0);
        }
        assert!((1000..2000).all(|number| !heard.add(message(number, 0))));
        let mut all = Vec::new();
        heard.drain(|message| all.push(message));
        assert_eq!((all.len(), all[0]), (MAX_HEARD, message(7, 999_u32 as u8)));
        assert!(heard.add(message(8, 0)), "the next one wakes again");
    }
}
