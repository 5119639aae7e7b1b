//! What the repository promises of itself: layers, imports, pages, words, the oldest Rust, set-up.

mod architecture;
mod documentation;
mod import_circles;
mod oldest_rust;
mod packages;
mod page_runs;
mod setup;
mod setup_in_roots;
mod site;
mod sizes;
mod threat_model;
mod troubleshooting;
mod wording;
mod workflows;
