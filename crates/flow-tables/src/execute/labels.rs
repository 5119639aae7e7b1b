//! Labels of MPLS.
use flow::{Controller, Field, Needs, Reason};

use super::{Next, Run};
use crate::fields::{has, take_frame};
use crate::outcome::Step;
use crate::{Overrun, Surroundings, Uncached};

impl<S: Surroundings> Run<'_, '_, S> {
    pub(super) fn push_mpls(&mut self, kind: u16) -> Next {
        self.write_window();
        let is_done = self.window.push_mpls(kind);
        self.labelled(is_done, Step::PushMpls(kind))
    }

    pub(super) fn pop_mpls(&mut self, kind: u16) -> Next {
        if !has(&self.key, Needs::Mpls) {
            return Next::Go;
        }
        self.write_window();
        let is_done = self.window.pop_mpls(kind);
        self.labelled(is_done, Step::PopMpls(kind))
    }

    /// The frame has other fields from here on: those behind a label that was removed are not compared by a cache. It is
    /// dropped if its labels could not be changed.
    fn labelled(&mut self, is_done: bool, step: Step) -> Next {
        if !is_done {
            self.uncached(Uncached::Label);
            return self.overrun(Overrun::Header);
        }
        self.outcome.steps.push(step);
        take_frame(&mut self.key, self.window.held());
        self.is_translated = true;
        Next::Go
    }

    pub(super) fn dec_mpls_ttl(&mut self) -> Next {
        if !has(&self.key, Needs::Mpls) {
            // As in Open vSwitch, the list ends.
            return Next::Stop;
        }
        let ttl = self.key.get(Field::MplsTtl);
        if ttl > 1 {
            self.key.set(Field::MplsTtl, ttl - 1);
            return Next::Go;
        }
        self.controller(&Controller { reason: Reason::InvalidTtl, ..Controller::default() });
        Next::Stop
    }
}
