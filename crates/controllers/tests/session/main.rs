//! Connections with controllers: recorded conversations, the rules of OpenFlow and of Open vSwitch, and controllers that
//! keep to no rule.

mod asynchronous;
mod beginning;
mod bundles;
mod hostile;
mod monitors;
mod multipart;
mod recorded;
mod roles;
mod switch;

use std::time::Duration;

use controllers::{ConnectionId, Controllers, Limits, SessionError, Settings};
use openflow::{Codec, ErrorCode, Failure, FlowCommand, FlowMod, Framer, Hello, Message, Version};
use switch::Fake;

const START: Duration = Duration::from_secs(1000);

/// A switch and its connections. Each connection's controller reads all that is sent to it.
struct Peers {
    controllers: Controllers,
    switch: Fake,
    now: Duration,
}

impl Peers {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        Self { controllers: Controllers::new(limits), switch: Fake::default(), now: START }
    }

    /// A connection behind the hello, in this version.
    fn connect(&mut self, version: Version) -> ConnectionId {
        self.connect_as(version, Settings::controller())
    }

    fn connect_as(&mut self, version: Version, settings: Settings) -> ConnectionId {
        let id = self.controllers.connect(settings, &self.switch, self.now).unwrap();
        let hello = Codec::new(version).encode(1, &Message::Hello(Hello::of(&[version]))).unwrap();
        self.receive(id, &hello).unwrap();
        self.sent(id);
        assert_eq!(self.controllers.version(id), Some(version));
        id
    }

    fn receive(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<(), SessionError> {
        self.controllers.receive(id, bytes, &mut self.switch, self.now)
    }

    /// The bytes for a controller, which are sent.
    fn take(&mut self, id: ConnectionId) -> Vec<u8> {
        std::mem::take(self.controllers.to_send(id).unwrap())
    }

    /// The messages for a controller, which are sent, until there are none.
    fn sent(&mut self, id: ConnectionId) -> Vec<(u32, Message)> {
        let codec = Codec::new(self.controllers.version(id).unwrap());
        let (mut framer, mut messages) = (Framer::new(), Vec::new());
        loop {
            let bytes = self.take(id);
            if bytes.is_empty() {
                return messages;
            }
            for bytes in cut(&mut framer, &bytes) {
                let received = codec.decode(&bytes).unwrap();
                messages.push((received.transaction, received.message));
            }
            self.receive(id, &[]).unwrap();
        }
    }

    fn tell(&mut self, id: ConnectionId, transaction: u32, message: &Message) {
        let codec = Codec::new(self.controllers.version(id).unwrap());
        let bytes = codec.encode(transaction, message).unwrap();
        self.receive(id, &bytes).unwrap();
    }

    /// What is answered to a message.
    fn ask(&mut self, id: ConnectionId, message: &Message) -> Vec<Message> {
        self.tell(id, 7, message);
        let sent = self.sent(id);
        sent.into_iter().filter(|(transaction, _)| *transaction == 7).map(|(_, message)| message).collect()
    }

    /// What a message is refused with.
    fn refused(&mut self, id: ConnectionId, message: &Message) -> Option<ErrorCode> {
        match &self.ask(id, message)[..] {
            [Message::Error(error)] => Some(error.code),
            [] => None,
            other => panic!("{other:?}"),
        }
    }
}

fn cut(framer: &mut Framer, mut bytes: &[u8]) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| framer.next(&mut bytes).unwrap()).collect()
}

/// The number of a failure in OpenFlow 1.5.
fn code(failure: Failure) -> Option<ErrorCode> {
    Some(failure.code(Version::V15))
}

fn flow_mod(text: &str) -> Message {
    Message::FlowMod(Box::new(FlowMod::new(FlowCommand::Add, flow::Flow::parse(text).unwrap())))
}
