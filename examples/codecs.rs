//! Encrypted payloads: submits a job whose payload is compressed, encrypted and, if it is large, stored apart; and handles such jobs.
//!
//! ```sh
//! export APP_KEYS="2026-11:$(openssl rand -base64 32)" PAYLOADS=/tmp/payloads REDIS_URL=redis://127.0.0.1:6379
//! cargo run --example codecs submit mail.send '{"to":"ann@example.com"}'
//! cargo run --example codecs work mail.send     # until it has handled one job
//! ```

use std::error::Error;
use std::io::Write;

use streamfleet::codecs::{Codecs, Directory, Keys};
use streamfleet::job::Encoding;
use streamfleet::{
    Fleet, FleetConfig, Handler, JobContext, JobError, Producer, RawPayload, Shutdown, Submission,
};

/// Prints what it gets, and ends the program.
struct Print(Shutdown);

impl Handler for Print {
    type Payload = RawPayload;
    type Output = usize;

    async fn run(&self, RawPayload(payload): RawPayload, context: JobContext) -> Result<usize, JobError> {
        let headers: Vec<_> = context.headers().collect();
        let text = String::from_utf8_lossy(&payload);
        writeln!(std::io::stdout().lock(), "{} {headers:?} {text}", context.encoding().as_str())?;
        self.0.request();
        Ok(payload.len())
    }
}

#[expect(clippy::disallowed_methods, reason = "an example has no other configuration")]
fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    std::env::var(name).map_err(|_| format!("set {name}").into())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let codecs = Codecs::new().keys(Keys::from_env("APP_KEYS")?).compress(true);
    let codecs = codecs.claims(Directory::new(variable("PAYLOADS")?));
    let redis = variable("REDIS_URL")?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["submit", job_type, payload] => {
            // A large payload comes from a file.
            let payload = payload.strip_prefix('@').map_or_else(|| Ok(payload.into()), std::fs::read)?;
            let producer = Producer::connect(&*redis, "default").await?.codecs(codecs);
            let job = Submission::new(job_type)?.payload(payload, Encoding::Json)?;
            let id = producer.submit(job).await?;
            writeln!(std::io::stdout().lock(), "{id}")?;
        }
        ["work", job_type] => {
            let shutdown = Shutdown::new();
            let config = FleetConfig::default().redis(&*redis);
            let fleet = Fleet::builder(config).codecs(codecs);
            fleet.handler_for(job_type, Print(shutdown.clone()))?.build().run(shutdown).await?;
        }
        _ => return Err("usage: codecs submit TYPE JSON | codecs work TYPE".into()),
    }
    Ok(())
}
