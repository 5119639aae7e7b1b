//! Finds the tunnel of a received frame.
use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::{Kind, Received, Settings};

/// Another tunnel has the same ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another tunnel has the same kind, ends and key")]
pub struct Duplicate;

/// The fields by which tunnels differ.
type Place = (Kind, u16, Option<IpAddr>, Option<IpAddr>, Option<u64>);

/// The tunnels of a host. Of several that accept a frame, the one that names this end comes first, then the one that
/// names the other end, then the one that names the key.
#[derive(Clone, Debug)]
pub struct Ends<T>(BTreeMap<Place, T>);

impl<T> Default for Ends<T> {
    fn default() -> Self {
        Ends(BTreeMap::new())
    }
}

fn place(settings: &Settings) -> Place {
    (settings.kind, settings.port, settings.local, settings.remote, settings.key)
}

impl<T> Ends<T> {
    /// Adds a tunnel.
    ///
    /// # Errors
    /// A tunnel with these ends is there.
    pub fn add(&mut self, settings: &Settings, tunnel: T) -> Result<(), Duplicate> {
        if self.0.contains_key(&place(settings)) {
            return Err(Duplicate);
        }
        self.0.insert(place(settings), tunnel);
        Ok(())
    }

    /// Removes a tunnel.
    pub fn remove(&mut self, settings: &Settings) -> Option<T> {
        self.0.remove(&place(settings))
    }

    /// All tunnels.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.values()
    }

    /// The kind of the tunnels that use a UDP port.
    pub fn kind_of_port(&self, port: u16) -> Option<Kind> {
        let mut kinds = [Kind::Geneve, Kind::Vxlan].into_iter();
        kinds.find(|kind| {
            let first = (*kind, port, None, None, None);
            self.0.range(first..).next().is_some_and(|(place, _)| (place.0, place.1) == (*kind, port))
        })
    }

    /// The tunnel of a received frame.
    pub fn of(&self, frame: &Received<'_>) -> Option<&T> {
        let key = Some(frame.key.unwrap_or(0));
        for local in [Some(frame.to), None] {
            for remote in [Some(frame.from), None] {
                for key in [key, None] {
                    let found = self.0.get(&(frame.kind, frame.port, local, remote, key));
                    if found.is_some() {
                        return found;
                    }
                }
            }
        }
        None
    }
}
