//! Migration whose memory is fetched while the guest runs (vhost-user text, "Postcopy migration").

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Postcopy {
    #[default]
    Off,
    Advised,
    /// Memory tables are answered with addresses.
    Listening,
    /// The back-end has sent regions back; the front-end's acknowledgement is due.
    Mapped,
}
