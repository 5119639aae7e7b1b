//! The guest's programs, which are assembled with this crate and copied into the guest.

use super::layout::{
    ANSWER, CODE, PORT_DONE, PORT_EVENT, PORT_FAULT, PORT_USER, READY, READY_STAMP, SECOND, VECTOR,
};
use super::tsc;

std::arch::global_asm!(
    include_str!("guest.s"),
    READY = const READY,
    READY_STAMP = const READY_STAMP,
    ANSWER = const ANSWER,
    SECOND = const SECOND,
    PORT_DONE = const PORT_DONE,
    PORT_FAULT = const PORT_FAULT,
    PORT_USER = const PORT_USER,
    PORT_EVENT = const PORT_EVENT,
    VECTOR = const VECTOR,
    // The local APIC's timer in TSC-deadline mode; a fixed interrupt, asserted (Intel SDM volume 3, 11.5.1, 11.6.1).
    TIMER = const 0x4_0000 | VECTOR as u32,
    IPI = const 0x4000 | VECTOR as u32,
);

unsafe extern "C" {
    static tautline_kvm_guest_begin: u8;
    static tautline_kvm_guest_end: u8;
}

/// A program of the guest; the comments of `guest.s` describe each. The order is that of the program table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Initialize,
    Stamps,
    Cpuid,
    Vmcall,
    Vmmcall,
    InUser,
    OutUser,
    OutEvent,
    Write,
    Read,
    Touch,
    SelfIpi,
    WaitSpinning,
    WaitHalted,
    SendIpi,
    TimerSpinning,
    TimerHalted,
    SignalOut,
    Exchange,
    Spin,
    Interrupt,
    Fault,
}

impl Program {
    /// The hypercall program for this CPU.
    pub fn hypercall() -> Self {
        if tsc::is_amd() { Self::Vmmcall } else { Self::Vmcall }
    }
}

/// All programs, after the table of their addresses.
pub fn code() -> &'static [u8] {
    // SAFETY: `guest.s` puts both symbols into one read-only section, the end after the beginning.
    unsafe {
        let begin = &raw const tautline_kvm_guest_begin;
        let end = &raw const tautline_kvm_guest_end;
        std::slice::from_raw_parts(begin, end.offset_from_unsigned(begin))
    }
}

/// The address of a program in the guest.
pub fn entry(program: Program) -> u64 {
    let place = code()[program as usize * 4..][..4].try_into().expect("four bytes");
    CODE + u64::from(u32::from_le_bytes(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_lie_behind_their_table_and_fit() {
        let table = (Program::Fault as usize + 1) * 4;
        assert_eq!(entry(Program::Initialize), CODE + table as u64);
        assert!(entry(Program::Fault) < CODE + code().len() as u64);
        assert!(code().len() < 0x4000);
        // `lfence`, with which each stamp begins.
        let at = (entry(Program::Stamps) - CODE) as usize;
        assert_eq!(code()[at..][..3], [0x0F, 0xAE, 0xE8]);
    }
}
