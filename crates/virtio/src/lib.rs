//! Feature bits, device types, the net header and its offloads.
