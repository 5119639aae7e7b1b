//! Changes of groups, and answers about groups.

use std::sync::Arc;
use std::time::Duration;

use controllers::News;
use flow::{Bucket, Group, GroupKind};
use openflow::{
    ALL_GROUPS, Failure, GroupCommand, GroupFeatures, GroupMod, GroupStatistics, RemovedReason, Version,
};

use crate::refusal;
use crate::state::State;
use crate::time::age;

/// Places in a list of buckets, instead of a bucket's number (OpenFlow 1.5 §7.3.4.3).
const FIRST: u32 = 0xffff_fffd;
const LAST: u32 = 0xffff_fffe;
const ALL: u32 = 0xffff_ffff;

/// Bits of the capabilities of groups: weights, liveness, groups in groups.
const CAPABILITIES: u32 = 7;
const KINDS: u32 = 15;
/// Bits of the actions of buckets: the bits that Open vSwitch reports, which are the actions of OpenFlow itself.
const ACTIONS: u32 = 0x03ff_8001;
const ACTIONS_10: u32 = 0xfff;

/// The kinds of group that the bridge supports, their limits and their actions.
pub(crate) fn features(version: Version) -> GroupFeatures {
    let actions = if version == Version::V10 { ACTIONS_10 } else { ACTIONS };
    GroupFeatures {
        kinds: KINDS,
        capabilities: CAPABILITIES,
        max_groups: [Group::MAX_ID; 4],
        actions: [actions; 4],
    }
}

/// Checks a group's buckets, as Open vSwitch does.
fn check(group: &Group) -> Result<(), Failure> {
    if group.kind == GroupKind::Indirect && group.buckets.len() != 1 {
        return Err(Failure::InvalidGroup);
    }
    group.buckets.iter().try_for_each(|bucket| check_bucket(bucket, group.kind))
}

fn check_bucket(bucket: &Bucket, kind: GroupKind) -> Result<(), Failure> {
    let watches = bucket.watch_port.is_some() || bucket.watch_group.is_some();
    match kind {
        GroupKind::Select => Ok(()),
        _ if bucket.weight != 0 => Err(Failure::InvalidGroup),
        GroupKind::All | GroupKind::Indirect if watches => Err(Failure::WatchUnsupported),
        GroupKind::FastFailover if !watches => Err(Failure::InvalidGroup),
        _ => Ok(()),
    }
}

/// Checks that no two buckets have the same number.
fn check_numbers(buckets: &[Bucket]) -> Result<(), Failure> {
    let mut numbers: Vec<u32> = buckets.iter().map(|bucket| bucket.id).collect();
    numbers.sort_unstable();
    if numbers.windows(2).any(|pair| pair[0] == pair[1]) { Err(Failure::BucketExists) } else { Ok(()) }
}

/// The group with buckets inserted or removed.
fn with_buckets(known: &Group, change: &GroupMod) -> Result<Group, Failure> {
    let mut group = known.clone();
    let find = |group: &Group| group.buckets.iter().position(|bucket| bucket.id == change.bucket);
    if change.command == GroupCommand::InsertBucket {
        let at = match change.bucket {
            FIRST => 0,
            LAST => group.buckets.len(),
            _ => find(&group).ok_or(Failure::UnknownBucket)? + 1,
        };
        group.buckets.splice(at..at, change.group.buckets.iter().cloned());
        check_numbers(&group.buckets)?;
        check(&group)?;
        return Ok(group);
    }
    if !change.group.buckets.is_empty() {
        return Err(Failure::InvalidGroup);
    }
    match change.bucket {
        ALL => group.buckets.clear(),
        FIRST if !group.buckets.is_empty() => drop(group.buckets.remove(0)),
        LAST => drop(group.buckets.pop()),
        FIRST => {}
        _ => {
            let at = find(&group).ok_or(Failure::UnknownBucket)?;
            group.buckets.remove(at);
        }
    }
    Ok(group)
}

impl State {
    /// Adds, changes or deletes groups. Flows that use a deleted group are deleted with the group.
    pub(crate) fn change_groups(
        &mut self,
        change: GroupMod,
        version: Version,
        now: Duration,
        news: &mut News,
    ) -> Result<(), Failure> {
        let id = change.group.id;
        let known = self.tables.group(id);
        let group = match change.command {
            GroupCommand::Delete => {
                let all: Vec<u32> = match id {
                    ALL_GROUPS => self.tables.groups().map(|group| group.id).collect(),
                    _ => known.map(|group| group.id).into_iter().collect(),
                };
                all.iter().for_each(|id| self.delete_group(*id, now, news));
                return Ok(());
            }
            GroupCommand::Add if known.is_some() => return Err(Failure::GroupExists),
            GroupCommand::Modify if known.is_none() => return Err(Failure::UnknownGroup),
            GroupCommand::InsertBucket | GroupCommand::RemoveBucket => {
                with_buckets(known.ok_or(Failure::UnknownGroup)?, &change)?
            }
            GroupCommand::Add | GroupCommand::Modify | GroupCommand::AddOrModify => {
                if version >= Version::V15 {
                    check_numbers(&change.group.buckets)?;
                }
                check(&change.group)?;
                change.group
            }
        };
        self.tables.set_group(group).map_err(|refused| refusal::failure(&refused))?;
        Arc::make_mut(&mut self.groups_since).entry(id).or_insert(now);
        Ok(())
    }

    fn delete_group(&mut self, id: u32, now: Duration, news: &mut News) {
        self.end_flows(
            |flow| flow.actions.iter().any(|action| action.uses_group(id)),
            RemovedReason::GroupDelete,
            now,
            news,
        );
        self.tables.delete_group(id);
        Arc::make_mut(&mut self.groups_since).remove(&id);
    }

    /// The groups with the number of a request; empty if no group has this number.
    pub(crate) fn groups_of(&self, id: u32) -> Vec<Group> {
        match id {
            ALL_GROUPS => self.tables.groups().cloned().collect(),
            _ => self.tables.group(id).cloned().into_iter().collect(),
        }
    }

    pub(crate) fn group_statistics(&self, id: u32, now: Duration) -> Vec<GroupStatistics> {
        let statistics = |group: Group| GroupStatistics {
            group: group.id,
            references: self
                .count_flows(|flow| flow.actions.iter().any(|action| action.uses_group(group.id))),
            counts: (0, 0),
            duration: age(now, self.groups_since.get(&group.id).copied().unwrap_or(now)),
            buckets: vec![(0, 0); group.buckets.len()],
        };
        self.groups_of(id).into_iter().map(statistics).collect()
    }
}
