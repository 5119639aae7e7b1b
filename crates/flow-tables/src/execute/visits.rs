//! Visits to tables.
use std::sync::Arc;

use flow::{Action, Field, Key};

use super::{List, MAX_DEPTH, MAX_RESUBMITS, MAX_STACK, Next, Run};
use crate::fields::swap_original;
use crate::lists::Lists;
use crate::{Overrun, Surroundings};

impl<'a, S: Surroundings> Run<'a, '_, S> {
    /// The limit that is reached before another table or group is visited.
    pub(super) fn exhausted(&self) -> Option<Overrun> {
        if self.depth >= MAX_DEPTH {
            Some(Overrun::Depth)
        } else if self.resubmits >= MAX_RESUBMITS {
            Some(Overrun::Resubmits)
        } else if self.lists.stack.present().len() >= MAX_STACK {
            Some(Overrun::Stack)
        } else {
            None
        }
    }

    /// Counts a visit to a table, or returns the limit that the visit would exceed.
    pub(super) fn count_visit(&mut self, table: u8) -> Result<(), Overrun> {
        match self.exhausted() {
            Some(why) => Err(why),
            None => {
                self.resubmits += 1;
                self.depth += u32::from(table <= self.table);
                Ok(())
            }
        }
    }

    /// Actions of the flow of a table that matches, with this input port.
    pub(super) fn table(&mut self, table: u8, input: u16) -> Next {
        let depth = self.depth;
        if let Err(why) = self.count_visit(table) {
            return self.overrun(why);
        }
        let next = self.visit(table, input);
        self.depth = depth;
        next
    }

    /// The fields that flows are matched with. Fragments have no ports there (OpenFlow 1.5 §7.3.2, `OFPC_FRAG_NORMAL`).
    pub(super) fn looked_up(&self, input: u16) -> Key {
        let mut key = self.key;
        key.set(Field::InPortOxm, input.into());
        if key.get(Field::IpFrag) != 0 {
            key.set(Field::TcpSrc, 0);
            key.set(Field::TcpDst, 0);
        }
        key
    }

    /// Looks for the flow of a table that matches. Its actions are those of this table and flow from now on.
    pub(super) fn enter(&mut self, table: u8, input: u16) -> Option<&'a [Action]> {
        let (tables, key) = (self.tables, self.looked_up(input));
        let Lists { found, .. } = &mut *self.lists;
        let found = tables.lookup_with(table, &key, &mut self.cost, &mut self.outcome.consulted, found);
        let Some(entry) = found else {
            self.outcome.note(0, || format!("{table:2}. No match."));
            self.outcome.hits.push(Arc::clone(tables.missed.of(table)));
            return None;
        };
        self.outcome.note(0, || entry.title());
        self.outcome.hits.push(Arc::clone(entry));
        self.outcome.consulted.add(entry.touched());
        (self.table, self.entry) = (table, Some(entry));
        self.deepen(1);
        Some(&entry.flow.actions)
    }

    pub(super) fn visit(&mut self, table: u8, input: u16) -> Next {
        let before = (self.table, self.entry);
        let Some(actions) = self.enter(table, input) else { return Next::Go };
        let next = self.list(List::Given(actions));
        self.deepen(-1);
        (self.table, self.entry) = before;
        if next == Next::Stop { Next::Go } else { next }
    }

    /// The table and the input port of a visit.
    pub(super) fn visited(&self, action: &Action) -> Option<(u8, u16)> {
        match action {
            Action::Resubmit { port, table, original: false } => {
                Some((table.unwrap_or(self.table), port.unwrap_or(self.in_port())))
            }
            Action::GotoTable(table) => Some((*table, self.in_port())),
            _ => None,
        }
    }

    pub(super) fn resubmit(&mut self, port: Option<u16>, table: Option<u8>, original: bool) -> Next {
        let (table, input) = (table.unwrap_or(self.table), port.unwrap_or(self.in_port()));
        if !original {
            return self.table(table, input);
        }
        if !swap_original(&mut self.key) {
            return Next::Go;
        }
        let next = self.table(table, input);
        swap_original(&mut self.key);
        next
    }
}
