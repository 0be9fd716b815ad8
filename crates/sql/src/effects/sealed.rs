//! The databases of sqlx in which effects can be noted.

use sqlx::{MySql, Postgres, Sqlite};

use crate::database::Link;

/// A database of sqlx that this crate knows. Nobody else can implement it.
pub trait Supported: sqlx::Database + Linked {}

/// Makes a connection of sqlx one of this crate.
pub trait Linked: sqlx::Database {
    #[doc(hidden)]
    fn link(connection: &mut Self::Connection) -> AnyLink<'_>;
}

/// Hides the connection from those who see the trait.
#[doc(hidden)]
pub struct AnyLink<'a>(pub(super) Link<'a>);

macro_rules! supported {
    ($($database:ident => $variant:ident),+) => {
        $(
            impl Linked for $database {
                fn link(connection: &mut Self::Connection) -> AnyLink<'_> {
                    AnyLink(Link::$variant(connection))
                }
            }

            impl Supported for $database {}
        )+
    };
}

supported!(MySql => MySql, Postgres => Postgres, Sqlite => Sqlite);
