//! A switch that notes what it is told, and answers with what the test has given it.

use std::time::Duration;

use controllers::{Answer, Change, FlowNews, News, Rejected, Switch};
use flow::Flow;
use openflow::{
    Counts, CtFlush, Failure, Features, FlowStatistics, MonitorEvent, PacketIn2, RemovedReason, Reply,
    Request, TlvCommand, TlvMod, TlvTable, Version,
};

#[derive(Default)]
pub struct Fake {
    pub fragments: u16,
    pub changes: Vec<Change>,
    /// The change of one message that is refused, counted from 0, and why.
    pub refuses: Option<(usize, Failure)>,
    /// How many flows it tells of, and with how many actions each.
    pub flows: (u32, usize),
    /// Replies to requests that a recording has.
    pub replies: Vec<Reply>,
    pub maps: Vec<openflow::TlvMap>,
    pub resumed: usize,
    pub flushed: Vec<CtFlush>,
    /// How many changes there were when a controller began.
    pub begun: Vec<usize>,
}

pub fn news_of(flow: Flow, event: MonitorEvent, reason: RemovedReason) -> FlowNews {
    FlowNews { event, reason, flow, counts: Counts::default() }
}

impl Switch for Fake {
    fn features(&self, _: Version) -> Features {
        Features { datapath_id: 0x1234, tables: 254, ..Features::default() }
    }

    fn fragments(&self) -> u16 {
        self.fragments
    }

    fn set_fragments(&mut self, flags: u16) {
        self.fragments = flags;
    }

    fn begin_control(&mut self, _: Duration) {
        self.begun.push(self.changes.len());
    }

    fn change(
        &mut self,
        changes: &mut dyn Iterator<Item = Change>,
        _: Version,
        _: Duration,
        news: &mut News,
    ) -> Result<(), Rejected> {
        let changes: Vec<Change> = changes.collect();
        if let Some((index, failure)) = self.refuses
            && index < changes.len()
        {
            return Err(Rejected { index, failure });
        }
        for change in &changes {
            if let Change::Flow(flow) = change
                && news.all_flows
            {
                news.flows.push(news_of(flow.flow.clone(), MonitorEvent::Added, RemovedReason::Delete));
            }
        }
        self.changes.extend(changes);
        Ok(())
    }

    fn answer(&self, request: &Request, _: Version, _: Duration) -> Result<Answer, Failure> {
        let of_kind = |reply: &&Reply| {
            matches!(
                (request, reply),
                (Request::MeterFeatures, Reply::MeterFeatures(_))
                    | (Request::GroupFeatures, Reply::GroupFeatures(_))
                    | (Request::TableFeatures(_), Reply::TableFeatures(_))
            )
        };
        match request {
            Request::Flow(_) => {
                let (count, actions) = self.flows;
                Ok(Box::new((0..count).map(move |number| {
                    let actions = vec![flow::Action::Output(1); actions];
                    let flow = Flow { cookie: number.into(), actions, ..Flow::default() };
                    Reply::Flow(vec![FlowStatistics { flow, counts: Counts::default(), ages: None }], false)
                })))
            }
            Request::PortDescription(_) => Ok(Box::new(std::iter::empty())),
            _ => {
                let reply = self.replies.iter().find(of_kind).cloned().ok_or(Failure::BadMultipart)?;
                Ok(Box::new(std::iter::once(reply)))
            }
        }
    }

    fn resume(&mut self, _: &PacketIn2, _: Duration) -> Result<(), Failure> {
        self.resumed += 1;
        Ok(())
    }

    fn tlv_table(&self) -> TlvTable {
        TlvTable { max_bytes: 256, max_fields: 64, maps: self.maps.clone() }
    }

    fn change_tlv_table(&mut self, change: &TlvMod) -> Result<(), Failure> {
        if change.command == TlvCommand::Add {
            self.maps.extend(&change.maps);
        }
        Ok(())
    }

    fn flush_connections(&mut self, which: &CtFlush) -> Result<(), Failure> {
        self.flushed.push(which.clone());
        Ok(())
    }
}
