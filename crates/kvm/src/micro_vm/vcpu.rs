//! One virtual CPU.

use std::sync::Arc;

use kvm_bindings::{
    CpuId, KVM_MP_STATE_RUNNABLE, Msrs, kvm_mp_state, kvm_msr_entry, kvm_regs, kvm_segment, kvm_sregs,
};
use kvm_ioctls::{VcpuExit, VcpuFd, VmFd};
use measure::Failure;

use super::program::{self, Program};
use super::stop::Stop;
use super::{layout, tsc_offset};
use crate::failed::{SEE_LOG, complete, failed};
use crate::memory::Attached;

/// The arguments of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arguments {
    /// How many samples to take.
    pub samples: usize,
    /// The program's first parameter.
    pub first: u64,
    /// The program's second parameter.
    pub second: u64,
}

/// A virtual CPU that can run a program.
pub struct Vcpu {
    number: usize,
    vcpu: VcpuFd,
    /// Can end a program that does not end by itself.
    stop: Arc<Stop>,
    /// The guest's memory, which must exist as long as the guest can run.
    _memory: Arc<Attached>,
}

impl Vcpu {
    pub(super) fn new(
        vm: &VmFd,
        memory: Arc<Attached>,
        number: usize,
        cpuid: &CpuId,
        stop: Arc<Stop>,
    ) -> Result<Self, Failure> {
        let vcpu = vm.create_vcpu(number as u64).map_err(failed("KVM_CREATE_VCPU"))?;
        vcpu.set_cpuid2(cpuid).map_err(failed("KVM_SET_CPUID2"))?;
        let mut registers = vcpu.get_sregs().map_err(failed("KVM_GET_SREGS"))?;
        enter_long_mode(&mut registers, number);
        vcpu.set_sregs(&registers).map_err(failed("KVM_SET_SREGS"))?;
        // All but the first would wait for a start-up interrupt.
        let state = kvm_mp_state { mp_state: KVM_MP_STATE_RUNNABLE };
        vcpu.set_mp_state(state).map_err(failed("KVM_SET_MP_STATE"))?;
        // If the kernel is too old for this, the exchanges of stamps find the offset.
        let _ = tsc_offset::remove(&vcpu);
        let mut vcpu = Self { number, vcpu, stop, _memory: memory };
        vcpu.run(Program::Initialize, Arguments::default())?;
        Ok(vcpu)
    }

    /// The frequency of the guest's TSC, in kHz.
    ///
    /// # Errors
    /// KVM refuses KVM_GET_TSC_KHZ.
    pub fn tsc_khz(&self) -> Result<u32, Failure> {
        self.vcpu.get_tsc_khz().map_err(failed("KVM_GET_TSC_KHZ"))
    }

    /// Makes KVM write the CPU's steal time to this address, a multiple of 64, in ns: when a thread enters it next, the
    /// time in which the thread was ready and did not run (MSR_KVM_STEAL_TIME).
    ///
    /// # Errors
    /// KVM refuses the register: the kernel counts no time in which threads wait.
    pub fn tell_steal_time(&self, address: u64) -> Result<(), Failure> {
        const STEAL_TIME: u32 = 0x4b56_4d03;
        const ENABLED: u64 = 1;
        let entry = kvm_msr_entry { index: STEAL_TIME, data: address | ENABLED, ..Default::default() };
        let list = Msrs::from_entries(&[entry]).expect("one entry is not too many");
        match self.vcpu.set_msrs(&list).map_err(failed("KVM_SET_MSRS with MSR_KVM_STEAL_TIME"))? {
            1 => Ok(()),
            _ => Err(Failure::new("asking KVM for steal time", "it refuses MSR_KVM_STEAL_TIME", SEE_LOG)),
        }
    }

    /// Runs a program of the guest until it ends. There is no time limit; another thread can call [`Stop::end`].
    ///
    /// # Errors
    /// KVM refuses the registers; the guest causes an exception or an exit that its program does not make; KVM_RUN
    /// fails; or [`Stop::end`] ended the program.
    pub fn run(&mut self, program: Program, arguments: Arguments) -> Result<(), Failure> {
        self.run_with(program, arguments, &mut || Ok(()))
    }

    /// Runs a program as [`Vcpu::run`] does, and calls `at_exit` at each exit that this process handles.
    ///
    /// # Errors
    /// `at_exit` fails, or the causes of [`Vcpu::run`].
    pub fn run_with(
        &mut self,
        program: Program,
        arguments: Arguments,
        at_exit: &mut dyn FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let registers = kvm_regs {
            rip: program::entry(program),
            rsp: layout::stack(self.number),
            rflags: 2,
            rdi: arguments.samples as u64,
            rsi: layout::SAMPLES[self.number],
            r8: arguments.first,
            r9: arguments.second,
            ..Default::default()
        };
        self.vcpu.set_regs(&registers).map_err(failed("KVM_SET_REGS"))?;
        let refused = |answer: String| {
            let remedy = "measure on a machine whose KVM runs unmodified guests (VMX or SVM)";
            Failure::new(format!("running {program:?} of the guest with KVM_RUN"), answer, remedy)
        };
        let stop = self.stop.clone();
        let _stoppable = stop.stoppable();
        loop {
            match self.vcpu.run() {
                Ok(VcpuExit::IoOut(layout::PORT_DONE, _)) => return complete(&mut self.vcpu),
                Ok(VcpuExit::IoOut(layout::PORT_USER, _) | VcpuExit::IoIn(layout::PORT_USER, _)) => {
                    at_exit()?
                }
                Ok(VcpuExit::MmioWrite(layout::MMIO_USER, _)) => at_exit()?,
                Ok(VcpuExit::IoOut(layout::PORT_FAULT, _)) => {
                    return Err(refused(format!("an exception in the guest{}", self.place())));
                }
                Ok(exit) => {
                    let exit = format!("{exit:?}");
                    return Err(refused(format!("it ended with the exit {exit}{}", self.place())));
                }
                Err(error) if [libc::EINTR, libc::EAGAIN].contains(&error.errno()) && !stop.is_wanted() => {}
                Err(error) => return Err(refused(format!("{error}{}", self.place()))),
            }
        }
    }

    /// The position of the guest, for an error's text.
    fn place(&self) -> String {
        self.vcpu.get_regs().map(|registers| format!(" at {:#x}", registers.rip)).unwrap_or_default()
    }
}

/// Paging, 64-bit segments, the interrupt table, an x2APIC: as an operating system would leave them.
fn enter_long_mode(registers: &mut kvm_sregs, number: usize) {
    // Protection, extension type, numeric errors, write protection, paging.
    const CR0: u64 = 1 | 1 << 4 | 1 << 5 | 1 << 16 | 1 << 31;
    const CR4_PHYSICAL_ADDRESS_EXTENSION: u64 = 1 << 5;
    // Long mode enabled and active.
    const EFER: u64 = 1 << 8 | 1 << 10;
    const APIC_ON_X2APIC: u64 = 1 << 11 | 1 << 10;
    const FIRST_CPU: u64 = 1 << 8;
    let code = kvm_segment {
        limit: u32::MAX,
        selector: layout::CODE_SELECTOR,
        type_: 11,
        present: 1,
        s: 1,
        l: 1,
        g: 1,
        ..Default::default()
    };
    let data = kvm_segment { selector: layout::DATA_SELECTOR, type_: 3, l: 0, db: 1, ..code };
    registers.cs = code;
    for segment in
        [&mut registers.ds, &mut registers.es, &mut registers.fs, &mut registers.gs, &mut registers.ss]
    {
        *segment = data;
    }
    (registers.gdt.base, registers.gdt.limit) = layout::gdt();
    (registers.idt.base, registers.idt.limit) = layout::idt();
    registers.cr0 = CR0;
    registers.cr3 = layout::page_table();
    registers.cr4 = CR4_PHYSICAL_ADDRESS_EXTENSION;
    registers.efer = EFER;
    registers.apic_base = 0xFEE0_0000 | APIC_ON_X2APIC | if number == 0 { FIRST_CPU } else { 0 };
}
