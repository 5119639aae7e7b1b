//! The state of one worker for flow tables.
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ::flow::{Field, Key};
use flow_tables::{
    Cache, CacheCounts, HeaderWindow, LookUp, Looked, Outcome, PlainFrame, Surroundings, Tables,
};
use frame::Metadata;

use crate::PortId;
use crate::fragments::Datagrams;

/// Outcomes that are kept of the frames of one port.
const PLACES: usize = 4096;

/// Bursts after which the counters of flows are up to date at the latest.
const BURSTS: u32 = 256;

/// The time of flows: milliseconds since the first call in this process.
pub fn flow_ms(now: Instant) -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    now.saturating_duration_since(*FIRST.get_or_init(|| now)).as_millis() as u64 // 64 bits: 500 million years
}

/// Which of the flow tables of a switch: a number that the switch gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TablesId(pub u16);

/// Whose frames a cache is for. A port gets the place of one that was removed, and may get its number too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Input {
    /// The OpenFlow number of the port.
    number: u16,
    /// Whether the port is a tunnel: frames of other ports must not get the fields of a former tunnel.
    is_tunnel: bool,
}

/// Flow tables, and what one worker writes for each frame: the outcomes of former frames, by port.
#[derive(Debug)]
pub struct WorkerFlows {
    pub(crate) tables: Arc<Tables>,
    /// The beginning of the frame at hand.
    pub(crate) window: HeaderWindow,
    /// By port, each with the input that it is for; made with the port's first frame.
    caches: Vec<Option<(Input, Cache)>>,
    pub(crate) outcome: Outcome,
    /// Datagrams whose fragments go on.
    pub(crate) datagrams: Datagrams,
    /// Bursts since the counters of flows were up to date.
    bursts: u32,
}

impl WorkerFlows {
    /// The state of a worker for these tables.
    pub fn new(tables: Arc<Tables>) -> Self {
        let window = HeaderWindow::new(&[], 0, tables.max_tags());
        WorkerFlows {
            tables,
            window,
            caches: Vec::new(),
            outcome: Outcome::default(),
            datagrams: Datagrams::default(),
            bursts: 0,
        }
    }

    /// Replaces the tables. The former ones are returned, so that another thread frees their memory. The counters of
    /// their flows are up to date.
    pub fn set_tables(&mut self, tables: Arc<Tables>, now: Instant) -> Arc<Tables> {
        self.flush(now);
        std::mem::replace(&mut self.tables, tables)
    }

    /// Ports have come or gone: outcomes that are kept do not hold any more.
    pub fn forget(&mut self) {
        self.caches.iter_mut().flatten().for_each(|(_, cache)| cache.forget());
    }

    /// Adds frames that were counted beside the flows to the counters of the flows. A worker calls it before it sleeps.
    pub fn flush(&mut self, now: Instant) {
        if std::mem::take(&mut self.bursts) > 0 {
            let now_ms = flow_ms(now);
            self.caches.iter_mut().flatten().for_each(|(_, cache)| cache.flush(now_ms));
        }
    }

    /// What the cache of a port has done, if there is one.
    pub fn counts(&self, port: PortId) -> Option<CacheCounts> {
        self.caches.get(usize::from(port.0))?.as_ref().map(|(_, cache)| cache.counts())
    }

    /// The end of a burst: flushes from time to time.
    pub(crate) fn end_burst(&mut self, now: impl FnOnce() -> Instant) {
        self.bursts += 1;
        if self.bursts >= BURSTS {
            self.flush(now());
        }
    }

    /// Looks up a plain frame, which came from this port with this OpenFlow number and through no tunnel. If it does not
    /// depart, it has to be executed next.
    #[inline(always)]
    pub(crate) fn look_up(&mut self, port: PortId, number: u16, frame: &PlainFrame<'_>) -> LookUp<'_> {
        let input = Input { number, is_tunnel: false };
        match self.caches.get_mut(usize::from(port.0)) {
            Some(Some((of, cache))) if *of == input => cache.look_up(&self.tables, frame),
            _ => LookUp::Other(Looked::NOTHING),
        }
    }

    /// Executes the flow tables on the frame in the window, which came from this port with this OpenFlow number, through
    /// this tunnel if the port is one. `plain` is the frame if it was looked up, and what was found.
    pub(crate) fn execute(
        &mut self,
        port: PortId,
        number: u16,
        tunnel: Option<&Metadata>,
        plain: Option<(PlainFrame<'_>, Looked)>,
        around: &mut impl Surroundings,
    ) {
        let Self { tables, window, caches, outcome, .. } = self;
        let input = Input { number, is_tunnel: tunnel.is_some() };
        let cache = match caches.get_mut(usize::from(port.0)) {
            Some(Some((of, cache))) if *of == input => cache,
            _ => add(caches, port, input, around.now_ms()),
        };
        match (tunnel, plain) {
            (None, Some((frame, looked))) => {
                cache.execute_plain(&frame, looked, tables, window, around, outcome);
            }
            (None, None) => cache.execute(tables, window, around, outcome),
            (Some(tunnel), _) => cache.execute_of_tunnel(tunnel, tables, window, around, outcome),
        }
    }

    /// Works like [`WorkerFlows::execute`] for a fragment, which may have to wait. Its outcome is not kept.
    #[cold]
    pub(crate) fn execute_fragment(&mut self, number: u16, around: &mut impl Surroundings) {
        let mut metadata = Key::ZERO;
        metadata.set(Field::InPortOxm, number.into());
        self.tables.execute_once(&self.window, &metadata, around, &mut self.outcome);
    }
}

/// Makes the cache of a port, in place of the cache of another input.
#[cold]
fn add(caches: &mut Vec<Option<(Input, Cache)>>, port: PortId, input: Input, now_ms: u64) -> &mut Cache {
    let at = usize::from(port.0);
    if at >= caches.len() {
        caches.resize_with(at + 1, || None);
    }
    let mut metadata = Key::ZERO;
    metadata.set(Field::InPortOxm, input.number.into());
    if let Some((_, cache)) = &mut caches[at] {
        cache.flush(now_ms);
    }
    &mut caches[at].insert((input, Cache::new(PLACES, &metadata))).1
}
