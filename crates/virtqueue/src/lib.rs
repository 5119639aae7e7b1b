//! Split and packed virtqueues, driver half and device half, in bursts.
