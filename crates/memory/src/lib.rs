//! Memory shared with a guest, a peer or the kernel.
