//! The OpenFlow error for each refusal of the tables. Open vSwitch answers with the same errors.

use flow::{Action, Field, Unfit};
use flow_tables::Refused;
use openflow::Failure;

/// The error for a change of flows, groups or meters that the tables refuse.
pub(crate) fn failure(refused: &Refused) -> Failure {
    match refused {
        Refused::Overlap(_) => Failure::Overlap,
        Refused::Unfit(unfit) => of_action(unfit),
        Refused::Full { what, .. } => match *what {
            "groups" => Failure::OutOfGroups,
            "buckets of a group" => Failure::OutOfBuckets,
            "meters" => Failure::OutOfMeters,
            _ => Failure::TableFull,
        },
    }
}

fn of_action(unfit: &Unfit) -> Failure {
    match &*unfit.action {
        Action::PushVlan(_) => Failure::ActionTag,
        Action::GotoTable(_) => Failure::InstructionTable,
        Action::SetField(Field::CtMark | Field::CtLabel, ..) => Failure::SetArgument,
        Action::Conjunction { .. } => Failure::BadConjunction,
        _ => Failure::ActionUnfit,
    }
}
