//! Doubly linked lists through the places of a table: no list allocates.

const NONE: u32 = u32::MAX;

/// The neighbours of one place in one list.
#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

/// The first and the last place of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { first: NONE, last: NONE }
    }
}

impl List {
    /// The place that was added first.
    pub fn first(&self) -> Option<u32> {
        Some(self.first).filter(|place| *place != NONE)
    }
}

/// One link for each place: a place is in at most one of the lists that share the links.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: Vec<Link>,
}

impl Links {
    pub fn new(places: usize) -> Self {
        Self { links: Vec::with_capacity(places) }
    }

    /// Makes room for another place.
    pub fn grow(&mut self) {
        self.links.push(Link { before: NONE, after: NONE });
    }

    /// Adds a place at the end of a list.
    pub fn push(&mut self, list: &mut List, place: u32) {
        self.links[place as usize] = Link { before: list.last, after: NONE };
        match list.last {
            NONE => list.first = place,
            last => self.links[last as usize].after = place,
        }
        list.last = place;
    }

    /// Removes a place from its list.
    pub fn remove(&mut self, list: &mut List, place: u32) {
        let Link { before, after } = self.links[place as usize];
        match before {
            NONE => list.first = after,
            before => self.links[before as usize].after = after,
        }
        match after {
            NONE => list.last = before,
            after => self.links[after as usize].before = before,
        }
    }
}
