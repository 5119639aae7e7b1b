//! A port in its place.
use port::Port;
use port::virtio_user::{VirtioUser, VirtioUserOptions};

use super::context::TestContext;

/// A port and the context that it is attached to.
pub struct Attached {
    pub port: VirtioUser,
    pub context: TestContext,
}

impl Attached {
    pub fn start(options: VirtioUserOptions) -> Self {
        let mut attached = Attached { port: VirtioUser::new(options).unwrap(), context: TestContext::new() };
        attached.port.start(&mut attached.context).unwrap();
        attached
    }

    pub fn until_connected(&mut self, pairs: usize) {
        self.context.until_attached(&mut self.port, pairs);
    }

    pub fn end(mut self) {
        self.port.end(&mut self.context);
        assert!(self.context.sources.is_empty() && self.context.sinks.is_empty());
        assert!(!self.context.watches_anything());
    }
}
