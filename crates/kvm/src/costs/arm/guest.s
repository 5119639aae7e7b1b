// Programs of the arm64 guest: EL1, no MMU, two CPUs. Each takes x19 = samples, x20 = where they go, x21 = an address or
// a number of ticks, x22 = where second samples go. Each ends with a store to {DONE}.

.macro stamp register
    isb
    mrs \register, cntvct_el0
.endm

// Stores the ticks from x3 to x4, and begins the next sample or ends.
.macro sample again
    sub x5, x4, x3
    str x5, [x20], #8
    subs x19, x19, #1
    b.ne \again
    b tautline_arm_done
.endm

// The end of patience with the other CPU, in x7: eight seconds from now.
.macro limit
    mrs x7, cntfrq_el0
    mrs x8, cntvct_el0
    add x7, x8, x7, lsl #3
.endm

// Reports a fault if patience has ended.
.macro patience
    mrs x8, cntvct_el0
    cmp x8, x7
    b.hi tautline_arm_fault
.endm

// SGI 1 to CPU 1, from the store to the system register to the stamp of its handler, which it stores to x21. YIELD lets an
// emulator that runs CPUs in turns run the other CPU. Then the next sample, or the end.
.macro interrupt_other again
    mov x6, #2                      // ICC_SGI1R_EL1: target 1
    movk x6, #0x0100, lsl #16       // INTID 1
    str xzr, [x21]
    limit
    dsb sy
    stamp x3
    msr S3_0_C12_C11_5, x6
.Lother\@:
    yield
    patience
    ldr x4, [x21]
    cbz x4, .Lother\@
    sample \again
.endm

// The virtual timer (PPI 27) in so many ticks.
.macro set_timer ticks
    msr daifset, #2
    mov x24, #0
    mrs x3, cntvct_el0
    add x3, x3, \ticks
    msr cntv_cval_el0, x3
    mov x5, #1
    msr cntv_ctl_el0, x5
    isb
.endm

// WFI until an interrupt was handled. WFI ends at a masked interrupt too: one that came before a WFI with interrupts on
// would be handled before it, and the guest would wait for ever.
.macro halt
.Lhalt\@:
    wfi
    msr daifclr, #2
    isb
    msr daifset, #2
    cbz x24, .Lhalt\@
.endm

.pushsection .rodata.tautline_arm_guest, "a"
.balign 2048
.global tautline_arm_begin
tautline_arm_begin:
// The vector table: 16 entries of 128 bytes (Arm ARM D1.3). An interrupt of the current level is the only expected one.
.rept 5
    b tautline_arm_fault
    .balign 128
.endr
    b tautline_arm_interrupt
    .balign 128
.rept 10
    b tautline_arm_fault
    .balign 128
.endr

// The table of programs, as offsets from the beginning.
.global tautline_arm_table
tautline_arm_table:
    .word tautline_arm_initialize - tautline_arm_begin
    .word tautline_arm_stamps - tautline_arm_begin
    .word tautline_arm_hypercall - tautline_arm_begin
    .word tautline_arm_read - tautline_arm_begin
    .word tautline_arm_write - tautline_arm_begin
    .word tautline_arm_self - tautline_arm_begin
    .word tautline_arm_timer - tautline_arm_begin
    .word tautline_arm_identify - tautline_arm_begin
    .word tautline_arm_touch - tautline_arm_begin
    .word tautline_arm_other - tautline_arm_begin
    .word tautline_arm_answer - tautline_arm_begin
    .word tautline_arm_out - tautline_arm_begin
    .word tautline_arm_touch_large - tautline_arm_begin
    .word tautline_arm_wake - tautline_arm_begin
    .word tautline_arm_answer_halted - tautline_arm_begin
    .word tautline_arm_timer_spinning - tautline_arm_begin
    .word tautline_arm_spin - tautline_arm_begin

// x21 = the address of the vector table. Interrupts of group 1, of all priorities.
tautline_arm_initialize:
    msr vbar_el1, x21
    mov x1, #{DISTRIBUTOR}
    mov w2, #2                      // GICD_CTLR.EnableGrp1
    str w2, [x1]
    mov w2, #-1
    str w2, [x1, #0x84]             // GICD_IGROUPR1: SPIs 32 to 63 of group 1
    mov w2, #2
    str w2, [x1, #0xc08]            // GICD_ICFGR2: SPI 32 by its edge
    str xzr, [x1, #0x6100]          // GICD_IROUTER32: to CPU 0
    mov w2, #1
    str w2, [x1, #0x104]            // GICD_ISENABLER1: SPI 32
    mov x1, #{REDISTRIBUTOR}
    mrs x2, mpidr_el1
    and x2, x2, #0xff
    add x1, x1, x2, lsl #17         // that of this CPU
    str wzr, [x1, #0x14]            // GICR_WAKER: awake
    add x1, x1, #0x10000            // the frame of SGIs and PPIs
    mov w2, #-1
    str w2, [x1, #0x80]             // GICR_IGROUPR0: all of group 1
    mov w2, #({ENABLED} & 0xffff)
    movk w2, #({ENABLED} >> 16), lsl #16
    str w2, [x1, #0x100]            // GICR_ISENABLER0
    mov x2, #1
    msr S3_0_C12_C12_5, x2          // ICC_SRE_EL1
    isb
    mov x2, #0xff
    msr S3_0_C4_C6_0, x2            // ICC_PMR_EL1
    mov x2, #1
    msr S3_0_C12_C12_7, x2          // ICC_IGRPEN1_EL1
    isb
tautline_arm_done:
    msr daifset, #2
    mov x1, #{DONE}
    str wzr, [x1]
tautline_arm_fault:
    mov x1, #{FAULT}
    mrs x2, esr_el1
    str w2, [x1]
    b tautline_arm_fault

tautline_arm_stamps:
    stamp x3
    stamp x4
    sample tautline_arm_stamps

// PSCI_VERSION, which KVM answers.
tautline_arm_hypercall:
    mov x0, #0x84000000
    stamp x23
    hvc #0
    stamp x4
    mov x3, x23
    sample tautline_arm_hypercall

tautline_arm_read:
    stamp x3
    ldr w5, [x21]
    stamp x4
    sample tautline_arm_read

tautline_arm_write:
    stamp x3
    str wzr, [x21]
    stamp x4
    sample tautline_arm_write

// A system register that KVM answers (HCR_EL2.TID3).
tautline_arm_identify:
    stamp x3
    mrs x5, id_aa64pfr0_el1
    stamp x4
    sample tautline_arm_identify

// The first store to each page of 4 KiB from x21 on, or of 2 MiB.
tautline_arm_touch:
    mov x9, #4096
    b 1f
tautline_arm_touch_large:
    mov x9, #0x200000
1:  stamp x3
    str xzr, [x21]
    stamp x4
    add x21, x21, x9
    sample 1b

// SGI 1 to this CPU, from the store to the system register to the handler; then the end of the interrupt.
tautline_arm_self:
    mov x6, #1                      // ICC_SGI1R_EL1: target 0
    movk x6, #0x0100, lsl #16       // INTID 1
    mov x24, #0
    msr daifclr, #2
    stamp x3
    msr S3_0_C12_C11_5, x6
1:  cbz x24, 1b
    mov x4, x24
    sub x5, x27, x26
    str x5, [x22], #8
    sample tautline_arm_self

// Interrupts to CPU 1, which waits in a loop; or, each after a millisecond in WFI, to CPU 1, which waits in WFI too: the
// kernel polls there for half of that at most (Linux's halt_poll_ns on arm64), and then lets its thread sleep.
tautline_arm_other:
    interrupt_other tautline_arm_other
tautline_arm_wake:
    mrs x9, cntfrq_el0
    lsr x9, x9, #10
    set_timer x9
    halt
    interrupt_other tautline_arm_wake

// A store to an ioeventfd, from it to the stamp of the thread that waits for it, which the thread stores to x21. The thread
// has a quarter of a millisecond to fall asleep before each.
tautline_arm_out:
    mov x10, #{EVENT}
    str xzr, [x21]
    mrs x7, cntfrq_el0
    mrs x8, cntvct_el0
    add x7, x8, x7, lsr #12
1:  yield
    mrs x8, cntvct_el0
    cmp x8, x7
    b.lo 1b
    limit
    dsb sy
    stamp x3
    str wzr, [x10]
2:  yield
    patience
    ldr x4, [x21]
    cbz x4, 2b
    sample tautline_arm_out

// Waits for as many interrupts, and stores the stamp of each to x21.
tautline_arm_answer:
    mov x24, #0
    msr daifclr, #2
    limit
1:  yield
    patience
    cbz x24, 1b
    mov x4, x24
    mov x24, #0
    str x4, [x21]
    limit
    subs x19, x19, #1
    b.ne 1b
    b tautline_arm_done

// Waits in WFI for as many interrupts, and stores the stamp of each to x21. The timer ends its patience.
tautline_arm_answer_halted:
    mrs x9, cntfrq_el0
    lsl x9, x9, #3                  // eight seconds
1:  set_timer x9
    halt
    cmp x25, #27
    b.eq tautline_arm_fault
    str x24, [x21]
    subs x19, x19, #1
    b.ne 1b
    b tautline_arm_done

// For x21 ticks.
tautline_arm_spin:
    stamp x3
1:  stamp x4
    sub x5, x4, x3
    cmp x5, x21
    b.lo 1b
    b tautline_arm_done

// The virtual timer in x21 ticks, from its time to the handler: in WFI until then, and in a loop.
tautline_arm_timer:
    set_timer x21
    halt
    mov x4, x24
    sample tautline_arm_timer
tautline_arm_timer_spinning:
    set_timer x21
    msr daifclr, #2
1:  cbz x24, 1b
    mov x4, x24
    sample tautline_arm_timer_spinning

// x24 = the stamp at its begin; x26 and x27 = stamps around the end of the interrupt.
tautline_arm_interrupt:
    stamp x24
    mrs x25, S3_0_C12_C12_0         // ICC_IAR1_EL1
    msr cntv_ctl_el0, xzr
    stamp x26
    msr S3_0_C12_C12_1, x25         // ICC_EOIR1_EL1
    stamp x27
    eret

.global tautline_arm_end
tautline_arm_end:
.popsection
