//! Changes of groups (OpenFlow 1.5 §7.3.4.4).

use flow::{Bucket, Field, Group, GroupKind, Selection, port};

use crate::bytes::{Reader, Writer};
use crate::oxm::{self, Failures, Prefer};
use crate::property::{self, Property};
use crate::{Failure, Version, action, number};

/// The kind of change of groups and their buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "OpenFlow's and Open vSwitch's names")]
pub enum GroupCommand {
    Add,
    Modify,
    Delete,
    InsertBucket,
    RemoveBucket,
    AddOrModify,
}

const COMMANDS: [(GroupCommand, u16, Version); 6] = [
    (GroupCommand::Add, 0, Version::V13),
    (GroupCommand::Modify, 1, Version::V13),
    (GroupCommand::Delete, 2, Version::V13),
    (GroupCommand::InsertBucket, 3, Version::V15),
    (GroupCommand::RemoveBucket, 5, Version::V15),
    (GroupCommand::AddOrModify, 0x8000, Version::V13),
];
const KINDS: [GroupKind; 4] =
    [GroupKind::All, GroupKind::Select, GroupKind::Indirect, GroupKind::FastFailover];

/// The group number that means all groups.
pub const ALL_GROUPS: u32 = 0xffff_fffc;
/// The number of no group.
const NO_GROUP: u32 = u32::MAX;
/// The highest number of a bucket; higher values stand for the first bucket, the last, all and none.
const MAX_BUCKET: u32 = 0xffff_ff00;
/// The experimenter whose property says how a bucket is selected, and the property's number.
const NETRONOME: u32 = 0x0000_154d;
const SELECTION_METHOD: u32 = 1;
const EXPERIMENTER: u16 = 0xffff;
/// Bytes of the method's name, filled up with zeros.
const METHOD_BYTES: usize = 16;

/// Properties of a bucket in OpenFlow 1.5.
mod kind {
    pub const WEIGHT: u16 = 0;
    pub const WATCH_PORT: u16 = 1;
    pub const WATCH_GROUP: u16 = 2;
}

/// Fields in a group's property.
const IN_PROPERTY: Failures = Failures {
    field: Failure::PropertyExperimenterValue,
    length: Failure::PropertyLength,
    other_length: Failure::PropertyLength,
    value: Failure::PropertyExperimenterValue,
    mask: Failure::PropertyExperimenterValue,
};

/// Whether buckets and groups have the form of OpenFlow 1.3. In OpenFlow 1.0, Open vSwitch's messages of groups have the form
/// of OpenFlow 1.5.
pub(crate) fn has_old_form(version: Version) -> bool {
    matches!(version, Version::V13 | Version::V14)
}

fn read_bucket(reader: &mut Reader<'_>, version: Version) -> Result<Bucket, Failure> {
    let mut ahead = reader.with(Failure::BadBucket);
    let length = usize::from(ahead.u16()?);
    if length < 8 || length % 8 != 0 {
        return Err(Failure::BadBucket);
    }
    let mut body = reader.with(Failure::BadBucket).part(length)?;
    reader.skip(length)?;
    body.skip(2)?;
    let (mut bucket, mut watched) = (Bucket::default(), (u32::MAX, NO_GROUP));
    if has_old_form(version) {
        bucket.weight = body.u16()?;
        watched = (body.u32()?, body.u32()?);
        body.skip(4)?;
        bucket.actions = action::read_list(&mut body, version)?;
    } else {
        let actions = usize::from(body.u16()?);
        bucket.id = body.u32()?;
        if bucket.id > MAX_BUCKET {
            return Err(Failure::BadBucket);
        }
        bucket.actions = action::read_list(&mut body.part(actions)?, version)?;
        for mut property in Property::all(&mut body)? {
            match property.kind {
                kind::WEIGHT => bucket.weight = property.u16()?,
                kind::WATCH_PORT => watched.0 = property.u32()?,
                kind::WATCH_GROUP => watched.1 = property.u32()?,
                _ => return Err(Failure::PropertyType),
            }
        }
    }
    let watch_port = number::narrow(watched.0).ok_or(Failure::BadWatch)?;
    bucket.watch_port = Some(watch_port).filter(|watched| *watched != port::ANY);
    bucket.watch_group = Some(watched.1).filter(|group| *group != NO_GROUP);
    Ok(bucket)
}

fn write_bucket(writer: &mut Writer, bucket: &Bucket, version: Version) {
    let start = writer.len();
    writer.u16(0);
    if has_old_form(version) {
        writer.u16(bucket.weight);
        number::write(writer, version, bucket.watch_port.unwrap_or(port::ANY));
        writer.u32(bucket.watch_group.unwrap_or(NO_GROUP)).zeros(4);
        action::write_list(writer, &bucket.actions, version);
        writer.length(start, 0);
        return;
    }
    writer.u16(0).u32(bucket.id);
    let actions = writer.len();
    action::write_list(writer, &bucket.actions, version);
    let length = (writer.len() - actions) as u16; // checked for the whole message
    writer.set_u16(start + 2, length);
    if bucket.weight != 0 {
        property::write_u16(writer, kind::WEIGHT, bucket.weight);
    }
    if let Some(watched) = bucket.watch_port {
        property::write_u32(writer, kind::WATCH_PORT, number::wide(watched));
    }
    if let Some(group) = bucket.watch_group {
        property::write_u32(writer, kind::WATCH_GROUP, group);
    }
    writer.length(start, 0);
}

/// Reads buckets up to the end.
pub(crate) fn read_buckets(reader: &mut Reader<'_>, version: Version) -> Result<Vec<Bucket>, Failure> {
    reader.all(|reader| read_bucket(reader, version))
}

/// Writes buckets.
pub(crate) fn write_buckets(writer: &mut Writer, buckets: &[Bucket], version: Version) {
    buckets.iter().for_each(|bucket| write_bucket(writer, bucket, version));
}

fn read_fields(value: &mut Reader<'_>) -> Result<Vec<(Field, u128)>, Failure> {
    value.all(|value| {
        // The value is the mask of the bits that are hashed.
        oxm::read_field(value, IN_PROPERTY, IN_PROPERTY.value).map(|(field, mask, _)| (field, mask))
    })
}

/// Reads a group's properties, which define how a bucket is selected.
pub(crate) fn read_selection(reader: &mut Reader<'_>) -> Result<Selection, Failure> {
    let mut selection = Selection::Unspecified;
    for mut property in Property::all(reader)? {
        if property.kind != EXPERIMENTER {
            return Err(Failure::PropertyType);
        }
        let value = &mut property.value;
        if value.u32()? != NETRONOME {
            return Err(Failure::PropertyExperimenter);
        }
        if value.u32()? != SELECTION_METHOD {
            return Err(Failure::PropertyExperimenterType);
        }
        value.skip(4)?;
        let name = value.array::<METHOD_BYTES>()?;
        let parameter = value.u64()?;
        let end = name.iter().position(|byte| *byte == 0).ok_or(Failure::PropertyExperimenterValue)?;
        selection = match &name[..end] {
            b"" if parameter == 0 && value.is_empty() => Selection::Unspecified,
            b"dp_hash" if value.is_empty() => Selection::DpHash(parameter),
            b"hash" => Selection::Hash(parameter, read_fields(value)?),
            _ => return Err(Failure::PropertyExperimenterValue),
        };
    }
    Ok(selection)
}

/// Writes a group's properties.
pub(crate) fn write_selection(writer: &mut Writer, selection: &Selection, version: Version) {
    let (name, parameter, fields): (&[u8], _, &[_]) = match selection {
        Selection::Unspecified => return,
        Selection::DpHash(parameter) => (b"dp_hash", *parameter, &[]),
        Selection::Hash(parameter, fields) => (b"hash", *parameter, fields),
    };
    property::write(writer, EXPERIMENTER, |writer| {
        writer.u32(NETRONOME).u32(SELECTION_METHOD).zeros(4);
        writer.put(name).zeros(METHOD_BYTES - name.len()).u64(parameter);
        for (field, mask) in fields {
            oxm::write_masked(writer, *field, *mask, field.all_bits(), false, Prefer::Version(version));
        }
    });
}

/// The kind of group with this number.
pub(crate) fn kind(number: u8) -> Result<GroupKind, Failure> {
    KINDS.get(usize::from(number)).copied().ok_or(Failure::GroupType)
}

/// The number of a kind of group.
pub(crate) fn kind_number(kind: GroupKind) -> u8 {
    KINDS.iter().position(|other| *other == kind).unwrap_or_default() as u8 // below four
}

/// A change of groups.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupMod {
    /// The kind of change.
    pub command: GroupCommand,
    /// The group. Its number is [`ALL_GROUPS`] to delete all groups.
    pub group: Group,
    /// For the commands on buckets: the bucket to change, or the bucket behind which buckets are inserted.
    pub bucket: u32,
}

impl GroupMod {
    pub(crate) fn read(reader: &mut Reader<'_>, version: Version) -> Result<Self, Failure> {
        let number = reader.u16()?;
        let has = |since| version >= since || !has_old_form(version);
        let known = COMMANDS.iter().find(|(_, other, since)| *other == number && has(*since));
        let (command, ..) = *known.ok_or(Failure::GroupCommand)?;
        let mut group = Group { kind: kind(reader.u8()?)?, ..Group::default() };
        reader.skip(1)?;
        group.id = reader.u32()?;
        let mut bucket = u32::MAX;
        if has_old_form(version) {
            group.buckets = read_buckets(reader, version)?;
        } else {
            let length = usize::from(reader.u16()?);
            reader.skip(2)?;
            bucket = reader.u32()?;
            group.buckets = read_buckets(&mut reader.with(Failure::BadBucket).part(length)?, version)?;
            reader.skip(length)?;
            group.selection = read_selection(reader)?;
        }
        if command != GroupCommand::Delete && group.id > Group::MAX_ID {
            return Err(Failure::InvalidGroup);
        }
        if group.selection != Selection::Unspecified && group.kind != GroupKind::Select {
            return Err(Failure::PropertyExperimenterValue);
        }
        Ok(Self { command, group, bucket })
    }

    pub(crate) fn write(&self, writer: &mut Writer, version: Version) {
        let known = COMMANDS.iter().find(|(command, ..)| *command == self.command);
        let (_, number, since) = known.copied().unwrap_or(COMMANDS[0]);
        if version < since && has_old_form(version) {
            writer.refuse("a command on buckets");
        }
        let group = &self.group;
        writer.u16(number).u8(kind_number(group.kind)).zeros(1).u32(group.id);
        if has_old_form(version) {
            return write_buckets(writer, &group.buckets, version);
        }
        let at = writer.len();
        writer.zeros(4).u32(self.bucket);
        let start = writer.len();
        write_buckets(writer, &group.buckets, version);
        let length = (writer.len() - start) as u16; // checked for the whole message
        writer.set_u16(at, length);
        write_selection(writer, &group.selection, version);
    }
}
