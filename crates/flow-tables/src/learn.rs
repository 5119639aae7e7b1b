//! Makes flows that frames learn.
use flow::{Action, Flow, Key, Learn, LearnSpec, Match, Needs, Subfield, Timeouts};

use crate::Tables;
use crate::fields::read;

/// The match of the flow that a frame with these fields learns.
fn wanted(learn: &Learn, key: &Key) -> Match {
    let mut wanted = Match::ANY;
    let mut want = |bits: Subfield, value: u128| {
        wanted.add_masked(bits.field, value << bits.start, bits.mask());
    };
    for spec in &learn.specs {
        match spec {
            LearnSpec::MatchValue(bits, value) => want(*bits, *value),
            LearnSpec::MatchField(bits, of) => want(*bits, read(key, *of)),
            _ => {}
        }
    }
    wanted
}

/// The actions of the flow that a frame with these fields learns.
fn actions<'a>(learn: &'a Learn, key: &'a Key) -> impl Iterator<Item = Action> + 'a {
    let (idle, hard) = learn.fin_timeouts;
    let ends = (idle, hard) != (0, 0) && wanted(learn, key).meets(Needs::Tcp);
    let ends = ends.then_some(Action::FinTimeout(Timeouts { idle, hard }));
    ends.into_iter().chain(learn.specs.iter().filter_map(|spec| {
        Some(match spec {
            LearnSpec::LoadValue(value, to) => Action::SetField(to.field, value << to.start, to.mask()),
            LearnSpec::LoadField(of, to) => Action::SetField(to.field, read(key, *of) << to.start, to.mask()),
            LearnSpec::Output(of) => Action::Output(read(key, *of) as u16),
            _ => return None,
        })
    }))
}

/// The flow that a frame with these fields learns.
pub fn learned(learn: &Learn, key: &Key) -> Flow {
    let mut flow = Flow {
        table: learn.table,
        priority: learn.priority,
        cookie: learn.cookie,
        timeouts: learn.timeouts,
        wanted: wanted(learn, key),
        actions: actions(learn, key).collect(),
        ..Flow::default()
    };
    flow.flags.send_removed = learn.send_removed;
    flow
}

impl Tables {
    /// Whether the flow that a frame with these fields learns is there. Its times begin again at `now_ms`.
    pub(crate) fn refresh_learned(&self, learn: &Learn, key: &Key, now_ms: u64) -> bool {
        let Some(entry) = self.get(learn.table, learn.priority, &wanted(learn, key)) else { return false };
        let Flow { cookie, timeouts, actions: present, .. } = &entry.flow;
        let is_same = (*cookie, *timeouts) == (learn.cookie, learn.timeouts)
            && actions(learn, key).eq(present.iter().cloned());
        if is_same {
            entry.refresh(now_ms);
        }
        is_same
    }
}
