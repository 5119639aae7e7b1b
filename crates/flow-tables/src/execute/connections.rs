//! The action `ct`: its request to connection tracking, and the table where the frame continues.
use flow::{Action, Match};

use super::Run;
use crate::fields::{clear_connection, read, set_connection, take_frame};
use crate::{Connection, Surroundings, Track, Uncached};

impl<S: Surroundings> Run<'_, S> {
    /// Looks up the frame's connection. If `ct` names a table, a copy of the frame continues there.
    pub(super) fn ct(&mut self, ct: &flow::Ct) {
        self.write_window();
        self.uncached(Uncached::Connection);
        let zone = match ct.zone {
            flow::Zone::Number(zone) => zone,
            flow::Zone::Of(bits) => read(&self.key, bits) as u16,
        };
        let mut written = Match::ANY;
        for action in &ct.exec {
            let (field, value, mask) = match action {
                Action::SetField(field, value, mask) => (*field, *value, *mask),
                Action::Move(from, to) => (to.field, read(&self.key, *from) << to.start, to.mask()),
                _ => continue,
            };
            written.add_masked(field, value, mask);
        }
        let nat = ct.nat.as_ref();
        let track =
            Track { commit: ct.commit, force: ct.force, zone, helper: ct.helper, nat, written: &written };
        let Some(table) = ct.table else {
            self.around.track(&track, &mut self.window, &self.key);
            self.window.extract();
            take_frame(&mut self.key, self.window.held());
            clear_connection(&mut self.key);
            return;
        };
        self.on_copy(|run| {
            let connection: Connection = run.around.track(&track, &mut run.window, &run.key);
            run.window.extract();
            take_frame(&mut run.key, run.window.held());
            set_connection(&mut run.key, &connection, zone);
            let before = (std::mem::take(&mut run.depth), std::mem::replace(&mut run.table, table));
            let next = run.table(table, run.in_port());
            run.execute_set(next);
            (run.depth, run.table) = before;
            next
        });
        // The connection's fields are known in that table and those behind it alone.
        clear_connection(&mut self.key);
    }
}
