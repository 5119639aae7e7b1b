//! Lists of actions, and the actions that contain lists.

use flow::Action;

use super::wire::{EXPERIMENTER, head, nx, put_nicira};
use super::{connection, controller, field, learn, nicira, pick, standard};
use crate::bytes::{Reader, Writer};
use crate::failure::NICIRA;
use crate::{Failure, Version};

/// Actions in actions, at most.
const MAX_DEPTH: u8 = 16;

/// The information that reading an action needs.
#[derive(Clone, Copy)]
struct Context {
    version: Version,
    /// The number of further levels of nested actions.
    depth: u8,
}

impl Context {
    fn inner(self) -> Result<Self, Failure> {
        let depth = self.depth.checked_sub(1).ok_or(Failure::TooManyActions)?;
        Ok(Self { depth, ..self })
    }

    fn list(self, reader: &mut Reader<'_>) -> Result<Vec<Action>, Failure> {
        reader.all(|reader| self.action(reader))
    }

    fn action(self, reader: &mut Reader<'_>) -> Result<Action, Failure> {
        let (kind, mut body) = head(reader)?;
        match (kind, self.version) {
            (EXPERIMENTER, _) if body.u32()? != NICIRA => Err(Failure::ActionExperimenter),
            (EXPERIMENTER, _) => {
                let kind = body.u16()?;
                self.nicira(kind, &mut body)
            }
            (kind, Version::V10) => standard::read_10(kind, &mut body),
            (kind, version) => standard::read(kind, &mut body, version),
        }
    }

    fn nicira(self, kind: u16, body: &mut Reader<'_>) -> Result<Action, Failure> {
        match kind {
            nx::CLONE => {
                body.skip(6)?;
                self.inner()?.list(body).map(Action::Clone)
            }
            nx::CT => {
                let inner = self.inner()?;
                connection::read(body, |reader| inner.action(reader))
            }
            // Open vSwitch's error for a translation outside of ct.
            nx::NAT => Err(Failure::SetArgument),
            kind => nicira::read(kind, body, self.version),
        }
    }
}

/// Reads all actions up to the end.
pub(crate) fn read_list(reader: &mut Reader<'_>, version: Version) -> Result<Vec<Action>, Failure> {
    Context { version, depth: MAX_DEPTH }.list(reader)
}

/// Writes actions. Leaves instructions in the list to [`crate::instruction`], except in OpenFlow 1.0.
pub(crate) fn write_list(writer: &mut Writer, actions: &[Action], version: Version) {
    for action in actions {
        write(writer, action, version);
    }
}

fn write(writer: &mut Writer, action: &Action, version: Version) {
    match action {
        Action::SetField(field, value, mask) => field::write_set(writer, *field, *value, *mask, version),
        Action::Move(from, to) => field::write_move(writer, *from, *to, version),
        Action::Ct(ct) => {
            connection::write(writer, ct, |writer| write_list(writer, &ct.exec, version));
        }
        Action::Learn(learn) => learn::write(writer, learn),
        Action::Controller(to) => controller::write(writer, to, version),
        Action::Bundle(bundle) => pick::write_bundle(writer, bundle),
        Action::Sample(sample) => pick::write_sample(writer, sample),
        Action::Output(_)
        | Action::OutputSized(..)
        | Action::OutputCut(..)
        | Action::OutputField(_)
        | Action::SetQueue(_)
        | Action::Group(_)
        | Action::Meter(_)
        | Action::PushVlan(_)
        | Action::PopVlan
        | Action::PushMpls(_)
        | Action::PopMpls(_)
        | Action::DecMplsTtl
        | Action::SetOwn(..)
        | Action::ModVlanVid(_)
        | Action::ModVlanPcp(_)
        | Action::DecTtl(None) => standard::write(writer, action, version),
        Action::Clone(actions) => put_nicira(writer, nx::CLONE, |writer| {
            writer.zeros(6);
            write_list(writer, actions, version);
        }),
        Action::WriteActions(_) | Action::ClearActions | Action::WriteMetadata(..) | Action::GotoTable(_) => {
            write_instruction(writer, action, version)
        }
        action => nicira::write(writer, action),
    }
}

/// An instruction among actions: OpenFlow 1.0 has two of them as actions.
fn write_instruction(writer: &mut Writer, action: &Action, version: Version) {
    match action {
        Action::WriteMetadata(value, mask) if version == Version::V10 => {
            put_nicira(writer, nx::WRITE_METADATA, |writer| {
                writer.zeros(6).u64(*value).u64(*mask);
            });
        }
        Action::GotoTable(table) if version == Version::V10 => {
            nicira::write(writer, &Action::Resubmit { port: None, table: Some(*table), original: false });
        }
        _ => writer.refuse("an instruction among actions"),
    }
}
