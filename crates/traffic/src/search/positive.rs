//! Positive integers, for counts where zero has no meaning.

/// A number of at least one, with a name of its own.
macro_rules! positive {
    ($(#[$doc:meta])* $name:ident, $(#[$get_doc:meta])* $get:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(std::num::NonZeroU64);

        impl $name {
            /// `None` for zero.
            pub const fn new(number: u64) -> Option<$name> {
                match std::num::NonZeroU64::new(number) {
                    Some(number) => Some($name(number)),
                    None => None,
                }
            }

            $(#[$get_doc])*
            pub const fn $get(self) -> u64 {
                self.0.get()
            }
        }

        impl From<std::num::NonZeroU64> for $name {
            fn from(number: std::num::NonZeroU64) -> $name {
                $name(number)
            }
        }

        impl From<$name> for std::num::NonZeroU64 {
            fn from(number: $name) -> std::num::NonZeroU64 {
                number.0
            }
        }
    };
}

pub(super) use positive;
