//! Chainable setters of the structs with which users configure the library. Such a struct is `#[non_exhaustive]`, so that
//! it can get more fields: users begin with its `new` or its default, and set what they want to be different.

/// Declares setters, each named like its field. `field: Type;` takes the value itself. `field: Type => value;` takes
/// something else, which `value` converts. A setter of a public field needs no documentation: that of the field has the
/// bounds and the default.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    (@one [] $field:ident: $type:ty $(=> $value:expr)?) => {
        #[doc = concat!("Sets the field `", stringify!($field), "`.")]
        #[must_use]
        pub fn $field(self, $field: $type) -> Self {
            $(let $field = $value;)?
            Self { $field, ..self }
        }
    };
    (@one [$(#[$doc:meta])+] $field:ident: $type:ty $(=> $value:expr)?) => {
        $(#[$doc])+
        #[must_use]
        pub fn $field(self, $field: $type) -> Self {
            $(let $field = $value;)?
            Self { $field, ..self }
        }
    };
    ($($(#[$doc:meta])* $field:ident: $type:ty $(=> $value:expr)?;)+) => {$(
        $crate::setters! { @one [$(#[$doc])*] $field: $type $(=> $value)? }
    )+};
}

/// Declares a struct with `Default`: the default of each field follows its type.
#[doc(hidden)]
#[macro_export]
macro_rules! with_defaults {
    (
        $(#[$on_struct:meta])*
        $visible:vis struct $name:ident {
            $($(#[$on_field:meta])* $field_visible:vis $field:ident: $type:ty = $default:expr,)+
        }
    ) => {
        $(#[$on_struct])*
        $visible struct $name { $($(#[$on_field])* $field_visible $field: $type,)+ }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
}
