//! Types that a configuration writes as one text, such as names.

/// Implements serde for a type by its `Display` and `FromStr`.
#[doc(hidden)]
#[macro_export]
macro_rules! as_text {
    ($name:ty) => {
        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = <String as ::serde::Deserialize>::deserialize(from)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }
    };
}

/// Implements `Deserialize` for what is written as a text or as a table: by what is expected, by a function of the text that may
/// fail, and by one of what the table describes.
#[doc(hidden)]
#[macro_export]
macro_rules! text_or_table {
    ($name:ident, $expected:literal, $of_text:expr, $of_table:expr) => {
        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Reader;

                impl<'de> ::serde::de::Visitor<'de> for Reader {
                    type Value = $name;

                    fn expecting(&self, out: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        out.write_str($expected)
                    }

                    fn visit_str<E: ::serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        ($of_text)(text).map_err(E::custom)
                    }

                    fn visit_map<M: ::serde::de::MapAccess<'de>>(self, table: M) -> Result<$name, M::Error> {
                        let table = ::serde::de::value::MapAccessDeserializer::new(table);
                        ::serde::Deserialize::deserialize(table).map($of_table)
                    }
                }

                from.deserialize_any(Reader)
            }
        }
    };
}

/// Declares a text that follows a rule: with `as_str`, `Display`, and `FromStr`, whose error has the rule.
macro_rules! text {
    ($(#[$doc:meta])* $name:ident($inner:ty), $what:literal, $is_valid:expr, $rule:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, out: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::job::InvalidName;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let is_valid: fn(&str) -> bool = $is_valid;
                if !is_valid(text) {
                    return Err($crate::job::InvalidName::new($what, text, $rule));
                }
                Ok(Self(text.into()))
            }
        }
    };
}
