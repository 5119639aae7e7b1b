//! What was said brings another session to the same state.
