//! The guest's programs, which are assembled with this crate and copied into the guest.

use super::layout::{CODE, DISTRIBUTOR, DONE, EVENT, FAULT, REDISTRIBUTOR};

/// The interrupts that are enabled: the SGIs, and the virtual timer.
const ENABLED: u64 = 0xFFFF | 1 << 27;

std::arch::global_asm!(
    include_str!("guest.s"),
    DISTRIBUTOR = const DISTRIBUTOR,
    REDISTRIBUTOR = const REDISTRIBUTOR,
    DONE = const DONE,
    EVENT = const EVENT,
    FAULT = const FAULT,
    ENABLED = const ENABLED,
);

unsafe extern "C" {
    static tautline_arm_begin: u8;
    static tautline_arm_table: u8;
    static tautline_arm_end: u8;
}

/// A program of the guest; the comments of `guest.s` describe each. The order is that of the program table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Initialize,
    Stamps,
    Hypercall,
    Read,
    Write,
    SelfInterrupt,
    Timer,
    Identify,
    Touch,
    Interrupt,
    Answer,
    SignalOut,
    TouchLarge,
    Wake,
    AnswerHalted,
    TimerSpinning,
    Spin,
}

/// The vector table, the table of programs, and all programs.
pub fn code() -> &'static [u8] {
    // SAFETY: `guest.s` puts both symbols into one read-only section, the end after the beginning.
    unsafe {
        let begin = &raw const tautline_arm_begin;
        let end = &raw const tautline_arm_end;
        std::slice::from_raw_parts(begin, end.offset_from_unsigned(begin))
    }
}

/// The address of a program in the guest.
pub fn entry(program: Program) -> u64 {
    let table = (&raw const tautline_arm_table).addr() - (&raw const tautline_arm_begin).addr();
    let place = code()[table + program as usize * 4..][..4].try_into().expect("four bytes");
    CODE + u64::from(u32::from_le_bytes(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_lie_behind_their_table_and_fit() {
        // 16 vectors of 128 bytes, then the table.
        let table = 0x800 + (Program::Spin as usize + 1) * 4;
        assert_eq!(entry(Program::Initialize), CODE + table as u64);
        assert!(entry(Program::Spin) < CODE + code().len() as u64);
        assert!(code().len() < 0x4000);
        // `isb`, with which each stamp begins.
        let at = (entry(Program::Stamps) - CODE) as usize;
        assert_eq!(code()[at..][..4], 0xD503_3FDFu32.to_le_bytes());
    }
}
