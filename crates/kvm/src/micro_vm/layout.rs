//! The layout of the guest's physical memory, and the tables that put a CPU into 64-bit mode. The guest's linear
//! addresses equal its physical ones.

/// Size of the memory for everything except the pages of the fault rows.
pub const MEMORY: usize = 4 << 20;
/// A page through which guest and host communicate.
pub const CONTROL: u64 = 0xA000;
/// The word in which the guest counts how often it was ready for the next event.
pub const READY: u64 = CONTROL;
/// The guest's TSC just before it incremented that count.
pub const READY_STAMP: u64 = CONTROL + 0x40;
/// The word in which the host or the other CPU counts the events that it has answered or caused.
pub const ANSWER: u64 = CONTROL + 0x80;
/// Where KVM tells the guest its steal time: a multiple of 64 (Documentation/virt/kvm/x86/msr.rst).
pub const STEAL: u64 = CONTROL + 0x100;
/// The guest's programs.
pub const CODE: u64 = 0x1_0000;
/// The samples of each virtual CPU: two arrays, [`SECOND`] bytes apart.
pub const SAMPLES: [u64; 2] = [0x10_0000, 0x20_0000];
/// The distance from a program's first array of samples to its second.
pub const SECOND: u64 = 0x8_0000;
/// The most samples that an array holds.
pub const MOST_SAMPLES: usize = SECOND as usize / 8;
/// Memory that is mapped and accessed on demand.
pub const FRESH: u64 = 0x4000_0000;

/// A port; a write ends the program.
pub const PORT_DONE: u16 = 0x500;
/// A port; a write reports an exception.
pub const PORT_FAULT: u16 = 0x510;
/// A port that this process handles.
pub const PORT_USER: u16 = 0x520;
/// An ioeventfd.
pub const PORT_EVENT: u16 = 0x530;
/// An MMIO address that this process handles.
pub const MMIO_USER: u64 = 0x8000_0000;
/// An ioeventfd.
pub const MMIO_EVENT: u64 = 0x8000_1000;
/// The kernel's I/O APIC.
pub const IO_APIC: u64 = 0xFEC0_0000;

/// The one vector of all interrupts.
pub const VECTOR: u8 = 0x40;

const PML4: u64 = 0x1000;
const PDPT: u64 = 0x2000;
const DIRECTORIES: u64 = 0x3000;
const GDT: u64 = 0x8000;
const IDT: u64 = 0x9000;
/// The stacks grow down from here, one for each CPU.
const STACKS: [u64; 2] = [0x8_0000, 0x9_0000];
const GIB: u64 = 1 << 30;
const HUGE: u64 = 2 << 20;

/// The selector of the code segment.
pub const CODE_SELECTOR: u16 = 8;
/// The selector of the data segments.
pub const DATA_SELECTOR: u16 = 16;

/// The address of the page table.
pub const fn page_table() -> u64 {
    PML4
}

/// Address and limit of the segment table.
pub const fn gdt() -> (u64, u16) {
    (GDT, 3 * 8 - 1)
}

/// Address and limit of the interrupt table.
pub const fn idt() -> (u64, u16) {
    (IDT, 256 * 16 - 1)
}

/// The address at which a CPU's stack begins; it grows downwards.
pub const fn stack(cpu: usize) -> u64 {
    STACKS[cpu]
}

/// The tables, as pairs of address and bytes: 4 GiB mapped one to one in pages of 2 MiB, flat segments, and an
/// interrupt table with one handler for exceptions and one for interrupts.
pub fn tables(fault_handler: u64, interrupt_handler: u64) -> Vec<(u64, Vec<u8>)> {
    const PRESENT_WRITABLE: u64 = 0b11;
    const LARGE: u64 = 1 << 7;
    let bytes = |words: Vec<u64>| words.into_iter().flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
    let directory = |number: u64| DIRECTORIES + number * 0x1000;
    let mut all = vec![
        (PML4, bytes(vec![PDPT | PRESENT_WRITABLE])),
        (PDPT, bytes((0..4).map(|number| directory(number) | PRESENT_WRITABLE).collect())),
        // Null, code (long, executable, readable), data (writable).
        (GDT, bytes(vec![0, 0x00AF_9B00_0000_FFFF, 0x00CF_9300_0000_FFFF])),
    ];
    for number in 0..4 {
        let pages = (0..GIB / HUGE).map(|page| (number * GIB + page * HUGE) | PRESENT_WRITABLE | LARGE);
        all.push((directory(number), bytes(pages.collect())));
    }
    let gate = |vector: u64| gate(if vector < 32 { fault_handler } else { interrupt_handler });
    all.push((IDT, (0..256).flat_map(|vector| bytes(gate(vector).to_vec())).collect()));
    all
}

/// An interrupt gate of 64-bit mode (Intel SDM volume 3, 6.14.1).
fn gate(handler: u64) -> [u64; 2] {
    const INTERRUPT_GATE: u64 = 0x8E00;
    let low = handler & 0xFFFF
        | u64::from(CODE_SELECTOR) << 16
        | INTERRUPT_GATE << 32
        | (handler >> 16 & 0xFFFF) << 48;
    [low, handler >> 32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_do_not_overlap_each_other_or_what_else_is_there() {
        let mut areas: Vec<(u64, u64)> =
            tables(CODE, CODE).iter().map(|(at, bytes)| (*at, bytes.len() as u64)).collect();
        areas.extend([(CONTROL, 0x1000), (CODE, 0x4000)]);
        areas.extend(STACKS.map(|top| (top - 0x1000, 0x1000)));
        areas.extend(SAMPLES.map(|at| (at, 2 * SECOND)));
        areas.sort();
        for pair in areas.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?}");
        }
        assert!(areas.last().is_some_and(|(at, size)| at + size <= MEMORY as u64));
    }

    #[test]
    fn a_gate_holds_its_handler_in_three_parts() {
        let [low, high] = gate(0x1234_5678_9ABC_DEF0);
        assert_eq!((low & 0xFFFF, low >> 48, high), (0xDEF0, 0x9ABC, 0x1234_5678));
        assert_eq!((low >> 16 & 0xFFFF, low >> 32 & 0xFFFF), (u64::from(CODE_SELECTOR), 0x8E00));
    }

    #[test]
    fn the_page_table_maps_one_to_one() {
        let all = tables(0, 0);
        let last = &all.iter().find(|(at, _)| *at == DIRECTORIES + 3 * 0x1000).unwrap().1;
        let entry = u64::from_le_bytes(last[511 * 8..].try_into().unwrap());
        assert_eq!(entry & !0xFFF, 4 * GIB - HUGE);
    }
}
