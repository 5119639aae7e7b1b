//! Changes of meters, and answers about meters.

use std::sync::Arc;
use std::time::Duration;

use controllers::News;
use flow::{Action, Meter};
use flow_tables::MeterState;
use openflow::{ALL_METERS, Failure, MeterCommand, MeterFeatures, MeterMod, MeterStatistics, RemovedReason};

use crate::refusal;
use crate::state::State;
use crate::time::{age, ms};

/// The highest number of meters, as in Open vSwitch's user-space datapath.
const MAX_METERS: u32 = 1 << 18;
const MAX_BANDS: u8 = 8;
/// Bits of the kinds of band, from 1: drop.
const BANDS: u32 = 1 << 1;
/// Bits as a meter's flags: all.
const CAPABILITIES: u32 = 15;

/// The limits of meters, and the kinds of band that the bridge supports.
pub(crate) fn features() -> MeterFeatures {
    MeterFeatures {
        max_meters: MAX_METERS,
        bands: BANDS,
        capabilities: CAPABILITIES,
        max_bands: MAX_BANDS,
        max_colors: 0,
        features: None,
    }
}

fn uses(actions: &[Action], meter: u32) -> bool {
    actions.contains(&Action::Meter(meter))
}

impl State {
    /// Adds, changes or deletes meters. Flows that use a deleted meter are deleted with the meter.
    pub(crate) fn change_meters(
        &mut self,
        change: MeterMod,
        now: Duration,
        news: &mut News,
    ) -> Result<(), Failure> {
        let MeterMod { command, meter } = change;
        let (id, known) = (meter.id, self.meters_since.contains_key(&meter.id));
        if command == MeterCommand::Delete {
            let all: Vec<u32> = match id {
                ALL_METERS => self.meters_since.keys().copied().collect(),
                _ => self.meters_since.get_key_value(&id).map(|(id, _)| *id).into_iter().collect(),
            };
            all.iter().for_each(|id| self.delete_meter(*id, now, news));
            return Ok(());
        }
        if id == 0 || id > MAX_METERS {
            return Err(Failure::InvalidMeter);
        }
        if meter.bands.len() > MAX_BANDS.into() {
            return Err(Failure::OutOfBands);
        }
        if meter.bands.iter().any(|band| band.kind != flow::BandKind::Drop) {
            return Err(Failure::MeterBand);
        }
        match (command, known) {
            (MeterCommand::Add, true) => return Err(Failure::MeterExists),
            (MeterCommand::Modify, false) => return Err(Failure::UnknownMeter),
            _ => {}
        }
        self.tables.set_meter(meter, ms(now)).map_err(|refused| refusal::failure(&refused))?;
        Arc::make_mut(&mut self.meters_since).entry(id).or_insert(now);
        Ok(())
    }

    fn delete_meter(&mut self, id: u32, now: Duration, news: &mut News) {
        Arc::make_mut(&mut self.meters_since).remove(&id);
        self.end_flows(|flow| uses(&flow.actions, id), RemovedReason::MeterDelete, now, news);
        self.tables.delete_meter(id);
    }

    /// The meters with the number of a request; all meters if the number stands for all.
    fn meters_of(&self, id: u32) -> Result<Vec<&MeterState>, Failure> {
        if id == ALL_METERS {
            return Ok(self.tables.meters().collect());
        }
        Ok(vec![self.tables.meter(id).ok_or(Failure::UnknownMeter)?])
    }

    pub(crate) fn meter_configs(&self, id: u32) -> Result<Vec<Meter>, Failure> {
        Ok(self.meters_of(id)?.into_iter().map(|state| state.meter().clone()).collect())
    }

    pub(crate) fn meter_statistics(&self, id: u32, now: Duration) -> Result<Vec<MeterStatistics>, Failure> {
        let statistics = |state: &MeterState| {
            let meter = state.meter();
            let since = self.meters_since.get(&meter.id).copied().unwrap_or(now);
            MeterStatistics {
                meter: meter.id,
                flows: self.count_flows(|flow| uses(&flow.actions, meter.id)),
                counts: state.measured(),
                duration: age(now, since),
                bands: state.exceeding(),
            }
        };
        Ok(self.meters_of(id)?.into_iter().map(statistics).collect())
    }
}
