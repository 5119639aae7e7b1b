//! Names of system calls.

/// The name of a system call on paths, on x86-64; other calls are given by number.
pub fn name(number: u64) -> String {
    const NAMES: &[(u64, &str)] = &[
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
    let known = NAMES.iter().find(|(known, _)| cfg!(target_arch = "x86_64") && *known == number);
    known.map_or_else(|| format!("system call {number}"), |(_, name)| (*name).to_owned())
}
