//! Migration in which memory is fetched while the guest runs (vhost-user text, "Postcopy migration").

/// The progress of postcopy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Postcopy {
    #[default]
    Off,
    Advised,
    /// Memory tables are answered with addresses.
    Listening,
    /// The back-end has sent regions back. The front-end's acknowledgement is due.
    Mapped,
}
