//! A bridge as lines, for a process that goes on in place of another one.
//!
//! The lines are meters, groups and flows in the notation of `ovs-ofctl`, in this order, because later ones name earlier
//! ones. Before them are the tunnel options that controllers have assigned: `option=CLASS,KIND,BYTES,INDEX`.

use std::time::Duration;

use controllers::{News, Switch};
use flow::{Flow, Group, Meter};
use openflow::{TlvCommand, TlvMap, TlvMod, Version};

use crate::Bridge;
use crate::line::What;

/// The word before a tunnel option.
const OPTION: &str = "option=";

fn option(words: &str) -> Option<TlvMap> {
    let mut numbers = words.split(',').map(|word| word.parse::<u16>().ok());
    let mut next = || numbers.next().flatten();
    let (class, kind, bytes, index) = (next()?, next()?, next()?, next()?);
    Some(TlvMap { class, kind: kind.try_into().ok()?, bytes: bytes.try_into().ok()?, index })
}

fn addition(line: &str) -> Result<What, String> {
    let why = |error: flow::ParseError| error.to_string();
    if line.starts_with("meter=") {
        return Meter::parse(line).map(What::Meter).map_err(why);
    }
    if line.starts_with("group_id=") {
        return Group::parse(line).map(What::Group).map_err(why);
    }
    Flow::parse(line).map(|flow| What::Flow(Box::new(flow))).map_err(why)
}

impl Bridge {
    /// The bridge as lines. Counts, ages and ports are not part of them.
    pub fn saved(&self) -> Vec<String> {
        let options = self.tunnel_options().iter();
        let options = options
            .map(|TlvMap { class, kind, bytes, index }| format!("{OPTION}{class},{kind},{bytes},{index}"));
        let tables = self.tables();
        let meters = tables.meters().map(|meter| meter.meter().to_string());
        let groups = tables.groups().map(|group| group.to_string());
        let flows = (0..=u8::MAX).flat_map(|table| tables.all(table)).map(|entry| entry.flow.to_string());
        options.chain(meters).chain(groups).chain(flows).collect()
    }

    /// Adds what another process has saved, to a new bridge.
    ///
    /// # Errors
    /// A line is none of [`Bridge::saved`], or its flow, group or meter is refused. The text says why.
    pub fn restore(&mut self, lines: &[String], now: Duration) -> Result<(), String> {
        for line in lines {
            let wrong = |why: &dyn std::fmt::Display| format!("{line}: {why}");
            if let Some(words) = line.strip_prefix(OPTION) {
                let maps = vec![option(words).ok_or_else(|| wrong(&"no tunnel option"))?];
                let change = TlvMod { command: TlvCommand::Add, maps };
                self.change_tlv_table(&change).map_err(|failure| wrong(&failure))?;
                continue;
            }
            let change = addition(line).map_err(|why| wrong(&why))?.addition();
            let made = self.change(&mut std::iter::once(change), Version::V15, now, &mut News::default());
            made.map_err(|rejected| wrong(&rejected.failure))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;
    use flow_tables::Limits;

    fn bridge() -> Bridge {
        Bridge::new(Identity::default(), 1, 7, Limits::default())
    }

    #[test]
    fn a_bridge_is_restored_with_options_meters_groups_and_flows() {
        let lines = [
            "option=258,128,4,0",
            "meter=1 kbps burst stats bands=type=drop rate=100 burst_size=20",
            "group_id=7,type=select,selection_method=dp_hash,bucket=bucket_id:0,weight:100,actions=output:1",
            "cookie=0x5, idle_timeout=10, send_flow_rem priority=9,ip actions=meter:1,group:7",
            "table=3, priority=1,tun_metadata0=0x1 actions=output:2",
            "table=8, tcp actions=learn(table=9,idle_timeout=5,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),\
             controller(userdata=00.00.00.01,pause),ct(commit,zone=3,nat(src=10.0.0.1),alg=ftp)",
        ];
        let mut first = bridge();
        first.restore(&lines.map(str::to_owned), Duration::ZERO).unwrap();
        let saved = first.saved();
        assert_eq!(saved.len(), lines.len(), "{saved:#?}");
        let mut second = bridge();
        second.restore(&saved, Duration::ZERO).unwrap();
        assert_eq!(second.saved(), saved);
        assert_eq!(second.tunnel_options(), first.tunnel_options());
        for wrong in ["option=1", "meter=0", "priority=1,ip", "actions=group:9", ""] {
            assert!(bridge().restore(&[wrong.to_owned()], Duration::ZERO).is_err(), "{wrong}");
        }
    }
}
