// A guest of seven instructions under KVM on arm64: it asks for the version of PSCI (a hypercall that the kernel
// answers), stores the answer to an address without memory (an exit to this program), and switches itself off.
#include <fcntl.h>
#include <linux/kvm.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define MEMORY 0x40000000ull
#define DEVICE 0x09000000ull
#define SIZE 0x10000ul

static const unsigned guest[] = {
    0xd2b08000, // mov x0, #0x84000000: PSCI_VERSION, Arm DEN 0022
    0xd4000002, // hvc #0
    0xd2a12001, // mov x1, #0x09000000: DEVICE
    0xb9000020, // str w0, [x1]
    0xd2b08000, // mov x0, #0x84000000
    0x91002000, // add x0, x0, #8: SYSTEM_OFF
    0xd4000002, // hvc #0
};

static int call(int fd, unsigned long request, void *argument, const char *name) {
    int answer = ioctl(fd, request, argument);
    if (answer < 0) {
        perror(name);
        exit(1);
    }
    return answer;
}

int main(void) {
    int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
    if (kvm < 0) {
        perror("/dev/kvm");
        return 1;
    }
    int vm = call(kvm, KVM_CREATE_VM, 0, "KVM_CREATE_VM");
    void *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, guest, sizeof guest);
    __builtin___clear_cache(memory, (char *)memory + SIZE);
    struct kvm_userspace_memory_region region = {
        .guest_phys_addr = MEMORY, .memory_size = SIZE, .userspace_addr = (unsigned long)memory};
    call(vm, KVM_SET_USER_MEMORY_REGION, &region, "KVM_SET_USER_MEMORY_REGION");
    int vcpu = call(vm, KVM_CREATE_VCPU, 0, "KVM_CREATE_VCPU");
    struct kvm_vcpu_init init;
    call(vm, KVM_ARM_PREFERRED_TARGET, &init, "KVM_ARM_PREFERRED_TARGET");
    init.features[0] |= 1u << KVM_ARM_VCPU_PSCI_0_2;
    call(vcpu, KVM_ARM_VCPU_INIT, &init, "KVM_ARM_VCPU_INIT");
    unsigned long long pc = MEMORY;
    struct kvm_one_reg reg = {.id = KVM_REG_ARM64 | KVM_REG_SIZE_U64 | KVM_REG_ARM_CORE |
                                    KVM_REG_ARM_CORE_REG(regs.pc),
                              .addr = (unsigned long)&pc};
    call(vcpu, KVM_SET_ONE_REG, &reg, "KVM_SET_ONE_REG");
    struct kvm_run *run = mmap(0, call(kvm, KVM_GET_VCPU_MMAP_SIZE, 0, "KVM_GET_VCPU_MMAP_SIZE"),
                               PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
    for (;;) {
        call(vcpu, KVM_RUN, 0, "KVM_RUN");
        if (run->exit_reason == KVM_EXIT_MMIO && run->mmio.is_write && run->mmio.phys_addr == DEVICE) {
            unsigned version;
            memcpy(&version, run->mmio.data, sizeof version);
            printf("PSCI %u.%u\n", version >> 16, version & 0xffff);
        } else if (run->exit_reason == KVM_EXIT_SYSTEM_EVENT) {
            printf("off\n");
            return 0;
        } else {
            printf("exit %u\n", run->exit_reason);
            return 1;
        }
    }
}
