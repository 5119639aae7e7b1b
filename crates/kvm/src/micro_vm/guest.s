// The guest's programs, in 64-bit mode without an operating system. Copied into the guest, so all jumps are relative.
//
// At entry: rdi samples to take, rsi where they go, r8 and r9 the program's own parameters; interrupts are off.
// The interrupt handler leaves the TSC of its beginning in r14 where that is zero, those around its end of interrupt in
// r12 and r13, and changes nothing else. An interrupt that nothing caused, or one that is delivered twice, also where
// interrupts are off, as QEMU's emulated SVM does now and then, is no event: a program that waits looks whether its own
// has been. The host sends such an interrupt to a guest that gets no further: one that was interrupted between STI and HLT
// would halt for ever.
// Labels are 2 and up: the assembler reads 0b and 1b as numbers.

// The TSC when all before is done, before anything after begins. Changes rax and rdx.
.macro STAMP register
    lfence
    rdtsc
    lfence
    shl rdx, 32
    or rax, rdx
    mov \register, rax
.endm

// Writes a 32-bit value to an MSR of the x2APIC. Changes rax, rcx, rdx.
.macro X2APIC number, value
    mov ecx, \number
    mov eax, \value
    xor edx, edx
    wrmsr
.endm

// Waits on, from label 7, where the interrupt was not that of the event: it was handled at r14.
.macro WAIT_ON
    xor r14d, r14d
    jmp 7b
8:
.endm

// Where the event of this number (rbx) has not been caused.
.macro UNLESS_CAUSED
    cmp qword ptr [{ANSWER}], rbx
    jae 8f
    WAIT_ON
.endm

// Where the handler began before the cause, at r10.
.macro UNLESS_AFTER_R10
    cmp r14, r10
    jae 8f
    WAIT_ON
.endm

// Where the handler began before the deadline, at r10, which still lies ahead by the timer.
.macro UNLESS_TIMER
    cmp r14, r10
    jae 8f
    mov ecx, 0x6E0
    rdmsr
    or eax, edx
    jz 8f
    WAIT_ON
.endm

// Tells that the guest waits for the event of this number (rbx), and since when.
.macro PUBLISH
    inc rbx
    xor r14d, r14d
    STAMP rax
    mov qword ptr [{READY_STAMP}], rax
    mov qword ptr [{READY}], rbx
.endm

.macro SPIN
    sti
4:
    test r14, r14
    jz 4b
    cli
.endm

// STI holds interrupts back until HLT has begun.
.macro HALT
5:
    sti
    hlt
    cli
    test r14, r14
    jz 5b
.endm

// Spins for r8 ticks. Changes rax, rdx, r11.
.macro DELAY
    STAMP r11
    add r11, r8
6:
    STAMP rax
    cmp rax, r11
    jb 6b
.endm

.macro STORE register
    mov qword ptr [rsi], \register
    add rsi, 8
.endm

.macro AGAIN
    dec rdi
    jnz 2b
    jmp done
.endm

// Times one operation, again and again.
.macro TIMED operation
2:
    STAMP r10
    \operation
    STAMP r11
    sub r11, r10
    STORE r11
    AGAIN
.endm

.macro NOTHING
.endm
.macro CPUID_LEAF_0
    xor eax, eax
    cpuid
.endm
// KVM_HC_VAPIC_POLL_IRQ: the kernel does nothing and answers.
.macro VMCALL
    mov eax, 1
    vmcall
.endm
.macro VMMCALL
    mov eax, 1
    vmmcall
.endm
.macro IN_USER
    mov dx, {PORT_USER}
    in eax, dx
.endm
.macro OUT_USER
    mov dx, {PORT_USER}
    out dx, eax
.endm
.macro OUT_EVENT
    mov dx, {PORT_EVENT}
    out dx, eax
.endm
.macro WRITE_R8
    mov dword ptr [r8], eax
.endm
.macro READ_R8
    mov eax, dword ptr [r8]
.endm
// A store to the next page: r8 is the page, r9 its size.
.macro TOUCH
    mov byte ptr [r8], 1
    add r8, r9
.endm

.pushsection .rodata.tautline_kvm_guest, "a"
.balign 16
.globl tautline_kvm_guest_begin
.globl tautline_kvm_guest_end
tautline_kvm_guest_begin:
    // In the order of the enum Program.
    .long initialize - tautline_kvm_guest_begin
    .long stamps - tautline_kvm_guest_begin
    .long cpuid_leaf_0 - tautline_kvm_guest_begin
    .long vm_call - tautline_kvm_guest_begin
    .long vmm_call - tautline_kvm_guest_begin
    .long in_user - tautline_kvm_guest_begin
    .long out_user - tautline_kvm_guest_begin
    .long out_event - tautline_kvm_guest_begin
    .long write_r8 - tautline_kvm_guest_begin
    .long read_r8 - tautline_kvm_guest_begin
    .long touch - tautline_kvm_guest_begin
    .long self_ipi - tautline_kvm_guest_begin
    .long wait_spinning - tautline_kvm_guest_begin
    .long wait_halted - tautline_kvm_guest_begin
    .long send_ipi - tautline_kvm_guest_begin
    .long timer_spinning - tautline_kvm_guest_begin
    .long timer_halted - tautline_kvm_guest_begin
    .long signal_out - tautline_kvm_guest_begin
    .long exchange - tautline_kvm_guest_begin
    .long spin - tautline_kvm_guest_begin
    .long interrupt - tautline_kvm_guest_begin
    .long fault - tautline_kvm_guest_begin

// The APIC on (SVR), no priority masked (TPR), its timer by TSC deadline.
initialize:
    X2APIC 0x80F, 0x1FF
    X2APIC 0x808, 0
    X2APIC 0x832, {TIMER}
done:
    mov dx, {PORT_DONE}
    out dx, al
    jmp done

stamps:
    TIMED NOTHING
cpuid_leaf_0:
    TIMED CPUID_LEAF_0
vm_call:
    TIMED VMCALL
vmm_call:
    TIMED VMMCALL
in_user:
    TIMED IN_USER
out_user:
    TIMED OUT_USER
out_event:
    TIMED OUT_EVENT
write_r8:
    TIMED WRITE_R8
read_r8:
    TIMED READ_R8
touch:
    TIMED TOUCH

// For r8 ticks.
spin:
    DELAY
    jmp done

// From the write of the self-IPI register to the handler; in the second array the end of interrupt.
self_ipi:
2:
    xor r14d, r14d
    STAMP r10
    X2APIC 0x83F, {VECTOR}
7:
    SPIN
    UNLESS_AFTER_R10
    sub r14, r10
    sub r13, r12
    mov qword ptr [rsi + {SECOND}], r13
    STORE r14
    AGAIN

// When the handler began, for events that come from elsewhere.
wait_spinning:
    xor ebx, ebx
2:
    PUBLISH
7:
    SPIN
    UNLESS_CAUSED
    STORE r14
    AGAIN
wait_halted:
    xor ebx, ebx
2:
    PUBLISH
7:
    HALT
    UNLESS_CAUSED
    STORE r14
    AGAIN

// When an IPI was sent to the CPU whose APIC has the number r9, r8 ticks after it was ready.
send_ipi:
    xor ebx, ebx
2:
    inc rbx
3:
    cmp qword ptr [{READY}], rbx
    jne 3b
    DELAY
    // Seen by the target before the interrupt: an x2APIC's register is written without waiting for stores.
    mov qword ptr [{ANSWER}], rbx
    mfence
    STAMP r10
    STORE r10
    mov ecx, 0x830
    mov eax, {IPI}
    mov edx, r9d
    wrmsr
    AGAIN

// Tells how far the guest has come.
.macro COUNT
    inc rbx
    mov qword ptr [{READY}], rbx
.endm

// From a deadline that is r8 ticks ahead to the handler.
.macro ARM
    xor r14d, r14d
    STAMP r10
    add r10, r8
    mov rax, r10
    mov rdx, r10
    shr rdx, 32
    mov ecx, 0x6E0
    wrmsr
.endm
timer_spinning:
    xor ebx, ebx
2:
    COUNT
    ARM
7:
    SPIN
    UNLESS_TIMER
    sub r14, r10
    STORE r14
    AGAIN
timer_halted:
    xor ebx, ebx
2:
    COUNT
    ARM
7:
    HALT
    UNLESS_TIMER
    sub r14, r10
    STORE r14
    AGAIN

// When an ioeventfd was written to, r8 ticks after the host has answered the last.
signal_out:
    xor ebx, ebx
2:
    inc rbx
    DELAY
    STAMP r10
    STORE r10
    OUT_EVENT
3:
    cmp qword ptr [{ANSWER}], rbx
    jne 3b
    AGAIN

// A stamp between two of the host's.
exchange:
    xor ebx, ebx
2:
    lea rcx, [rbx + 1]
3:
    cmp qword ptr [{ANSWER}], rcx
    jne 3b
    PUBLISH
    AGAIN

interrupt:
    push rax
    push rdx
    STAMP rax
    test r14, r14
    cmovz r14, rax
    push rcx
    STAMP r12
    X2APIC 0x80B, 0
    STAMP r13
    pop rcx
    pop rdx
    pop rax
    iretq

fault:
    mov dx, {PORT_FAULT}
    out dx, al
    jmp fault
tautline_kvm_guest_end:
.popsection
