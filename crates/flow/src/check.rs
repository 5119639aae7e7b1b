//! Checks whether the actions of a flow fit its match: every frame that matches must have the fields that the actions
//! use.
use thiserror::Error;

use crate::{Action, Ct, Field, Flow, Learn, LearnSpec, Match, Needs, Subfield, Zone};

const PRESENT: u128 = 0x1000; // of a tag

/// An action that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {why}; accepted: {accepted}", action)]
pub struct Unfit {
    /// The action.
    pub action: Box<Action>,
    /// What is wrong with the action.
    pub why: &'static str,
    /// The actions that would fit.
    pub accepted: &'static str,
}

type Why = (&'static str, &'static str);

fn has(wanted: &Match, field: Field) -> Result<(), Why> {
    let met = wanted.meets(field.needs()) || field == Field::NwProto && wanted.meets(Needs::Arp);
    if met {
        Ok(())
    } else {
        Err(("the match has not the protocol of the field", "that protocol in the match"))
    }
}

fn reads(wanted: &Match, bits: Subfield) -> Result<(), Why> {
    has(wanted, bits.field)
}

fn ct(wanted: &Match, ct: &Ct) -> Result<(), Why> {
    if !wanted.meets(Needs::Ip) {
        return Err(("the match has no connections", "ip, ipv6 or a protocol in them in the match"));
    }
    if let Zone::Of(bits) = ct.zone {
        reads(wanted, bits)?;
    }
    if let Some((first, _)) = ct.nat.as_ref().and_then(|nat| nat.addresses)
        && !wanted.meets(if first.is_ipv4() { Needs::Ipv4 } else { Needs::Ipv6 })
    {
        return Err(("the match is of the other version of IP", "addresses of the match's version"));
    }
    if (ct.helper == 21 && !wanted.meets(Needs::Tcp)) || (ct.helper == 69 && !wanted.meets(Needs::Udp)) {
        return Err(("the match is not of the helper's protocol", "tcp for ftp, udp for tftp"));
    }
    ct.exec.iter().try_for_each(|action| match action {
        Action::Move(from, _) => reads(wanted, *from),
        _ => Ok(()),
    })
}

fn learn(wanted: &Match, learn: &Learn) -> Result<(), Why> {
    let mut learned = Match::ANY;
    for spec in &learn.specs {
        match spec {
            LearnSpec::MatchField(_, from) | LearnSpec::LoadField(from, _) | LearnSpec::Output(from) => {
                reads(wanted, *from)?;
            }
            LearnSpec::MatchValue(..) | LearnSpec::LoadValue(..) => {}
        }
        match spec {
            LearnSpec::MatchValue(bits, value) => {
                has(&learned, bits.field)?;
                learned.add_masked(bits.field, value << bits.start, bits.mask());
            }
            LearnSpec::MatchField(bits, _) => has(&learned, bits.field)?,
            LearnSpec::LoadValue(_, to) | LearnSpec::LoadField(_, to) => has(&learned, to.field)?,
            LearnSpec::Output(_) => {}
        }
    }
    Ok(())
}

/// The frame has another type from here on, and nothing is known of the headers behind it.
fn of_type(wanted: &mut Match, kind: u16) {
    wanted.set(Field::EthType, kind.into());
    wanted.set_masked(Field::NwProto, 0, 0);
}

/// Checks one action. `wanted` is the known state of the frame: its tags after the previous actions.
fn one(wanted: &mut Match, action: &Action) -> Result<(), Why> {
    match action {
        Action::SetField(Field::VlanTci, value, mask) => {
            wanted.add_masked(Field::VlanTci, *value, mask & PRESENT);
        }
        Action::SetField(field, ..) | Action::SetOwn(field, _) => has(wanted, *field)?,
        Action::Move(from, to) => {
            reads(wanted, *from)?;
            has(wanted, to.field)?;
        }
        Action::Push(bits)
        | Action::Pop(bits)
        | Action::OutputField(bits)
        | Action::CheckPacketLarger(_, bits) => {
            reads(wanted, *bits)?;
        }
        Action::PushVlan(_) => {
            if wanted.value().get(Field::InnerTci) & PRESENT != 0 {
                return Err(("the frame has two VLAN tags", "at most two tags on a frame"));
            }
            wanted.add_masked(Field::InnerTci, wanted.value().get(Field::VlanTci), PRESENT);
            wanted.add_masked(Field::VlanTci, PRESENT, PRESENT);
        }
        Action::ModVlanVid(_) | Action::ModVlanPcp(_) => {
            wanted.add_masked(Field::VlanTci, PRESENT, PRESENT);
        }
        Action::PopVlan => {
            if !wanted.meets(Needs::Vlan) {
                return Err(("the match has no VLAN tag", "a VLAN in the match, or push_vlan before"));
            }
            wanted.set_masked(Field::VlanTci, wanted.value().get(Field::InnerTci), PRESENT);
            wanted.set_masked(Field::InnerTci, 0, PRESENT);
        }
        Action::PushMpls(kind) => of_type(wanted, *kind),
        Action::PopMpls(_) | Action::DecMplsTtl if !wanted.meets(Needs::Mpls) => {
            return Err(("the match has no label", "mpls or mplsm in the match, or push_mpls before"));
        }
        Action::PopMpls(kind) => of_type(wanted, *kind),
        Action::FinTimeout(_) if !wanted.meets(Needs::Tcp) => {
            return Err(("the match is not of TCP", "tcp or tcp6 in the match"));
        }
        Action::DecTtl(_) if !wanted.meets(Needs::Ip) => {
            return Err(("the match has no time to live", "ip, ipv6 or a protocol in them in the match"));
        }
        Action::Ct(inner) => ct(wanted, inner)?,
        Action::Learn(inner) => learn(wanted, inner)?,
        Action::Clone(actions) | Action::WriteActions(actions) => {
            let mut inner = *wanted;
            actions.iter().try_for_each(|action| one(&mut inner, action))?;
        }
        _ => {}
    }
    Ok(())
}

/// The order of OpenFlow's instructions. All other actions are applied at once.
fn rank(action: &Action) -> u8 {
    match action {
        Action::Meter(_) => 0,
        Action::ClearActions => 2,
        Action::WriteActions(_) => 3,
        Action::WriteMetadata(..) => 4,
        Action::GotoTable(_) => 5,
        _ => 1,
    }
}

fn only_outside(action: &Action) -> Result<(), Why> {
    match action {
        Action::SetField(Field::CtMark | Field::CtLabel, ..) => {
            Err(("a connection's fields are written by ct", "ct(commit,exec(set_field:…))"))
        }
        Action::Move(_, to) if matches!(to.field, Field::CtMark | Field::CtLabel) => {
            Err(("a connection's fields are written by ct", "ct(commit,exec(move:…))"))
        }
        Action::Clone(actions) => actions.iter().try_for_each(|action| match rank(action) {
            1 => only_outside(action),
            _ => Err(("an instruction stands in clone", "actions only")),
        }),
        _ => Ok(()),
    }
}

impl Flow {
    /// Checks that each action fits the match, and that instructions are in OpenFlow's order.
    ///
    /// # Errors
    /// Returns the first action that does not fit.
    pub fn check(&self) -> Result<(), Unfit> {
        let mut wanted = self.wanted;
        let conjunctive = self.actions.iter().any(|action| matches!(action, Action::Conjunction { .. }));
        let mut last = 0;
        for action in &self.actions {
            let unfit = |(why, accepted): Why| Unfit { action: Box::new(action.clone()), why, accepted };
            if conjunctive && !matches!(action, Action::Conjunction { .. } | Action::Note(_)) {
                return Err(unfit(("it stands beside conjunction", "conjunction and note only")));
            }
            if rank(action) < last {
                return Err(unfit((
                    "the order of instructions is wrong",
                    "meter, actions, clear_actions, write_actions, write_metadata, goto_table",
                )));
            }
            last = rank(action);
            if let Action::GotoTable(table) = action
                && *table <= self.table
            {
                return Err(unfit(("the table is not a later one", "a table above the flow's")));
            }
            only_outside(action).and_then(|()| one(&mut wanted, action)).map_err(unfit)?;
        }
        Ok(())
    }
}
