//! Actions that change fields.
use flow::{Action, Field};

use super::Run;
use crate::Surroundings;
use crate::fields::{clear_connection, has, read, write};
use crate::outcome::Step;

impl<S: Surroundings> Run<'_, '_, S> {
    /// Executes an action on fields; the frame's tags are fields too. Returns false if the action is of another kind.
    pub(super) fn on_fields(&mut self, action: &Action) -> bool {
        match action {
            Action::SetField(field, value, mask) => write(&mut self.key, *field, *value, *mask),
            Action::SetOwn(field, value) => {
                write(&mut self.key, *field, u128::from(*value) & field.all_bits(), field.all_bits());
            }
            Action::Move(from, to) => {
                if has(&self.key, from.field.needs()) {
                    let value = read(&self.key, *from);
                    write(&mut self.key, to.field, value << to.start, to.mask());
                }
            }
            Action::Push(bits) => self.lists.stack.push(read(&self.key, *bits)),
            Action::Pop(bits) => {
                if let Some(value) = self.lists.stack.pop() {
                    write(&mut self.key, bits.field, (value & bits.all_bits()) << bits.start, bits.mask());
                }
            }
            Action::PushVlan(kind) => self.push_tag(*kind),
            Action::PopVlan => {
                let (kind, tag) = (self.key.get(Field::InnerTpid), self.key.get(Field::InnerTci));
                self.key.set(Field::VlanTpid, kind);
                self.key.set(Field::VlanTci, tag);
                self.key.set(Field::InnerTpid, 0);
                self.key.set(Field::InnerTci, 0);
            }
            Action::ModVlanVid(_) | Action::ModVlanPcp(_) => {
                if self.key.get(Field::VlanTpid) == 0 {
                    self.push_tag(flow::protocol::VLAN);
                }
                match action {
                    Action::ModVlanVid(number) => {
                        self.key.set_masked(Field::VlanTci, (*number).into(), 0xfff)
                    }
                    Action::ModVlanPcp(priority) => self.key.set(Field::VlanPcp, (*priority).into()),
                    _ => {}
                }
            }
            Action::WriteMetadata(value, mask) => {
                self.key.set_masked(Field::Metadata, (*value).into(), (*mask).into());
            }
            Action::CheckPacketLarger(bytes, bit) => {
                self.write_window();
                let larger = self.window.unpadded_bytes() > usize::from(*bytes);
                self.outcome.steps.push(Step::Larger(*bytes, larger));
                write(&mut self.key, bit.field, u128::from(larger) << bit.start, bit.mask());
            }
            Action::CtClear => clear_connection(&mut self.key),
            _ => return false,
        }
        true
    }

    fn push_tag(&mut self, kind: u16) {
        let (outer_kind, outer) = (self.key.get(Field::VlanTpid), self.key.get(Field::VlanTci));
        self.key.set(Field::InnerTpid, outer_kind);
        self.key.set(Field::InnerTci, outer);
        self.key.set(Field::VlanTpid, kind.into());
        self.key.set(Field::VlanTci, 0x1000); // the bit of presence
    }
}
