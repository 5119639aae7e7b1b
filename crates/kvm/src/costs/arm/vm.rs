//! The machine: two CPUs at EL1 without MMU, KVM's GICv3, no devices and no operating system.

use std::sync::Arc;

use kvm_bindings::{
    KVM_ARM_VCPU_PSCI_0_2, KVM_ARM_VCPU_PVTIME_CTRL, KVM_ARM_VCPU_PVTIME_IPA, KVM_DEV_ARM_VGIC_CTRL_INIT,
    KVM_DEV_ARM_VGIC_GRP_ADDR, KVM_DEV_ARM_VGIC_GRP_CTRL, KVM_REG_ARM_CORE, KVM_REG_ARM64, KVM_REG_SIZE_U64,
    KVM_VGIC_V3_ADDR_TYPE_DIST, KVM_VGIC_V3_ADDR_TYPE_REDIST, kvm_create_device, kvm_device_attr,
    kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3, kvm_vcpu_init,
};
use kvm_ioctls::{DeviceFd, IoEventAddress, Kvm, NoDatamatch, VcpuExit, VcpuFd, VmFd};
use measure::Failure;
use vmm_sys_util::eventfd::EventFd;

use super::counter;
use super::layout::{
    ANSWER, CODE, DISTRIBUTOR, DONE, EVENT, FAULT, FRESH, MEMORY, REDISTRIBUTOR, SAMPLES, USER,
};
use super::program::{self, Program};
use crate::costs::settings::pin;
use crate::costs::turns::AtExit;
use crate::doorbell::Doorbell;
use crate::failed::{SEE_LOG, complete, failed};
use crate::memory::{Attached, HUGE, Memory, Pages};

/// A virtual machine with its CPUs.
pub struct Machine {
    vm: Arc<VmFd>,
    pub(super) vcpus: [VcpuFd; 2],
    pub(super) memory: Attached,
    /// The interrupt controller, which must exist as long as the CPUs can run.
    _gic: DeviceFd,
    /// The eventfd that raises SPI 32, which goes to the first CPU.
    pub(super) irqfd: EventFd,
    /// The ioeventfd for stores to [`EVENT`].
    pub(super) ioeventfd: Doorbell,
}

impl Machine {
    /// Makes the machine.
    ///
    /// # Errors
    /// `/dev/kvm` cannot be opened, KVM refuses an ioctl (the host has no GICv3), there is no memory, or a CPU does
    /// not end its first program.
    pub fn new() -> Result<Self, Failure> {
        let kvm = Kvm::new().map_err(|error| {
            let remedy = "boot the host at EL2, enable CONFIG_KVM, and join the group that owns /dev/kvm";
            Failure::new("opening /dev/kvm", error, remedy)
        })?;
        let vm = Arc::new(kvm.create_vm().map_err(failed("KVM_CREATE_VM"))?);
        let memory = Memory::new(CODE, MEMORY, Pages::Small)?.attach(&vm, 0, 0)?;
        memory.write(CODE, program::code());
        let mut target = kvm_vcpu_init::default();
        vm.get_preferred_target(&mut target).map_err(failed("KVM_ARM_PREFERRED_TARGET"))?;
        target.features[0] |= 1 << KVM_ARM_VCPU_PSCI_0_2;
        let vcpu = |number| {
            let vcpu = vm.create_vcpu(number).map_err(failed("KVM_CREATE_VCPU"))?;
            vcpu.vcpu_init(&target).map_err(failed("KVM_ARM_VCPU_INIT"))?;
            Ok(vcpu)
        };
        let vcpus = [vcpu(0)?, vcpu(1)?];
        let mut device =
            kvm_create_device { type_: kvm_device_type_KVM_DEV_TYPE_ARM_VGIC_V3, fd: 0, flags: 0 };
        let gic = vm.create_device(&mut device).map_err(failed("KVM_CREATE_DEVICE of a GICv3"))?;
        for (kind, address) in
            [(KVM_VGIC_V3_ADDR_TYPE_DIST, DISTRIBUTOR), (KVM_VGIC_V3_ADDR_TYPE_REDIST, REDISTRIBUTOR)]
        {
            let attribute = kvm_device_attr {
                group: KVM_DEV_ARM_VGIC_GRP_ADDR,
                attr: kind.into(),
                addr: (&raw const address).addr() as u64,
                flags: 0,
            };
            gic.set_device_attr(&attribute).map_err(failed("KVM_SET_DEVICE_ATTR with a GIC's address"))?;
        }
        let init = kvm_device_attr {
            group: KVM_DEV_ARM_VGIC_GRP_CTRL,
            attr: KVM_DEV_ARM_VGIC_CTRL_INIT.into(),
            addr: 0,
            flags: 0,
        };
        gic.set_device_attr(&init).map_err(failed("KVM_SET_DEVICE_ATTR with KVM_DEV_ARM_VGIC_CTRL_INIT"))?;
        let event =
            || EventFd::new(0).map_err(|error| Failure::new("making an eventfd", error, "close open files"));
        let (irqfd, ioeventfd) = (event()?, Doorbell::new(event()?));
        // KVM's default routing: the interrupt number 0 is SPI 32.
        vm.register_irqfd(&irqfd, 0).map_err(failed("KVM_IRQFD"))?;
        vm.register_ioevent(ioeventfd.event(), &IoEventAddress::Mmio(EVENT), NoDatamatch)
            .map_err(failed("KVM_IOEVENTFD"))?;
        let mut machine = Self { vm, vcpus, memory, _gic: gic, irqfd, ioeventfd };
        machine.vcpus.iter_mut().try_for_each(|vcpu| execute(vcpu, Program::Initialize, 0, CODE))?;
        Ok(machine)
    }

    /// Makes the guest's counter equal to the host's.
    ///
    /// # Errors
    /// The kernel lacks KVM_ARM_SET_COUNTER_OFFSET (before Linux 6.4).
    pub fn share_counter(&self) -> Result<(), Failure> {
        counter::share(&self.vm)
    }

    /// Makes KVM write the CPU's steal time to memory, in the structure of Arm DEN 0057, each time that a thread enters
    /// the CPU.
    ///
    /// # Errors
    /// KVM refuses the address: it is no multiple of 64, or the kernel counts no time in which threads wait.
    pub fn tell_steal_time(&self, address: u64) -> Result<(), Failure> {
        let attribute = kvm_device_attr {
            group: KVM_ARM_VCPU_PVTIME_CTRL,
            attr: KVM_ARM_VCPU_PVTIME_IPA.into(),
            addr: (&raw const address).addr() as u64,
            flags: 0,
        };
        self.vcpus[0]
            .set_device_attr(&attribute)
            .map_err(failed("KVM_SET_DEVICE_ATTR with KVM_ARM_VCPU_PVTIME_IPA"))
    }

    /// The steal time that KVM wrote there, in ns: the second word of the structure.
    pub fn stolen_ns(&self, address: u64) -> u64 {
        self.memory.load(address + 8)
    }

    /// Runs a program of the guest until it ends, and returns its samples and its second samples, in ticks.
    ///
    /// # Errors
    /// The causes of [`Machine::execute`].
    pub fn run(&mut self, program: Program, samples: usize, first: u64) -> Result<[Vec<u64>; 2], Failure> {
        self.execute(program, samples, first)?;
        Ok(SAMPLES.map(|place| self.memory.words(place, samples)))
    }

    /// The first store to each page of memory that the guest has not accessed, in ticks.
    ///
    /// # Errors
    /// The memory cannot be mapped or given to KVM, the kernel backs fewer pages of 2 MiB than were accessed, or the
    /// causes of [`Machine::execute`].
    pub fn touch(&mut self, samples: usize, pages: Pages) -> Result<Vec<u64>, Failure> {
        let (program, bytes) = match pages {
            Pages::Small => (Program::Touch, 4096),
            Pages::Huge => (Program::TouchLarge, HUGE),
        };
        let fresh = Memory::new(FRESH, samples * bytes, pages)?.attach(&self.vm, 1, 0)?;
        let [touched, _] = self.run(program, samples, FRESH)?;
        let huge = fresh.huge_bytes() / HUGE;
        if pages == Pages::Huge && huge < samples {
            let remedy = "set /sys/kernel/mm/transparent_hugepage/enabled to madvise, and free memory";
            let tried = format!("touching {samples} fresh pages of 2 MiB");
            return Err(Failure::new(tried, format!("the kernel gave {huge} of them"), remedy));
        }
        Ok(touched)
    }

    /// SGIs to the second CPU, which waits for them on this CPU of the host, in a loop or halted, in ticks until its
    /// handler.
    ///
    /// # Errors
    /// There is no such CPU, or the causes of [`Machine::execute`].
    pub fn interrupt_other(
        &mut self,
        [send, answer]: [Program; 2],
        samples: usize,
        cpu: usize,
    ) -> Result<Vec<u64>, Failure> {
        let [first, second] = &mut self.vcpus;
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                pin(cpu)?;
                execute(second, answer, samples, ANSWER)
            });
            let sent = execute(first, send, samples, ANSWER);
            sent.and(other.join().expect("it does not panic"))
        })?;
        Ok(self.memory.words(SAMPLES[0], samples))
    }

    /// Runs a program of the guest on its first CPU until it ends.
    ///
    /// # Errors
    /// KVM refuses the registers; the guest causes an exception or an exit that its program does not make; or KVM_RUN
    /// fails.
    pub fn execute(&mut self, program: Program, samples: usize, first: u64) -> Result<(), Failure> {
        execute(&mut self.vcpus[0], program, samples, first)
    }

    /// Runs a program of stores that this process handles, and calls `at_exit` at each.
    ///
    /// # Errors
    /// `at_exit` fails, or the causes of [`Machine::execute`].
    pub fn write(&mut self, stores: usize, at_exit: AtExit<'_>) -> Result<(), Failure> {
        execute_with(&mut self.vcpus[0], Program::Write, stores, USER, at_exit)
    }
}

/// Runs a program of the guest on a CPU until it ends.
///
/// # Errors
/// The causes of [`Machine::execute`].
pub fn execute(vcpu: &mut VcpuFd, program: Program, samples: usize, first: u64) -> Result<(), Failure> {
    execute_with(vcpu, program, samples, first, &mut || Ok(()))
}

fn execute_with(
    vcpu: &mut VcpuFd,
    program: Program,
    samples: usize,
    first: u64,
    at_exit: AtExit<'_>,
) -> Result<(), Failure> {
    // Numbers of registers in `struct kvm_regs`: x19 to x22, pc.
    let values = [(19, samples as u64), (20, SAMPLES[0]), (21, first), (22, SAMPLES[1])];
    for (number, value) in values.into_iter().chain([(32, program::entry(program))]) {
        // An index counts words of 32 bits (Documentation/virt/kvm/api.rst, KVM_SET_ONE_REG).
        let id = KVM_REG_ARM64 | KVM_REG_SIZE_U64 | u64::from(KVM_REG_ARM_CORE) | number * 2;
        vcpu.set_one_reg(id, &value.to_le_bytes()).map_err(failed("KVM_SET_ONE_REG"))?;
    }
    let refused = |answer: String| {
        Failure::new(format!("running {program:?} of the guest with KVM_RUN"), answer, SEE_LOG)
    };
    loop {
        match vcpu.run() {
            Ok(VcpuExit::MmioWrite(DONE, _)) => break,
            Ok(VcpuExit::MmioWrite(USER, _)) => at_exit()?,
            Ok(VcpuExit::MmioWrite(FAULT, data)) => {
                return Err(refused(format!("an exception in the guest, ESR_EL1 {data:x?}")));
            }
            Ok(exit) => return Err(refused(format!("it ended with the exit {exit:?}"))),
            Err(error) if [libc::EINTR, libc::EAGAIN].contains(&error.errno()) => {}
            Err(error) => return Err(refused(error.to_string())),
        }
    }
    complete(vcpu)
}
