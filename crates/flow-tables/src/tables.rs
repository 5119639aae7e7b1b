//! All flows by table, and the groups: changes, limits, and the end of flows.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flow::{Flow, Group, Key, Learn, Match, Meter};
use thiserror::Error;

use crate::classifier::Cost;
use crate::compared::{self, Compared};
use crate::misses::Misses;
use crate::table::{Found, Table};
use crate::words::Consulted;
use crate::{Counters, Entry, MeterState};

/// The most pairs of a table and a cookie whose flows are counted from change to change.
const COOKIES: usize = 256;

/// The size limits of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of flows in all tables. Half of them may be learned, so that there is room for those of controllers.
    pub flows: usize,
    /// The largest number of tuples in one table. A look-up and a change visit all of them. There are at most twice as
    /// many as different masks of the table's flows.
    pub tuples: usize,
    /// The largest number of flows that frames of one input port have learned; it limits the flows that one peer can
    /// create.
    pub learned: usize,
    /// The largest number of groups.
    pub groups: usize,
    /// The largest number of buckets in one group.
    pub buckets: usize,
    /// The largest number of meters.
    pub meters: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { flows: 1 << 20, tuples: 2048, learned: 4096, groups: 1 << 16, buckets: 1024, meters: 1 << 18 }
    }
}

/// The error for a refused change. The tables are then not changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// A frame exists that also matches another flow of the same priority.
    #[error(
        "a flow of the same priority overlaps with {0}; accepted: a flow without check_overlap, or another priority"
    )]
    Overlap(Box<Flow>),
    /// An action does not fit the match.
    #[error("{0}")]
    Unfit(#[from] flow::Unfit),
    /// The limit is reached.
    #[error("the limit of {limit} {what} is reached; delete some, or raise the limit")]
    Full {
        /// The kind of entries that is limited.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

/// One change of flows (OpenFlow 1.5 §6.4).
#[derive(Clone, Debug)]
pub enum Change {
    /// Adds a flow. A flow with the same match and priority is replaced.
    Add(Flow),
    /// Changes the actions of the flows that the match covers; if strict, only of the flow with the same match and
    /// priority. The flows' counters continue unless the change has the flag `reset_counts`, and their hard time
    /// begins again.
    Modify(Flow, bool),
    /// Deletes the flows that the match covers; if strict, only the flow with the same match and priority.
    Delete {
        /// The table; `None` for all tables.
        table: Option<u8>,
        /// The priority, which is compared if strict.
        priority: u16,
        /// The match.
        wanted: Match,
        /// Whether only the flow with the same match and priority is deleted.
        strict: bool,
    },
}

/// The flows by table, the groups and the meters. A clone shares the parts that were not changed since, and the tokens of
/// all meters.
#[derive(Clone, Debug)]
pub struct Tables {
    tables: Vec<Arc<Table>>,
    groups: Arc<BTreeMap<u32, Group>>,
    meters: Arc<BTreeMap<u32, Arc<MeterState>>>,
    limits: Limits,
    flows: usize,
    /// The number of flows with a time limit, by table.
    timed: BTreeMap<u8, usize>,
    compared: Compared,
    /// The number of flows that frames of each input port have learned.
    learned: Arc<BTreeMap<u16, usize>>,
    /// The number of flows of a table with a cookie, of [`COOKIES`] pairs that actions `learn` with a limit name.
    cookies: Arc<BTreeMap<(u8, u64), usize>>,
    pub(crate) max_tags: u8,
    seed: u64,
    pub(crate) missed: Misses,
    pub(crate) generation: u64,
}

/// A number that no tables of this process have had before.
pub(crate) fn generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Tables {
    /// Tables without flows. At most `max_tags` VLAN tags of a frame are read. Hashes begin with `seed`, which must
    /// be random, so that no peer can choose frames with equal hashes.
    pub fn new(max_tags: u8, seed: u64, limits: Limits) -> Self {
        Self {
            tables: (0..256).map(|_| Arc::new(Table::new(seed))).collect(),
            groups: Arc::default(),
            meters: Arc::default(),
            limits,
            flows: 0,
            timed: BTreeMap::new(),
            compared: Compared::none(),
            learned: Arc::default(),
            cookies: Arc::default(),
            max_tags,
            seed,
            missed: Misses::default(),
            generation: generation(),
        }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// The bits by which a cache tells frames apart: those that flows match, and those that actions read or write.
    pub fn compared(&self) -> &Key {
        &self.compared.mask
    }

    /// Whether connections may get a helper, which reads the payload of frames.
    pub fn has_helper(&self) -> bool {
        self.compared.has_helper
    }

    /// A number that differs after each change, also between clones.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The number of flows in all tables.
    pub fn flows(&self) -> usize {
        self.flows
    }

    /// The limits of the tables.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// All groups, by number.
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// A group.
    pub fn group(&self, number: u32) -> Option<&Group> {
        self.groups.get(&number)
    }

    /// Adds a group. A group with the same number is replaced.
    ///
    /// # Errors
    /// There are too many groups, or the group has too many buckets.
    pub fn set_group(&mut self, group: Group) -> Result<(), Refused> {
        let limit = self.limits.buckets;
        if group.buckets.len() > limit {
            return Err(Refused::Full { what: "buckets of a group", limit });
        }
        let limit = self.limits.groups;
        if self.groups.len() >= limit && !self.groups.contains_key(&group.id) {
            return Err(Refused::Full { what: "groups", limit });
        }
        self.generation = generation();
        compared::add_group(&mut self.compared, &group);
        Arc::make_mut(&mut self.groups).insert(group.id, group);
        Ok(())
    }

    /// All meters, by number.
    pub fn meters(&self) -> impl Iterator<Item = &MeterState> {
        self.meters.values().map(|meter| &**meter)
    }

    /// A meter.
    pub fn meter(&self, number: u32) -> Option<&MeterState> {
        self.meters.get(&number).map(|meter| &**meter)
    }

    /// Adds a meter whose buckets are full. A meter with the same number is replaced.
    ///
    /// # Errors
    /// There are too many meters.
    pub fn set_meter(&mut self, meter: Meter, now_ms: u64) -> Result<(), Refused> {
        let limit = self.limits.meters;
        if self.meters.len() >= limit && !self.meters.contains_key(&meter.id) {
            return Err(Refused::Full { what: "meters", limit });
        }
        self.generation = generation();
        let id = meter.id;
        Arc::make_mut(&mut self.meters).insert(id, Arc::new(MeterState::new(meter, now_ms)));
        Ok(())
    }

    /// Deletes a meter, and the flows whose actions name it (OpenFlow 1.5 §6.8).
    pub fn delete_meter(&mut self, id: u32) {
        self.generation = generation();
        Arc::make_mut(&mut self.meters).remove(&id);
        self.remove_flows(|flow| flow.actions.contains(&flow::Action::Meter(id)));
    }

    /// Deletes a group, and the flows whose actions name it (OpenFlow 1.5 §6.7).
    pub fn delete_group(&mut self, id: u32) {
        self.generation = generation();
        Arc::make_mut(&mut self.groups).remove(&id);
        self.remove_flows(|flow| flow.actions.iter().any(|action| action.uses_group(id)));
    }

    fn remove_flows(&mut self, which: impl Fn(&Flow) -> bool) {
        let all = self.tables.iter().flat_map(|table| table.all());
        let with: Vec<_> = all.filter(|entry| which(&entry.flow)).cloned().collect();
        with.iter().for_each(|entry| self.remove(entry));
    }

    /// All flows of a table, in no order.
    pub fn all(&self, table: u8) -> impl Iterator<Item = &Arc<Entry>> {
        self.tables[usize::from(table)].all()
    }

    /// The flow of a table with exactly this priority and match.
    pub fn get(&self, table: u8, priority: u16, wanted: &Match) -> Option<Arc<Entry>> {
        self.tables[usize::from(table)].get(priority, wanted)
    }

    /// All flows of a table, highest priority first.
    pub fn entries(&self, table: u8) -> Vec<&Arc<Entry>> {
        self.tables[usize::from(table)].in_order()
    }

    /// The flow of a table that is used for a frame with these fields.
    pub fn lookup(&self, table: u8, key: &Key) -> Option<Arc<Entry>> {
        self.lookup_costing(table, key, &mut Cost::default())
    }

    /// Works like [`Tables::lookup`]. Adds the cost of the look-up to `cost`.
    pub fn lookup_costing(&self, table: u8, key: &Key, cost: &mut Cost) -> Option<Arc<Entry>> {
        self.lookup_with(table, key, cost, &mut Consulted::default(), &mut Found::default()).cloned()
    }

    pub(crate) fn lookup_with<'a>(
        &'a self,
        table: u8,
        key: &Key,
        cost: &mut Cost,
        consulted: &mut Consulted,
        found: &mut Found<'a>,
    ) -> Option<&'a Arc<Entry>> {
        self.tables[usize::from(table)].lookup(key, cost, consulted, found)
    }

    /// The number of tuples of a table: see [`crate::COLLISIONS`].
    pub fn tuples(&self, table: u8) -> usize {
        self.tables[usize::from(table)].tuples()
    }

    /// Makes one change.
    ///
    /// # Errors
    /// The flow overlaps with another one and has the flag `check_overlap`, its actions do not fit its match, or
    /// there are too many flows.
    pub fn change(&mut self, change: Change, now_ms: u64) -> Result<(), Refused> {
        match change {
            Change::Add(flow) => self.add(flow, None, now_ms),
            Change::Modify(flow, strict) => self.modify(&flow, strict, now_ms),
            Change::Delete { table, priority, wanted, strict } => {
                self.delete(table, priority, &wanted, strict);
                Ok(())
            }
        }
    }

    /// Makes all changes, or none of them.
    ///
    /// # Errors
    /// Returns the error of the first refused change.
    pub fn change_all(&mut self, changes: Vec<Change>, now_ms: u64) -> Result<(), Refused> {
        let mut next = self.clone();
        changes.into_iter().try_for_each(|change| next.change(change, now_ms))?;
        *self = next;
        Ok(())
    }

    /// Adds a flow that a frame of this input port has learned. Returns false if the action's limit of flows is
    /// reached.
    ///
    /// # Errors
    /// The flow's actions do not fit its match, or frames of this port or of all ports have learned the largest allowed
    /// number of flows.
    pub fn learn(&mut self, flow: Flow, learn: &Learn, input: u16, now_ms: u64) -> Result<bool, Refused> {
        let table = &self.tables[usize::from(flow.table)];
        let old = table.get(flow.priority, &flow.wanted);
        let key = (flow.table, learn.cookie);
        if learn.limit != 0 && old.is_none() && self.with_cookie(key) >= learn.limit as usize {
            return Ok(false);
        }
        let limit = self.limits.learned;
        let own = self.learned.get(&input).copied().unwrap_or(0);
        if own >= limit && old.as_ref().is_none_or(|old| old.learned_from != Some(input)) {
            return Err(Refused::Full { what: "flows learned from one port", limit });
        }
        let half = self.limits.flows / 2;
        if old.is_none() && self.learned.values().sum::<usize>() >= half {
            return Err(Refused::Full { what: "flows learned from all ports", limit: half });
        }
        self.add(flow, Some(input), now_ms).map(|()| true)
    }

    /// The number of flows of a table with a cookie. The flows are counted once; after that, changes are.
    fn with_cookie(&mut self, (table, cookie): (u8, u64)) -> usize {
        if let Some(count) = self.cookies.get(&(table, cookie)) {
            return *count;
        }
        let count = self.tables[usize::from(table)].all().filter(|entry| entry.flow.cookie == cookie).count();
        let cookies = Arc::make_mut(&mut self.cookies);
        if cookies.len() >= COOKIES {
            cookies.clear();
        }
        cookies.insert((table, cookie), count);
        count
    }

    /// Counts a flow that came or went, if flows of its cookie are counted.
    fn count_cookie(&mut self, flow: &Flow, change: isize) {
        let key = (flow.table, flow.cookie);
        if self.cookies.contains_key(&key)
            && let Some(count) = Arc::make_mut(&mut self.cookies).get_mut(&key)
        {
            *count = count.saturating_add_signed(change);
        }
    }

    fn insert(&mut self, entry: Entry) {
        self.generation = generation();
        compared::add_flow(&mut self.compared, &entry.flow);
        if entry.is_timed() {
            *self.timed.entry(entry.flow.table).or_default() += 1;
        }
        let entry = Arc::new(entry);
        let table = &mut self.tables[usize::from(entry.flow.table)];
        let old = Arc::make_mut(table).insert(Arc::clone(&entry));
        self.flows += 1;
        self.count_cookie(&entry.flow, 1);
        if let Some(port) = entry.learned_from {
            *Arc::make_mut(&mut self.learned).entry(port).or_default() += 1;
        }
        old.iter().for_each(|old| self.gone(old));
    }

    /// Replaces a flow by another one with the same table, priority and match. The counters continue unless they are
    /// reset, and the hard time begins again.
    ///
    /// # Errors
    /// The actions of the new flow do not fit its match.
    pub fn replace(
        &mut self,
        entry: &Entry,
        flow: Flow,
        reset_counts: bool,
        now_ms: u64,
    ) -> Result<(), Refused> {
        flow.check()?;
        let counters = if reset_counts { Counters::new(now_ms) } else { Arc::clone(entry.counters()) };
        self.insert(entry.modified(flow, now_ms, counters));
        Ok(())
    }

    /// Deletes a flow.
    pub fn remove(&mut self, entry: &Entry) {
        self.generation = generation();
        let table = &mut self.tables[usize::from(entry.flow.table)];
        let old = Arc::make_mut(table).remove(entry.flow.priority, &entry.flow.wanted);
        old.iter().for_each(|old| self.gone(old));
    }

    /// Counts a flow that is in no table any more.
    fn gone(&mut self, old: &Entry) {
        self.flows -= 1;
        self.count_cookie(&old.flow, -1);
        if old.is_timed()
            && let Some(count) = self.timed.get_mut(&old.flow.table)
        {
            *count -= 1;
        }
        if self.flows == 0 {
            self.compared = Compared::none();
            self.groups.values().for_each(|group| compared::add_group(&mut self.compared, group));
        }
        let Some(port) = old.learned_from else { return };
        let learned = Arc::make_mut(&mut self.learned);
        if let Some(count) = learned.get_mut(&port) {
            *count -= 1;
            if *count == 0 {
                learned.remove(&port);
            }
        }
    }

    fn add(&mut self, flow: Flow, learned_from: Option<u16>, now_ms: u64) -> Result<(), Refused> {
        flow.check()?;
        let table = &self.tables[usize::from(flow.table)];
        if flow.flags.check_overlap {
            let overlaps = |entry: &&Arc<Entry>| {
                entry.flow.priority == flow.priority
                    && entry.flow.wanted != flow.wanted
                    && entry.flow.wanted.overlaps(&flow.wanted)
            };
            if let Some(entry) = table.all().find(overlaps) {
                return Err(Refused::Overlap(Box::new(entry.flow.clone())));
            }
        }
        let old = table.get(flow.priority, &flow.wanted);
        let limit = self.limits.flows;
        if old.is_none() && self.flows >= limit {
            return Err(Refused::Full { what: "flows", limit });
        }
        let limit = self.limits.tuples;
        if old.is_none() && table.tuples() >= limit && table.needs_tuple(&flow) {
            return Err(Refused::Full { what: "groups of masks in a table", limit });
        }
        let counters = old.filter(|_| !flow.flags.reset_counts).map(|old| Arc::clone(old.counters()));
        self.insert(Entry::new(flow, learned_from, now_ms, counters));
        Ok(())
    }

    /// Flows of a table that a change concerns.
    fn concerned(&self, table: u8, priority: u16, wanted: &Match, strict: bool) -> Vec<Arc<Entry>> {
        let table = &self.tables[usize::from(table)];
        match strict {
            true => table.get(priority, wanted).into_iter().collect(),
            false => table.all().filter(|entry| wanted.covers(&entry.flow.wanted)).cloned().collect(),
        }
    }

    fn modify(&mut self, flow: &Flow, strict: bool, now_ms: u64) -> Result<(), Refused> {
        let concerned = self.concerned(flow.table, flow.priority, &flow.wanted, strict);
        let changed = concerned.into_iter().map(|entry| {
            let changed = Flow { actions: flow.actions.clone(), ..entry.flow.clone() };
            changed.check()?;
            let counters = match flow.flags.reset_counts {
                true => Counters::new(now_ms),
                false => Arc::clone(entry.counters()),
            };
            Ok(entry.modified(changed, now_ms, counters))
        });
        let changed: Vec<_> = changed.collect::<Result<_, flow::Unfit>>()?;
        changed.into_iter().for_each(|entry| self.insert(entry));
        Ok(())
    }

    fn delete(&mut self, table: Option<u8>, priority: u16, wanted: &Match, strict: bool) {
        for number in table.map_or(0..=u8::MAX, |table| table..=table) {
            for entry in self.concerned(number, priority, wanted, strict) {
                self.remove(&entry);
            }
        }
    }

    /// Whether a flow has an idle or a hard time.
    pub fn is_timed(&self) -> bool {
        self.timed.values().any(|count| *count > 0)
    }

    /// The flows whose idle or hard time has passed.
    pub fn over(&self, now_ms: u64) -> Vec<Arc<Entry>> {
        let timed = self.timed.iter().filter(|(_, count)| **count > 0);
        let all = timed.flat_map(|(table, _)| self.tables[usize::from(*table)].all());
        all.filter(|entry| entry.is_over(now_ms)).cloned().collect()
    }

    /// Deletes the flows whose idle or hard time has passed, and returns them.
    pub fn expire(&mut self, now_ms: u64) -> Vec<Arc<Entry>> {
        let over = self.over(now_ms);
        over.iter().for_each(|entry| self.remove(entry));
        over
    }
}
