//! Reads and prints groups and meters, as `ovs-ofctl dump-groups` and `dump-meters` print them.
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::action::{List, Word, list, number, port_of, split};
use super::{ParseError, value};
use crate::{Band, BandKind, Bucket, Field, Group, GroupKind, Meter, MeterUnit, Selection};

const KINDS: [(&str, GroupKind); 5] = [
    ("all", GroupKind::All),
    ("select", GroupKind::Select),
    ("indirect", GroupKind::Indirect),
    ("ff", GroupKind::FastFailover),
    ("fast_failover", GroupKind::FastFailover),
];

fn wrong(word: &str, why: &str, accepted: &str) -> ParseError {
    ParseError::new(word, why, accepted)
}

/// `name=argument`, or `name(argument)`.
fn fields(word: &Word<'_>) -> Result<Vec<(Field, u128)>, ParseError> {
    let one = |part: &str| {
        let (name, mask) = part.split_once('=').unwrap_or((part, ""));
        let field = Field::by_name(name)
            .ok_or_else(|| word.wrong("no field of this name", "a name of ovs-fields(7)"))?;
        match mask {
            "" => Ok((field, field.all_bits())),
            mask => value::parse(field, mask).map(|(mask, _)| (field, mask)),
        }
    };
    let mut fields = split(word.argument)?.into_iter().map(one).collect::<Result<Vec<_>, _>>()?;
    fields.sort_by_key(|(field, _)| *field as usize);
    Ok(fields)
}

/// A bucket behind `bucket=`. All words except the bucket's keys are actions.
fn bucket(text: &str, kind: GroupKind, id: u32) -> Result<Bucket, ParseError> {
    let mut bucket = Bucket { id, weight: u16::from(kind == GroupKind::Select), ..Bucket::default() };
    let (head, actions) = match text.split_once("actions=") {
        Some((head, actions)) => (head, Some(actions)),
        None => (text, None),
    };
    let mut others = Vec::new();
    for part in split(head)? {
        let word = Word::new(part);
        match word.name {
            "weight" => bucket.weight = word.number()?,
            "bucket_id" => bucket.id = word.number()?,
            "watch_port" => bucket.watch_port = Some(port_of(&word, word.argument)?),
            "watch_group" => bucket.watch_group = Some(word.number()?),
            _ => others.push(part),
        }
    }
    others.extend(actions);
    bucket.actions = list(&others.join(","), 0)?;
    if kind == GroupKind::FastFailover && bucket.watch_port.is_none() && bucket.watch_group.is_none() {
        return Err(wrong(
            text,
            "the bucket of a fast failover watches nothing",
            "watch_port: or watch_group:",
        ));
    }
    Ok(bucket)
}

impl Group {
    /// Reads a group as `ovs-ofctl` writes it: `group_id=1,type=select,bucket=weight:2,actions=output:1`.
    ///
    /// # Errors
    /// A word is unknown, the number or the kind is missing, the actions of a bucket cannot be parsed, or the kind
    /// does not allow such buckets.
    pub fn parse(text: &str) -> Result<Group, ParseError> {
        let (head, buckets) =
            text.split_once("bucket=").map_or((text, None), |(head, rest)| (head, Some(rest)));
        let mut group = Group::default();
        let (mut id, mut kind, mut method, mut parameter, mut hashed) = (None, None, None, 0, None);
        for part in split(head)? {
            let word = Word::new(part);
            match word.name {
                "group_id" => {
                    id = Some(number::<u32>(&word, word.argument)?).filter(|id| *id <= Group::MAX_ID)
                }
                "type" => kind = KINDS.iter().find(|(name, _)| *name == word.argument).map(|(_, kind)| *kind),
                "selection_method" => method = Some(word.argument),
                "selection_method_param" => parameter = word.number()?,
                "fields" => hashed = Some(fields(&word)?),
                _ => {
                    let accepted =
                        "group_id=, type=, selection_method=, selection_method_param=, fields(…), bucket=";
                    return Err(word.wrong("unknown word of a group", accepted));
                }
            }
        }
        group.id = id.ok_or_else(|| wrong(text, "the group has no number", "group_id=0 to 4294967040"))?;
        let kinds = "type=all, select, indirect or ff";
        group.kind = kind.ok_or_else(|| wrong(text, "the group has no kind", kinds))?;
        group.selection = match (method, hashed) {
            (None, None) if parameter == 0 => Selection::Unspecified,
            (Some("dp_hash"), None) => Selection::DpHash(parameter),
            (Some("hash"), fields) => Selection::Hash(parameter, fields.unwrap_or_default()),
            (Some("dp_hash") | None, _) => {
                return Err(wrong(
                    text,
                    "parameter or fields without their method",
                    "selection_method=hash beside them",
                ));
            }
            (Some(other), _) => {
                return Err(wrong(other, "unknown method", "selection_method=dp_hash or hash"));
            }
        };
        if group.kind != GroupKind::Select && group.selection != Selection::Unspecified {
            return Err(wrong(
                text,
                "only a group of the type select selects",
                "type=select beside selection_method",
            ));
        }
        for (text, id) in buckets.into_iter().flat_map(|text| text.split("bucket=")).zip(0..) {
            group.buckets.push(bucket(text.trim_end_matches([',', ' ']), group.kind, id)?);
        }
        let mut ids: Vec<_> = group.buckets.iter().map(|bucket| bucket.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(wrong(text, "two buckets have the same number", "bucket_id: once for each bucket"));
        }
        if group.kind == GroupKind::Indirect && group.buckets.len() != 1 {
            return Err(wrong(text, "an indirect group has one bucket", "bucket= once"));
        }
        Ok(group)
    }
}

impl FromStr for Group {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Group::parse(text)
    }
}

impl Display for Selection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (name, parameter, fields) = match self {
            Selection::Unspecified => return Ok(()),
            Selection::DpHash(parameter) => ("dp_hash", *parameter, &[][..]),
            Selection::Hash(parameter, fields) => ("hash", *parameter, fields.as_slice()),
        };
        write!(f, ",selection_method={name}")?;
        if parameter != 0 {
            write!(f, ",selection_method_param={parameter}")?;
        }
        let one = |(field, mask): &(Field, u128)| match *mask {
            mask if mask == field.all_bits() => field.name().to_owned(),
            mask => format!("{}={}", field.name(), value::print(*field, mask, field.all_bits())),
        };
        let fields: Vec<_> = fields.iter().map(one).collect();
        match fields.len() {
            0 => Ok(()),
            1 => write!(f, ",fields={}", fields[0]),
            _ => write!(f, ",fields({})", fields.join(",")),
        }
    }
}

impl Display for Group {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let kind = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name);
        write!(f, "group_id={},type={kind}{}", self.id, self.selection)?;
        for bucket in &self.buckets {
            write!(f, ",bucket=bucket_id:{},", bucket.id)?;
            if bucket.weight != u16::from(self.kind == GroupKind::Select) {
                write!(f, "weight:{},", bucket.weight)?;
            }
            if let Some(port) = bucket.watch_port {
                write!(f, "watch_port:{},", value::print_port(port.into()))?;
            }
            if let Some(group) = bucket.watch_group {
                write!(f, "watch_group:{group},")?;
            }
            write!(f, "actions={}", List(&bucket.actions))?;
        }
        Ok(())
    }
}

impl Meter {
    /// Reads a meter as `ovs-ofctl` writes it: `meter=1,pktps,burst,bands=type=drop,rate=100,burst_size=25`.
    ///
    /// # Errors
    /// A word is unknown, the number is missing, or a band has no type or no rate.
    pub fn parse(text: &str) -> Result<Meter, ParseError> {
        let (head, bands) = text.split_once("bands=").unwrap_or((text, ""));
        let mut meter = Meter::default();
        let mut unit = None;
        for part in split(head)? {
            let word = Word::new(part);
            match word.name {
                "meter" => meter.id = word.number()?,
                "kbps" | "pktps" if unit.is_some() => return Err(wrong(text, "two units", "kbps or pktps")),
                "kbps" => unit = Some(MeterUnit::Kilobits),
                "pktps" => unit = Some(MeterUnit::Packets),
                "burst" => meter.burst = true,
                "stats" => meter.stats = true,
                _ => {
                    return Err(
                        word.wrong("unknown word of a meter", "meter=, kbps, pktps, burst, stats, bands=")
                    );
                }
            }
        }
        meter.unit = unit.ok_or_else(|| wrong(text, "the meter has no unit", "kbps or pktps"))?;
        if meter.id == 0 {
            return Err(wrong(text, "the meter has no number", "meter= and a number from 1"));
        }
        for part in split(bands)? {
            let word = Word::new(part);
            if word.name == "type" {
                let kind = match word.argument {
                    "drop" => BandKind::Drop,
                    "dscp_remark" => BandKind::DscpRemark(1),
                    _ => return Err(word.wrong("unknown type of a band", "drop, dscp_remark")),
                };
                meter.bands.push(Band { kind, rate: 0, burst: 0 });
                continue;
            }
            let band = meter
                .bands
                .last_mut()
                .ok_or_else(|| word.wrong("a band has no type", "type=drop before it"))?;
            match (word.name, &mut band.kind) {
                ("rate", _) => band.rate = word.number()?,
                ("burst_size", _) => band.burst = word.number()?,
                ("prec_level", BandKind::DscpRemark(level)) => *level = word.number()?,
                _ => {
                    return Err(
                        word.wrong("unknown word of a band", "type=, rate=, burst_size=, prec_level=")
                    );
                }
            }
        }
        if meter.bands.is_empty() || meter.bands.iter().any(|band| band.rate == 0) {
            return Err(wrong(text, "a rate is missing", "bands=type=drop,rate= and a number from 1"));
        }
        if meter.bands.iter().any(|band| meter.burst != (band.burst != 0)) {
            return Err(wrong(
                text,
                "burst and burst_size go together",
                "burst, and burst_size= in each band",
            ));
        }
        Ok(meter)
    }
}

impl FromStr for Meter {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Meter::parse(text)
    }
}

/// Prints the meter in one line. `ovs-ofctl` prints each band in a separate line.
impl Display for Meter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let unit = if self.unit == MeterUnit::Packets { "pktps" } else { "kbps" };
        write!(f, "meter={} {unit}", self.id)?;
        for (is, name) in [(self.burst, " burst"), (self.stats, " stats")] {
            f.write_str(if is { name } else { "" })?;
        }
        f.write_str(" bands=")?;
        for (at, band) in self.bands.iter().enumerate() {
            let kind = if band.kind == BandKind::Drop { "drop" } else { "dscp_remark" };
            write!(f, "{}type={kind} rate={}", if at > 0 { " " } else { "" }, band.rate)?;
            if self.burst {
                write!(f, " burst_size={}", band.burst)?;
            }
            if let BandKind::DscpRemark(level) = band.kind {
                write!(f, " prec_level={level}")?;
            }
        }
        Ok(())
    }
}
