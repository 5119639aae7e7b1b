//! Hands a device from one process to another without disturbing its front-end.
//!
//! The format is the protocol itself. The front-end's messages that are still in effect are repeated to a new session
//! of the other process, which checks them again. Rings continue at the positions where they stopped.
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vhost_user::SharedFd;
use vhost_user::codec::Message;
use vhost_user::codec::header::Header;
use vhost_user::codec::payload::MemoryRegion;
use vhost_user::codec::table::frontend_request;
use vhost_user::socket::{Connection, Listener, UnderWay};

use super::{Backend, watch_memory};
use crate::device::Device;
use crate::link::{Link, Role};
use crate::peer::{End, Peer};
use crate::tokens::{CHANNEL, LINK, MEMORY, PEER};
use crate::{Context as _, DeviceError, HandOverState, Interest};

/// A device in words; numbers of files are places in [`HandOverState::files`].
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct Words {
    path: String,
    /// The listening socket, if this end listens.
    listener: Option<usize>,
    /// The connected front-end.
    peer: Option<PeerWords>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct PeerWords {
    connection: ConnectionWords,
    /// The messages that are still in effect.
    messages: Vec<MessageWords>,
    /// Regions that were added more than once, with their counts.
    region_counts: Vec<RegionCount>,
    /// The socket of the back-end's requests, with its messages in transit.
    channel: Option<ConnectionWords>,
    /// The numbers of requests on it that the front-end has not acknowledged yet.
    unacknowledged: Vec<u32>,
    /// The state of the control queue, as the commands that set it.
    commands: Vec<Vec<u8>>,
    needs_reset: bool,
    #[serde(rename = "asked_for_pairs")]
    asked_for_queues: bool,
}

/// A region, and how often it was added.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct RegionCount {
    guest_address: u64,
    size_bytes: u64,
    user_address: u64,
    mmap_offset: u64,
    times: u32,
}

impl RegionCount {
    fn of((region, times): (MemoryRegion, u32)) -> Self {
        let MemoryRegion { guest_address, size_bytes, user_address, mmap_offset } = region;
        RegionCount { guest_address, size_bytes, user_address, mmap_offset, times }
    }

    fn count(self) -> (MemoryRegion, u32) {
        let RegionCount { guest_address, size_bytes, user_address, mmap_offset, times } = self;
        (MemoryRegion { guest_address, size_bytes, user_address, mmap_offset }, times)
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct ConnectionWords {
    socket: usize,
    received: Vec<u8>,
    received_files: Vec<usize>,
    unsent: Vec<MessageWords>,
}

/// A message, or the rest of one.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct MessageWords {
    /// 0 of a rest.
    id: u32,
    bytes: Vec<u8>,
    files: Vec<usize>,
}

/// Files by their places.
#[derive(Default)]
struct Files(Vec<Option<SharedFd>>);

impl Files {
    fn put(&mut self, file: SharedFd) -> usize {
        self.0.push(Some(file));
        self.0.len() - 1
    }

    fn put_all(&mut self, files: Vec<SharedFd>) -> Vec<usize> {
        files.into_iter().map(|file| self.put(file)).collect()
    }

    fn take(&mut self, at: usize) -> io::Result<SharedFd> {
        let file = self.0.get_mut(at).and_then(Option::take);
        file.ok_or_else(|| io::Error::other(format!("descriptor {at} did not come along")))
    }

    fn take_all(&mut self, at: &[usize]) -> io::Result<Vec<SharedFd>> {
        at.iter().map(|at| self.take(*at)).collect()
    }
}

impl ConnectionWords {
    fn of(connection: &Connection, files: &mut Files) -> Self {
        let UnderWay { received, received_fds, unsent } = connection.under_way();
        let socket = files.put(connection.socket().clone());
        let received_files = files.put_all(received_fds);
        let mut rest = |(bytes, fds)| MessageWords { id: 0, bytes, files: files.put_all(fds) };
        let unsent = unsent.into_iter().map(&mut rest).collect();
        ConnectionWords { socket, received, received_files, unsent }
    }

    fn connection(self, files: &mut Files) -> io::Result<Connection> {
        let unsent = self.unsent.into_iter().map(|rest| Ok((rest.bytes, files.take_all(&rest.files)?)));
        let under_way = UnderWay {
            received: self.received,
            unsent: unsent.collect::<io::Result<_>>()?,
            received_fds: files.take_all(&self.received_files)?,
        };
        Connection::take_over(files.take(self.socket)?, under_way).map_err(io::Error::other)
    }
}

impl MessageWords {
    fn message(self, files: &mut Files) -> io::Result<Message> {
        let header = Header { id: self.id, reply: false, need_reply: false, size: self.bytes.len() as u32 };
        Ok(Message { header, fds: files.take_all(&self.files)?, payload: self.bytes })
    }
}

/// Why the connection of a front-end cannot be continued.
enum Failure {
    /// The options of this device differ from those that the front-end has agreed to.
    Options(String),
    /// The front-end's messages or the system's limits are the cause.
    Peer(String),
}

impl Failure {
    /// The cause if the message with this number is refused. A front-end that was correct before can have changed the
    /// files that it shares, and the rings in them. Any other message is refused only if the options differ.
    fn of(id: u32) -> fn(String) -> Self {
        let names_files = frontend_request(id).is_ok_and(|rule| *rule.fds.end() > 0);
        if names_files { Failure::Peer } else { Failure::Options }
    }
}

impl<D: Device> Peer<D> {
    fn words(&mut self, files: &mut Files) -> PeerWords {
        let message = |Message { header, payload, fds }| MessageWords {
            id: header.id,
            bytes: payload,
            files: files.put_all(fds),
        };
        let messages = self.session.messages(self.engine.bases()).into_iter().map(message).collect();
        PeerWords {
            messages,
            region_counts: self.session.region_counts().map(RegionCount::of).collect(),
            connection: ConnectionWords::of(&self.connection, files),
            channel: self.channel.as_ref().map(|channel| ConnectionWords::of(channel, files)),
            unacknowledged: self.session.unacknowledged().collect(),
            commands: self.engine.device.state(),
            needs_reset: self.engine.needs_reset(),
            asked_for_queues: self.asked_for_queues,
        }
    }

    /// Goes on where another process stood: what the front-end said to that one is said again, and not answered.
    fn take_over(
        &mut self,
        words: PeerWords,
        files: &mut Files,
        context: &mut D::Context<'_>,
    ) -> Result<(), Failure> {
        self.watch_again(context).map_err(|error| Failure::Peer(error.to_string()))?;
        for words in words.messages {
            let message = words.message(files).map_err(|error| Failure::Peer(error.to_string()))?;
            let failure = Failure::of(message.header.id);
            self.repeat(message, context).map_err(failure)?;
        }
        self.session.set_region_counts(words.region_counts.into_iter().map(RegionCount::count));
        if let (Some(words), Some(channel)) = (words.channel, &mut self.channel) {
            // The duplicate that came with its message is replaced by the one with all that is on its way.
            let mut taken = words.connection(files).map_err(|error| Failure::Peer(error.to_string()))?;
            taken.set_filter(self.shared.guard());
            std::mem::replace(channel, taken).leave();
            let watched = context.watch(CHANNEL, channel.socket(), Interest::Readable);
            watched.map_err(|error| Failure::Peer(error.to_string()))?;
        }
        self.session.await_acknowledgements(&words.unacknowledged);
        self.engine.restore(&words.commands, context);
        self.engine.set_needs_reset(words.needs_reset);
        self.asked_for_queues = words.asked_for_queues;
        self.ran = self.engine.rings.iter().next().is_some();
        Ok(())
    }

    /// Releases the connection without notifying the front-end, because another process has it.
    pub fn leave(self) {
        self.connection.leave();
        if let Some(channel) = self.channel {
            channel.leave();
        }
    }
}

impl<D: Device> Backend<D> {
    fn words(&mut self, files: &mut Files) -> Words {
        let path = self.options.path.to_string_lossy().into_owned();
        let listener = match &self.link {
            Some(Link::Server(listener)) => Some(files.put(listener.socket().clone())),
            _ => None,
        };
        Words { path, listener, peer: self.peer.as_mut().map(|peer| peer.words(files)) }
    }

    /// Stops and returns the state that another process needs to continue. The state does not change until
    /// [`Backend::leave`] or [`Backend::resume`] is called.
    ///
    /// # Errors
    /// The state cannot be written. [`Backend::resume`] must be called then.
    pub fn hand_over(&mut self, context: &mut D::Context<'_>) -> Result<HandOverState, DeviceError> {
        for token in [LINK, PEER, CHANNEL, MEMORY] {
            context.unwatch(token);
        }
        let parked = self.peer.as_mut().map_or(Ok(()), |peer| {
            peer.engine.rings.park(context);
            peer.check_queues()
        });
        if let Err(why) = parked {
            // The other process could not know where its ring stands: the front-end comes to that one anew.
            self.lost(&why, context);
            context.unwatch(LINK);
        }
        self.stands_still = true;
        let mut files = Files::default();
        let words = serde_json::to_value(self.words(&mut files));
        let words = words.map_err(|error| {
            let remedy = "start the new switch without --take-over; front-ends connect again";
            DeviceError::new(
                format!("hand {} over to another process", self.shared.log.name()),
                error,
                remedy,
            )
        })?;
        Ok(HandOverState { words, files: files.0.into_iter().flatten().collect() })
    }

    /// Continues after [`Backend::hand_over`], because the other process did not.
    pub fn resume(&mut self, context: &mut D::Context<'_>) {
        self.stands_still = false;
        if let Some(memory) = &self.memory
            && let Err(error) = watch_memory(MEMORY, memory, context)
        {
            self.shared.log.log(context, format_args!("losses of memory go unseen: {error}"));
        }
        let Some(peer) = &mut self.peer else { return self.wait_or_retry(context) };
        peer.engine.unpark(context);
        let watched = peer.watch_again(context).and_then(|()| peer.engine.watch_kicks_again(context));
        if let Err(why) = watched.map_err(End::from).and_then(|()| peer.check_queues()) {
            self.lost(&why, context);
        }
    }

    /// Continues the device of another process from its state, instead of [`Backend::start`].
    ///
    /// # Errors
    /// The state cannot be read, or the device has other options than in the other process.
    pub fn take_over(
        &mut self,
        state: HandOverState,
        context: &mut D::Context<'_>,
    ) -> Result<(), DeviceError> {
        let name = self.shared.log.name().to_owned();
        let failed = |why: String| {
            let remedy = "give this port the same options as in the running switch, which continues";
            DeviceError::new(format!("continue with {name}"), why, remedy)
        };
        let words: Words = serde_json::from_value(state.words).map_err(|error| failed(error.to_string()))?;
        // Each is a peer's, or may be.
        let keep = |file: SharedFd| Some(self.shared.guard.keep(file));
        let mut files = Files(state.files.into_iter().map(keep).collect());
        let path = &self.options.path;
        if Path::new(&words.path) != path {
            return Err(failed(format!("it is at {} in the running switch", words.path)));
        }
        self.memory = Some(self.new_memory(context)?);
        self.link = Some(match (self.options.role, words.listener) {
            (Role::Server, Some(at)) => {
                let socket = files.take(at).map_err(|error| failed(error.to_string()))?;
                Link::Server(
                    Listener::take_over(socket, path, self.shared.guard())
                        .map_err(|error| failed(error.to_string()))?,
                )
            }
            (Role::Client, None) => Link::Client { told: false },
            (Role::Server, None) | (Role::Client, Some(_)) => {
                return Err(failed("server= differs from the running switch".to_owned()));
            }
        });
        let Some(mut words) = words.peer else { return self.wait_for_peer(context) };
        let Some(memory) = &self.memory else { return Ok(()) };
        let connection = std::mem::take(&mut words.connection).connection(&mut files);
        let mut connection = match connection {
            Ok(connection) => connection,
            Err(error) => {
                self.shared.log.log(context, End::NotHandedOver(error.to_string()));
                return self.wait_for_peer(context);
            }
        };
        connection.set_filter(self.shared.guard());
        let peer = self.peer(connection, memory);
        let peer = self.peer.insert(peer);
        match peer.take_over(words, &mut files, context) {
            Ok(()) => Ok(()),
            Err(Failure::Options(why)) => Err(failed(why)),
            Err(Failure::Peer(why)) => {
                self.give_up(why, context);
                Ok(())
            }
        }
    }

    /// Loses the front-end, and not the whole hand-over. It hears of that when this process is in charge: before, the
    /// other one may go on with it.
    fn give_up(&mut self, why: String, context: &mut D::Context<'_>) {
        if let Some(peer) = &mut self.peer {
            peer.engine.rings.clear(context);
        }
        for token in [PEER, CHANNEL] {
            context.unwatch(token);
        }
        self.given_up = Some(why);
        context.after(LINK, Duration::ZERO);
    }
}
