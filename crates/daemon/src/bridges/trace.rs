//! Traces: which tables a frame visits, and what becomes of it, in words.
use std::sync::Arc;

use flow::{Controller, Flow, Key, Learn};
use flow_tables::{Connection, HeaderWindow, Surroundings, Track};

use super::flow_bridge::FlowBridge;
use ::bridge::compose;

/// A frame's bytes at most.
const FRAME_BYTES: usize = 65_549;

/// The surroundings of a frame that nothing happens to: no meter holds it back.
struct Bystander {
    numbers: Vec<u16>,
    live: Vec<u16>,
    now_ms: u64,
}

impl Surroundings for Bystander {
    fn now_ms(&mut self) -> u64 {
        self.now_ms
    }

    fn ports(&self) -> &[u16] {
        &self.numbers
    }

    fn is_live(&self, port: u16) -> bool {
        self.live.binary_search(&port).is_ok()
    }

    fn track(&mut self, _: &Track, _: &mut HeaderWindow) -> Connection {
        Connection::default()
    }

    fn learn(&mut self, _: &Arc<Learn>, _: &Key) -> bool {
        true
    }

    fn has_room_for_packet_in(&mut self, _: &Controller) -> bool {
        true
    }
}

fn bytes_of(hex: &str) -> Result<Vec<u8>, String> {
    let wrong = || "the frame is no hexadecimal: write two digits for each byte".to_owned();
    let digits: String = hex.chars().filter(|letter| !letter.is_whitespace()).collect();
    if !digits.len().is_multiple_of(2) || digits.len() / 2 > FRAME_BYTES || !digits.is_ascii() {
        return Err(wrong());
    }
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| wrong());
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// Takes a frame with these fields through the tables. With the bytes of a frame, the fields give its input port and
/// metadata alone. The error is a text for the user.
pub fn trace(bridge: &FlowBridge, fields: &str, frame: Option<&str>, now_ms: u64) -> Result<String, String> {
    let wanted = Flow::parse(&format!("{fields} actions=drop")).map_err(|error| error.to_string())?.wanted;
    let tables = bridge.bridge.tables();
    let [numbers, live] = [false, true].map(|arrive| bridge.ports.numbers(arrive));
    let mut around = Bystander { numbers, live, now_ms };
    let metadata = wanted.value();
    Ok(match frame {
        Some(hex) => {
            let bytes = bytes_of(hex)?;
            tables.trace(&bytes, bytes.len(), metadata, &mut around)
        }
        None => {
            let window = compose::frame(&wanted, tables.max_tags());
            tables.trace(window.bytes(), window.frame_bytes(), metadata, &mut around)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::bridge::line::lines;

    #[test]
    fn a_trace_has_the_tables_the_fields_and_the_ports() {
        let text = "table=0,priority=5,ip,nw_dst=10.0.0.2 actions=set_field:7->reg0,resubmit(,2)\n\
                    table=2,priority=9,reg0=7 actions=push_vlan:0x8100,set_field:4101->vlan_vid,output:2";
        let flows = lines(text).unwrap().into_iter().map(|line| line.what.addition());
        let bridge = FlowBridge::of_changes("switch", flows).unwrap();
        let traced = trace(&bridge, "in_port=1,tcp,nw_dst=10.0.0.2", None, 0).unwrap();
        for said in
            [" 0. ip,nw_dst=10.0.0.2, priority 5", " 2. reg0=0x7, priority 9", "Sent: 2", "Cache entry"]
        {
            assert!(traced.contains(said), "{said} is missing in:\n{traced}");
        }
        let other = trace(&bridge, "in_port=1,tcp,nw_dst=10.0.0.3", None, 0).unwrap();
        assert!(other.contains("No match") && other.contains("Sent: nothing"), "{other}");
        let frame = "020000000002 020000000001 88b5 00000000";
        assert!(trace(&bridge, "in_port=1", Some(frame), 0).unwrap().contains("dl_type=0x88b5"));
        assert!(trace(&bridge, "in_port=1", Some("0g"), 0).is_err());
        assert!(trace(&bridge, "colour=1", None, 0).is_err());
        assert!(trace(&bridge, "", Some("\u{e9}\u{e9}"), 0).is_err());
    }
}
