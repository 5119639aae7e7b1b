//! The controllers of the table Controller, and when a bridge connects with them.
use std::path::Path;
use std::time::Duration;

use control::{ControllerDescription, ControllerState};
use controllers::Settings;
use openflow::Role;

use super::target::Target;

/// Between two attempts to connect, at first; each that fails makes it twice as long.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// The longest time between two attempts, unless the database says otherwise.
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
/// The number of probe intervals without a controller after which a bridge that is not secure forwards by itself.
const PROBES: u32 = 3;

/// A controller of a bridge.
pub struct Outgoing {
    /// The bridge's name.
    pub bridge: String,
    /// The target, as the database writes it.
    pub target: String,
    /// The parsed target; `None` if it has another form, or is a socket elsewhere.
    pub to: Option<Target>,
    /// The settings of the connection.
    pub description: ControllerDescription,
    /// The key of the connection.
    pub connection: Option<u64>,
    /// Why there is no connection.
    pub error: Option<String>,
    /// Whether the bridge waits at the target.
    listens: bool,
    pause: Duration,
    due: Duration,
    /// The time at which the connection began or ended, or at which the controller was named.
    changed: Duration,
    was_connected: bool,
}

impl Outgoing {
    /// A controller that was named at `now`. A socket of its target is in `folder`.
    pub fn new(
        bridge: &str,
        target: &str,
        folder: Option<&Path>,
        description: ControllerDescription,
        now: Duration,
    ) -> Self {
        let to = target.parse::<Target>().and_then(|to| to.within(folder));
        Outgoing {
            bridge: bridge.to_owned(),
            target: target.to_owned(),
            error: to.as_ref().err().cloned(),
            to: to.ok(),
            description,
            connection: None,
            listens: false,
            pause: SHORTEST_PAUSE,
            due: now,
            changed: now,
            was_connected: false,
        }
    }

    /// The settings of its connection.
    pub fn settings(&self) -> Settings {
        let ControllerDescription { probe_ms, frames_per_second, burst, .. } = self.description;
        let settings = Settings::controller();
        let packets = frames_per_second.map(|rate| (rate, burst.unwrap_or(rate / 4)));
        match probe_ms {
            None => Settings { packets, ..settings },
            Some(0) => Settings { packets, probe_interval: None, ..settings },
            // As Open vSwitch, no more often than once in five seconds.
            Some(ms) => Settings {
                packets,
                probe_interval: Some(Duration::from_millis(ms).max(Duration::from_secs(5))),
                ..settings
            },
        }
    }

    /// The target with which to connect, or at which to wait, from now on.
    pub fn due(&self, now: Duration) -> Option<&Target> {
        self.to.as_ref().filter(|_| !self.listens && self.connection.is_none() && now >= self.due)
    }

    /// A connection of this key was begun, or without one the bridge waits at the target.
    pub fn opened(&mut self, key: Option<u64>) {
        (self.connection, self.listens) = (key, key.is_none());
        if self.listens {
            self.error = None;
        }
    }

    /// An attempt to connect has failed, or the connection has ended.
    pub fn ended(&mut self, why: String, now: Duration) {
        let longest = self.description.longest_pause_ms.map_or(LONGEST_PAUSE, Duration::from_millis);
        self.connection = None;
        self.error = Some(why);
        self.due = now + self.pause;
        self.pause = (2 * self.pause).min(longest.max(SHORTEST_PAUSE));
    }

    /// Takes note of whether the bridge and the controller have agreed on a version.
    pub fn note(&mut self, is_connected: bool, now: Duration) {
        if is_connected != self.was_connected {
            (self.was_connected, self.changed) = (is_connected, now);
        }
        if is_connected {
            (self.pause, self.error) = (SHORTEST_PAUSE, None);
        }
    }

    /// Whether a bridge that is not secure forwards without this controller.
    pub fn is_away(&self, now: Duration) -> bool {
        let probe = self.settings().probe_interval.unwrap_or(Duration::from_secs(5));
        !self.was_connected && now.saturating_sub(self.changed) >= PROBES * probe
    }

    /// The state of the connection.
    pub fn state(&self, role: Option<Role>, now: Duration) -> ControllerState {
        let role = role.filter(|_| self.was_connected).map(|role| match role {
            Role::Primary => "master",
            Role::Secondary => "slave",
            _ => "other",
        });
        ControllerState {
            is_connected: self.was_connected,
            role: role.map(str::to_owned),
            seconds: Some(now.saturating_sub(self.changed).as_secs()),
            error: self.error.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rarer_and_a_controller_that_is_away_is_missed() {
        let seconds = Duration::from_secs;
        let description = ControllerDescription { longest_pause_ms: Some(3000), ..Default::default() };
        let mut one = Outgoing::new("br0", "tcp:192.0.2.1", None, description, seconds(100));
        let mut now = seconds(100);
        for pause in [1, 2, 3, 3] {
            assert!(one.due(now).is_some(), "{now:?}");
            one.ended("refused".to_owned(), now);
            assert!(one.due(now + seconds(pause) - Duration::from_millis(1)).is_none(), "{pause}");
            now += seconds(pause);
        }
        assert!(!one.is_away(seconds(114)) && one.is_away(seconds(115)), "three probes of five seconds");
        assert_eq!(one.state(None, seconds(115)).error.as_deref(), Some("refused"));
        one.note(true, seconds(120));
        let state = one.state(Some(Role::Primary), seconds(127));
        assert!(state.is_connected && !one.is_away(seconds(500)) && state.error.is_none());
        assert_eq!((state.role.as_deref(), state.seconds), (Some("master"), Some(7)));
        one.note(false, seconds(200));
        one.ended("closed".to_owned(), seconds(200));
        assert!(one.due(seconds(201)).is_some() && one.is_away(seconds(215)));
    }

    #[test]
    fn a_target_that_cannot_be_is_said_and_never_due() {
        for (target, said) in [
            ("ssl:host", "tcp:IP:PORT"),
            ("unix:/run/other/c", "/run/tautline"),
            ("punix:/run/tautline/below/c", "/run/tautline"),
            ("unix:/run/tautline/../c", "/run/tautline"),
            ("unix:/run/tautline/..", "/run/tautline"),
        ] {
            let folder = Some(Path::new("/run/tautline"));
            let one = Outgoing::new("br0", target, folder, ControllerDescription::default(), Duration::ZERO);
            assert!(one.due(Duration::from_secs(9)).is_none() && one.to.is_none(), "{target}");
            assert!(one.state(None, Duration::ZERO).error.unwrap().contains(said), "{target}");
        }
    }
}
