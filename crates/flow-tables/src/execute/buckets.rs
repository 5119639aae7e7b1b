//! Groups: selects the buckets for a frame, and executes their actions. Bundles: selects the port for a frame.
use flow::{Action, Bucket, Bundle, GroupKind, Selection, port};

use super::{Next, Run};
use crate::Surroundings;
use crate::fields::write;
use crate::select::{FLOW, choose, hash, heaviest};

/// Groups that watch groups, at most.
const MAX_WATCHED: usize = 16;

impl<S: Surroundings> Run<'_, S> {
    fn is_bucket_live(&self, bucket: &Bucket, depth: usize) -> bool {
        let by_port = bucket.watch_port.map(|port| self.around.is_live(port));
        let by_group = bucket.watch_group.map(|group| {
            depth < MAX_WATCHED
                && self.tables.group(group).is_some_and(|group| {
                    group.buckets.iter().any(|bucket| self.is_bucket_live(bucket, depth + 1))
                })
        });
        match (by_port, by_group) {
            (None, None) => true,
            (port, group) => port.unwrap_or(false) || group.unwrap_or(false),
        }
    }

    /// Executes the buckets of a group, each on a copy of the frame. Nested groups count as nested visits to tables.
    pub(super) fn group(&mut self, number: u32) -> Next {
        if let Some(why) = self.exhausted() {
            return self.overrun(why);
        }
        let Some(group) = self.tables.group(number) else { return Next::Go };
        self.depth += 1;
        let live = |run: &Self, bucket: &&Bucket| run.is_bucket_live(bucket, 0);
        match group.kind {
            GroupKind::All | GroupKind::Indirect => {
                group.buckets.iter().for_each(|bucket| self.bucket(bucket));
            }
            GroupKind::FastFailover => {
                if let Some(bucket) = group.buckets.iter().find(|bucket| live(self, bucket)) {
                    self.bucket(bucket);
                }
            }
            GroupKind::Select => {
                let (basis, fields) = match &group.selection {
                    Selection::Unspecified => (0, &[][..]),
                    Selection::DpHash(basis) => (*basis, &[][..]),
                    Selection::Hash(basis, fields) => (*basis, fields.as_slice()),
                };
                let values: Vec<u128> = match fields {
                    [] => FLOW.iter().map(|field| self.key.get(*field)).collect(),
                    fields => fields.iter().map(|(field, mask)| self.key.get(*field) & mask).collect(),
                };
                let choices = group.buckets.iter().filter(|bucket| live(self, bucket));
                let choices = choices.map(|bucket| (bucket, u64::from(bucket.id), bucket.weight));
                if let Some(bucket) = heaviest(hash(basis, values), choices) {
                    self.bucket(bucket);
                }
            }
        }
        self.depth -= 1;
        Next::Go
    }

    fn bucket(&mut self, bucket: &Bucket) {
        self.on_copy_of_frame(|run| {
            run.ordered(&bucket.actions);
            Next::Go
        });
    }

    /// Selects the port of a bundle: the frame leaves by this port, or a field gets its number.
    pub(super) fn bundle(&mut self, bundle: &Bundle) -> Next {
        let chosen = choose(bundle, &self.key, self.around);
        match (bundle.load, chosen) {
            (Some(bits), chosen) => {
                let port = u128::from(chosen.unwrap_or(port::ANY));
                write(&mut self.key, bits.field, (port & bits.all_bits()) << bits.start, bits.mask());
                Next::Go
            }
            (None, Some(port)) => self.output(port, None),
            (None, None) => Next::Go,
        }
    }

    /// The actions in the order of an action set (OpenFlow 1.5 §5.6): the last of each kind, all that write fields,
    /// and at the end a group, or else an output, a visit to a table, or a connection's action.
    pub(crate) fn ordered(&mut self, set: &[Action]) -> Next {
        let last = |is: fn(&Action) -> bool| set.iter().rev().find(|action| is(action)).cloned();
        let mut list: Vec<Action> = Vec::with_capacity(set.len());
        list.extend(last(|action| matches!(action, Action::PopVlan)));
        list.extend(last(|action| matches!(action, Action::PushVlan(_))));
        list.extend(last(|action| matches!(action, Action::DecTtl(_))));
        let writes = |action: &&Action| {
            matches!(
                action,
                Action::SetField(..) | Action::Move(..) | Action::ModVlanVid(_) | Action::ModVlanPcp(_)
            )
        };
        list.extend(set.iter().filter(writes).cloned());
        list.extend(last(|action| matches!(action, Action::SetQueue(_))));
        let ends: [fn(&Action) -> bool; 4] = [
            |action| matches!(action, Action::Group(_)),
            |action| matches!(action, Action::Output(_) | Action::OutputCut(..) | Action::Controller(_)),
            |action| matches!(action, Action::Resubmit { .. }),
            |action| matches!(action, Action::Ct(_)),
        ];
        list.extend(ends.into_iter().find_map(last));
        self.list(&list)
    }
}
