//! The action `ct`: its request to connection tracking, and the frame that goes on in a table.
use flow::{Action, Field};

use super::{MAX_WAITING, Run};
use crate::connection::Written;
use crate::fields::{TRACKED, clear_connection, read, take_frame};
use crate::outcome::Step;
use crate::segment::{Start, Then, Waiting};
use crate::{Overrun, Surroundings, Track, Uncached};

impl<S: Surroundings> Run<'_, '_, S> {
    /// Tracks the frame. If `ct` names a table, a copy of the frame goes on there when all other actions are done.
    pub(super) fn ct(&mut self, ct: &flow::Ct) {
        self.write_window();
        let track = self.request(ct);
        let then = ct.table.map(|table| Then { table, queue: self.queue });
        self.outcome.steps.push(Step::Track(track, then));
        match then {
            Some(then) => self.track_copy(&track, then),
            None => {
                self.outcome.answers.track(&track, self.window, self.around);
                self.window.refresh();
                take_frame(&mut self.key, self.window.held());
                self.is_translated |= track.nat.is_some();
            }
        }
        // The connection's fields are known in that table and those behind it alone.
        clear_connection(&mut self.key);
    }

    fn request(&self, ct: &flow::Ct) -> Track {
        let zone = match ct.zone {
            flow::Zone::Number(zone) => zone,
            flow::Zone::Of(bits) => read(&self.key, bits) as u16,
        };
        let mut written = Written::default();
        for action in &ct.exec {
            match action {
                Action::SetField(field, value, mask) => written.add(*field, *value, *mask),
                Action::Move(from, to) => {
                    written.add(to.field, read(&self.key, *from) << to.start, to.mask());
                }
                _ => {}
            }
        }
        let is_seen =
            self.key.get(Field::CtState) & TRACKED != 0 && self.key.get(Field::CtZone) == zone.into();
        let flow::Ct { commit, force, helper, nat, .. } = *ct;
        Track { commit, force, zone, helper, nat, written, is_seen }
    }

    fn track_copy(&mut self, track: &Track, then: Then) {
        if self.outcome.waiting.len() >= MAX_WAITING {
            self.overrun(Overrun::Resubmits);
            return;
        }
        let Some(saved) = self.lists.save() else {
            self.overrun(Overrun::Stack);
            return;
        };
        if !saved.is_empty() {
            self.uncached(Uncached::Connection);
        }
        self.outcome.keys.push(self.key);
        let mut start = Start { then, depth: self.segments + 1, saved, key: self.key };
        let mut window = self.window.clone();
        let connection = self.outcome.answers.track(track, &mut window, self.around);
        start.take(&connection, track.zone, &mut window);
        self.outcome.waiting.push(Waiting { window, start });
    }
}
