//! Enums whose variants have names, which Redis, configurations and users have for them.

/// Declares an enum whose variants have names: with `ALL`, `NAMES`, `as_str`, `named`, which is the way back, and `Display`
/// if the enum is followed by `: Display`. Without `enum`, it gives the names to an enum that is declared elsewhere.
#[doc(hidden)]
#[macro_export]
macro_rules! variants {
    (
        $(#[$on_enum:meta])+
        $visible:vis enum $enum:ident $(: $display:ident)? { $($(#[$on_one:meta])* $variant:ident = $name:literal,)+ }
    ) => {
        $(#[$on_enum])+
        $visible enum $enum { $($(#[$on_one])* $variant,)+ }

        $crate::variants! {
            /// Returns its name.
            $enum $(: $display)? { $($variant = $name,)+ }
        }
    };
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
