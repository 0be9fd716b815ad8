//! Enums whose variants have names, which Redis, configurations and users have for them.

/// Gives each variant of an enum its name: declares `ALL`, `NAMES`, `as_str` with this documentation, `named`, which is
/// the way back, and `Display` if the enum is followed by `: Display`.
#[doc(hidden)]
#[macro_export]
macro_rules! variants {
    ($(#[$doc:meta])+ $enum:ident { $($variant:ident = $name:literal,)+ }) => {
        impl $enum {
            /// All of them.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Their names.
            #[doc(hidden)]
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            $(#[$doc])+
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the one that has this name.
            #[doc(hidden)]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.as_str() == name)
            }
        }
    };
    ($(#[$doc:meta])+ $enum:ident: Display { $($variant:ident = $name:literal,)+ }) => {
        $crate::variants! { $(#[$doc])+ $enum { $($variant = $name,)+ } }

        impl ::std::fmt::Display for $enum {
            fn fmt(&self, out: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                out.write_str(self.as_str())
            }
        }
    };
}
