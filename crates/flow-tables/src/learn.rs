//! Makes flows that frames learn.
use flow::{Action, Flow, Key, Learn, LearnSpec, Subfield};

use crate::fields::read;

/// The flow that a frame with these fields learns.
pub fn learned(learn: &Learn, key: &Key) -> Flow {
    let mut flow = Flow {
        table: learn.table,
        priority: learn.priority,
        cookie: learn.cookie,
        timeouts: learn.timeouts,
        ..Flow::default()
    };
    flow.flags.send_removed = learn.send_removed;
    let mut want = |bits: Subfield, value: u128| {
        flow.wanted.add_masked(bits.field, value << bits.start, bits.mask());
    };
    for spec in &learn.specs {
        match spec {
            LearnSpec::MatchValue(bits, value) => want(*bits, *value),
            LearnSpec::MatchField(bits, of) => want(*bits, read(key, *of)),
            _ => {}
        }
    }
    for spec in &learn.specs {
        flow.actions.push(match spec {
            LearnSpec::LoadValue(value, to) => Action::SetField(to.field, value << to.start, to.mask()),
            LearnSpec::LoadField(of, to) => Action::SetField(to.field, read(key, *of) << to.start, to.mask()),
            LearnSpec::Output(of) => Action::Output(read(key, *of) as u16),
            _ => continue,
        });
    }
    flow
}
