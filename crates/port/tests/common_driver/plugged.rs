//! A port in its place.
use port::Port;
use port::virtio_user::{VirtioUser, VirtioUserOptions};

use super::board::Board;

/// A port and the board that it is plugged into.
pub struct Plugged {
    pub port: VirtioUser,
    pub board: Board,
}

impl Plugged {
    pub fn start(options: VirtioUserOptions) -> Self {
        let mut plugged = Plugged { port: VirtioUser::new(options).unwrap(), board: Board::new() };
        plugged.port.start(&mut plugged.board).unwrap();
        plugged
    }

    pub fn until_connected(&mut self, pairs: usize) {
        self.board.until_plugged(&mut self.port, pairs);
    }

    pub fn end(mut self) {
        self.port.end(&mut self.board);
        assert!(self.board.sources.is_empty() && self.board.sinks.is_empty());
        assert!(!self.board.watches_anything());
    }
}
