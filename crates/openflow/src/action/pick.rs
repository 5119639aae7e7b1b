//! `bundle` and `sample` (ovs-actions(7)).

use flow::{Action, Bundle, HashFields, Observation, Sample, port};

use super::field;
use super::wire::{nx, put_nicira};
use crate::Failure;
use crate::bytes::{Reader, Writer};
use crate::oxm::{self, Prefer};

/// Hashes in the order of their numbers.
const HASHES: [HashFields; 7] = [
    HashFields::EthSrc,
    HashFields::SymmetricL4,
    HashFields::SymmetricL3L4,
    HashFields::SymmetricL3L4Udp,
    HashFields::NwSrc,
    HashFields::NwDst,
    HashFields::SymmetricL3,
];
/// The header that says that the members are ports.
const PORTS: u32 = 0x0000_0002;
/// The most members of a bundle.
const MAX_MEMBERS: usize = 2048;

/// Reads `bundle` or `bundle_load`.
pub(super) fn read_bundle(kind: u16, body: &mut Reader<'_>) -> Result<Action, Failure> {
    let (algorithm, hash, basis) = (body.u16()?, body.u16()?, body.u16()?);
    let (members, count, packed) = (body.u32()?, usize::from(body.u16()?), body.u16()?);
    let mut header = body.part(4)?;
    body.zeros(4, Failure::ActionNotZero)?;
    let fields = *HASHES.get(usize::from(hash)).ok_or(Failure::ActionArgument)?;
    if algorithm > 1 || members != PORTS || count > MAX_MEMBERS {
        return Err(Failure::ActionArgument);
    }
    let load = if kind == nx::BUNDLE_LOAD {
        Some(field::writable(oxm::unpack(oxm::read_header(&mut header)?, packed)?)?)
    } else if packed != 0 || header.peek() != [0; 4] {
        return Err(Failure::ActionNotZero);
    } else {
        None
    };
    let members = body.part(2 * count)?.all(|ports| ports.u16())?;
    let rest = body.len();
    if rest >= 8 {
        return Err(Failure::ActionLength);
    }
    body.zeros(rest, Failure::ActionNotZero)?;
    Ok(Action::Bundle(Box::new(Bundle { fields, basis, by_weight: algorithm == 1, members, load })))
}

/// Writes `bundle` or `bundle_load`.
pub(super) fn write_bundle(writer: &mut Writer, bundle: &Bundle) {
    let hash = HASHES.iter().position(|hash| *hash == bundle.fields).unwrap_or_default();
    let kind = if bundle.load.is_some() { nx::BUNDLE_LOAD } else { nx::BUNDLE };
    put_nicira(writer, kind, |writer| {
        writer.u16(bundle.by_weight.into()).u16(hash as u16).u16(bundle.basis).u32(PORTS);
        writer.u16(bundle.members.len() as u16).u16(bundle.load.map_or(0, oxm::pack));
        match bundle.load {
            Some(bits) => oxm::write_bare(writer, bits.field, Prefer::Nxm),
            None => {
                writer.u32(0);
            }
        }
        writer.zeros(4);
        bundle.members.iter().for_each(|port| {
            writer.u16(*port);
        });
    });
}

/// A number, or bits of a field behind its header.
fn read_observation(body: &mut Reader<'_>) -> Result<Observation, Failure> {
    let mut header = body.part(4)?;
    if header.peek() == [0; 4] {
        return body.u32().map(Observation::Number);
    }
    let packed = body.u16()?;
    body.zeros(2, Failure::ActionNotZero)?;
    oxm::unpack(oxm::read_header(&mut header)?, packed).map(Observation::Of)
}

/// Reads `sample` in one of its forms.
pub(super) fn read_sample(kind: u16, body: &mut Reader<'_>) -> Result<Action, Failure> {
    let (probability, collector_set) = (body.u16()?, body.u32()?);
    let (domain, point) = if kind == nx::SAMPLE4 {
        (read_observation(body)?, read_observation(body)?)
    } else {
        (Observation::Number(body.u32()?), Observation::Number(body.u32()?))
    };
    let (mut of_port, mut egress) = (None, None);
    if kind != nx::SAMPLE {
        of_port = Some(body.u16()?).filter(|of_port| *of_port != port::ANY);
        egress = match (kind, body.u8()?) {
            (_, 0) => None,
            (nx::SAMPLE2, _) => return Err(Failure::ActionNotZero),
            (_, 1) => Some(false),
            (_, 2) => Some(true),
            _ => return Err(Failure::ActionArgument),
        };
        body.zeros(5, Failure::ActionNotZero)?;
    }
    if probability == 0 {
        return Err(Failure::ActionArgument);
    }
    Ok(Action::Sample(Box::new(Sample { probability, collector_set, domain, point, port: of_port, egress })))
}

fn write_observation(writer: &mut Writer, observation: Observation) {
    match observation {
        Observation::Number(number) => {
            writer.u32(0).u32(number);
        }
        Observation::Of(bits) => {
            oxm::write_bare(writer, bits.field, Prefer::Nxm);
            writer.u16(oxm::pack(bits)).zeros(2);
        }
    }
}

/// Writes the oldest form of `sample` that can express the action.
pub(super) fn write_sample(writer: &mut Writer, sample: &Sample) {
    let (domain, point) = (sample.domain, sample.point);
    let head = |writer: &mut Writer| {
        writer.u16(sample.probability).u32(sample.collector_set);
    };
    let tail = |writer: &mut Writer| {
        let direction = sample.egress.map_or(0, |egress| if egress { 2 } else { 1 });
        writer.u16(sample.port.unwrap_or(port::ANY)).u8(direction).zeros(5);
    };
    let (Observation::Number(domain), Observation::Number(point)) = (domain, point) else {
        return put_nicira(writer, nx::SAMPLE4, |writer| {
            head(writer);
            write_observation(writer, domain);
            write_observation(writer, point);
            tail(writer);
        });
    };
    let kind = match (sample.port, sample.egress) {
        (_, Some(_)) => nx::SAMPLE3,
        (Some(_), None) => nx::SAMPLE2,
        (None, None) => nx::SAMPLE,
    };
    put_nicira(writer, kind, |writer| {
        head(writer);
        writer.u32(domain).u32(point);
        if kind != nx::SAMPLE {
            tail(writer);
        }
    });
}
