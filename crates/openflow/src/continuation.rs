//! The continuation of a packet that waits for its controller: what is left of its execution, in a form that only the
//! switch reads (Nicira's PACKET_IN2 and RESUME).

use flow::Action;

use crate::bytes::{Reader, Writer};
use crate::property::{self, Property};
use crate::{Failure, Version, instruction};

/// Properties. Open vSwitch has lower numbers and skips these when it prints a message.
mod kind {
    pub const SWITCH: u16 = 0x8100;
    pub const STACK: u16 = 0x8101;
    pub const ACTION_SET: u16 = 0x8102;
    pub const REST: u16 = 0x8103;
}

/// The version in which actions are written. All actions have a form in this version.
const VERSION: Version = Version::V15;

/// What is left of the execution of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Continuation {
    /// A number that no other switch has.
    pub switch: u64,
    /// The stack, from its lowest entry.
    pub stack: Vec<u128>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// The remaining lists of actions, each with its table.
    pub rest: Vec<(u8, Vec<Action>)>,
}

impl Continuation {
    /// The bytes for the controller; `None` if an action has no form in OpenFlow.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut writer = Writer::default();
        property::write_u64(&mut writer, kind::SWITCH, self.switch);
        property::write(&mut writer, kind::STACK, |writer| {
            self.stack.iter().for_each(|value| _ = writer.value(*value, 16));
        });
        let mut list = |kind, table, actions: &[Action]| {
            property::write(&mut writer, kind, |writer| {
                writer.u8(table).zeros(3);
                instruction::write(writer, actions, VERSION);
            });
        };
        list(kind::ACTION_SET, 0, &self.action_set);
        self.rest.iter().for_each(|(table, actions)| list(kind::REST, *table, actions));
        writer.finish().ok()
    }

    /// Reads bytes that a controller has sent.
    ///
    /// # Errors
    /// The bytes are no continuation.
    pub fn decode(bytes: &[u8]) -> Result<Self, Failure> {
        let mut found = Self::default();
        for mut property in Property::all(&mut Reader::new(bytes, Failure::PropertyLength))? {
            match property.kind {
                kind::SWITCH => found.switch = property.u64()?,
                kind::STACK => found.stack = property.value.all(Reader::u128)?,
                kind::ACTION_SET => found.action_set = list(&mut property.value)?.1,
                kind::REST => found.rest.push(list(&mut property.value)?),
                _ => return Err(Failure::PropertyType),
            }
        }
        Ok(found)
    }
}

/// A table, and actions.
fn list(value: &mut Reader<'_>) -> Result<(u8, Vec<Action>), Failure> {
    let table = value.u8()?;
    value.skip(3)?;
    Ok((table, instruction::read_list(value, VERSION)?))
}

#[cfg(test)]
mod tests {
    use flow::Flow;

    use super::*;

    fn actions(text: &str) -> Vec<Action> {
        Flow::parse(&format!("ip,actions={text}")).unwrap().actions
    }

    /// Lists of actions in which packets of OVN wait, and instructions behind actions.
    fn continuation() -> Continuation {
        Continuation {
            switch: u64::MAX - 7,
            stack: vec![1, u128::MAX],
            action_set: actions("output:3"),
            rest: vec![
                (27, actions("resubmit(,28)")),
                (8, actions("move:NXM_NX_REG14[]->NXM_NX_REG15[],set_field:0x1/0x1->reg10,output:7")),
                (0, Vec::new()),
                (9, actions("ct(commit,table=10,zone=NXM_NX_REG13[0..15],nat),clear_actions,goto_table:12")),
                (250, actions("controller(userdata=00.00.00.02,pause),note:01.02.03.04.05.06,exit")),
            ],
        }
    }

    #[test]
    fn a_continuation_comes_back_as_it_was() {
        let bytes = continuation().encode().unwrap();
        assert_eq!(Continuation::decode(&bytes), Ok(continuation()));
        assert_eq!(Continuation::decode(&[]), Ok(Continuation::default()));
    }

    #[test]
    fn no_bytes_of_a_controller_panic() {
        let bytes = continuation().encode().unwrap();
        for at in 0..bytes.len() {
            let _ = Continuation::decode(&bytes[..at]);
            for value in [0, 1, 0x7f, 0xff] {
                let mut other = bytes.clone();
                other[at] = value;
                let _ = Continuation::decode(&other);
            }
        }
        assert_eq!(Continuation::decode(&[0x12, 0x34, 0, 8, 0, 0, 0, 0]), Err(Failure::PropertyType));
    }
}
