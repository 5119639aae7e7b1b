//! Names of system calls.

/// The system calls on paths, on x86-64.
const X86: &[(u64, &str)] = &[
    (0, "read"),
    (1, "write"),
    (7, "poll"),
    (9, "mmap"),
    (10, "mprotect"),
    (11, "munmap"),
    (12, "brk"),
    (14, "rt_sigprocmask"),
    (16, "ioctl"),
    (17, "pread64"),
    (18, "pwrite64"),
    (19, "readv"),
    (20, "writev"),
    (44, "sendto"),
    (45, "recvfrom"),
    (46, "sendmsg"),
    (47, "recvmsg"),
    (62, "kill"),
    (128, "rt_sigtimedwait"),
    (202, "futex"),
    (208, "io_getevents"),
    (209, "io_submit"),
    (230, "clock_nanosleep"),
    (232, "epoll_wait"),
    (234, "tgkill"),
    (271, "ppoll"),
    (281, "epoll_pwait"),
    (295, "preadv"),
    (296, "pwritev"),
    (299, "recvmmsg"),
    (307, "sendmmsg"),
    (327, "preadv2"),
    (328, "pwritev2"),
    (426, "io_uring_enter"),
    (441, "epoll_pwait2"),
];
/// The system calls on paths, on arm64 (include/uapi/asm-generic/unistd.h).
const ARM64: &[(u64, &str)] = &[
    (2, "io_submit"),
    (4, "io_getevents"),
    (22, "epoll_pwait"),
    (29, "ioctl"),
    (63, "read"),
    (64, "write"),
    (65, "readv"),
    (66, "writev"),
    (67, "pread64"),
    (68, "pwrite64"),
    (73, "ppoll"),
    (98, "futex"),
    (131, "tgkill"),
    (135, "rt_sigprocmask"),
    (137, "rt_sigtimedwait"),
    (206, "sendto"),
    (207, "recvfrom"),
    (211, "sendmsg"),
    (212, "recvmsg"),
    (215, "munmap"),
    (222, "mmap"),
    (226, "mprotect"),
    (426, "io_uring_enter"),
];

/// The name of a system call of this processor on paths; other calls are given by number.
pub fn name(number: u64) -> String {
    let names = if cfg!(target_arch = "aarch64") { ARM64 } else { X86 };
    let known = names.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("system call {number}"), |(_, name)| (*name).to_owned())
}
