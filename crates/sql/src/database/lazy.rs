//! A database that is opened when it is first needed: it may be out of reach until then, and come later.

use std::io;

use secrecy::SecretString;
use tokio::sync::OnceCell;

use super::{Database, Options};
use crate::Error;

/// A database that is opened when somebody needs it, and how to open it.
pub struct LazyDatabase {
    address: Box<dyn Fn() -> io::Result<SecretString> + Send + Sync>,
    options: Options,
    opened: OnceCell<Database>,
}

impl LazyDatabase {
    /// Returns the database that `address` names, which is asked again before each attempt, so that a new password needs no new process.
    pub fn new(
        address: impl Fn() -> io::Result<SecretString> + Send + Sync + 'static,
        options: Options,
    ) -> Self {
        Self { address: Box::new(address), options, opened: OnceCell::new() }
    }

    /// Opens the database unless it is open.
    ///
    /// # Errors
    ///
    /// [`Error`] if the address cannot be read, or the database cannot be reached.
    pub async fn get(&self) -> Result<&Database, Error> {
        self.opened.get_or_try_init(|| open((self.address)(), &self.options)).await
    }

    /// Closes it if it is open.
    pub async fn close(&self) {
        if let Some(database) = self.opened.get() {
            database.close().await;
        }
    }
}

/// Opens the database at an address that was read from a configuration.
///
/// # Errors
///
/// [`Error`] if the address could not be read, or the database cannot be reached.
pub async fn open(address: io::Result<SecretString>, options: &Options) -> Result<Database, Error> {
    let address = address.map_err(|error| Error::Input(error.to_string()))?;
    Database::connect(&address, options).await
}
