//! Groups: selects the buckets for a frame, and executes their actions. Bundles: selects the port for a frame.
use flow::{Bucket, Bundle, Group, GroupKind, Selection, port};

use super::{Next, Run};
use crate::Surroundings;
use crate::compared::of_group;
use crate::fields::write;
use crate::lists::put_in_order;
use crate::select::{FLOW, choose, hash, heaviest};

/// Groups that watch groups, at most.
const MAX_WATCHED: usize = 16;

impl<'a, S: Surroundings> Run<'a, '_, S> {
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
        let tables = self.tables;
        let Some(group) = tables.group(number) else { return Next::Go };
        self.outcome.consulted.add_all(&of_group(group));
        self.depth += 1;
        match group.kind {
            GroupKind::All | GroupKind::Indirect => {
                group.buckets.iter().for_each(|bucket| self.bucket(bucket));
            }
            GroupKind::FastFailover => {
                let live = group.buckets.iter().find(|bucket| self.is_bucket_live(bucket, 0));
                live.into_iter().for_each(|bucket| self.bucket(bucket));
            }
            GroupKind::Select => {
                let selected = self.selected(group);
                selected.into_iter().for_each(|bucket| self.bucket(bucket));
            }
        }
        self.depth -= 1;
        Next::Go
    }

    /// The bucket that the frame's fields select among the live buckets.
    fn selected(&self, group: &'a Group) -> Option<&'a Bucket> {
        let (basis, fields) = match &group.selection {
            Selection::Unspecified => (0, &[][..]),
            Selection::DpHash(basis) => (*basis, &[][..]),
            Selection::Hash(basis, fields) => (*basis, fields.as_slice()),
        };
        let hash = match fields {
            [] => hash(basis, FLOW.iter().map(|field| self.key.get(*field))),
            fields => hash(basis, fields.iter().map(|(field, mask)| self.key.get(*field) & mask)),
        };
        let live = group.buckets.iter().filter(|bucket| self.is_bucket_live(bucket, 0));
        heaviest(hash, live.map(|bucket| (bucket, u64::from(bucket.id), bucket.weight)))
    }

    fn bucket(&mut self, bucket: &'a Bucket) {
        self.on_copy_of_frame(|run| {
            let from = run.lists.order.len();
            put_in_order(bucket.actions.iter(), &mut run.lists.order);
            run.ordered_from(from)
        });
    }

    /// Selects the port of a bundle: the frame leaves by this port, or a field gets its number.
    pub(super) fn bundle(&mut self, bundle: &Bundle) -> Next {
        let chosen = choose(bundle, &self.key, &*self.around);
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
}
