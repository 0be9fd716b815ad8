//! `dead edit`: another payload, type or setting for one dead letter, before it is replayed.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use streamfleet::Queue;
use streamfleet::job::{Encoding, JobId, JobType};
use streamfleet_engine::admin::{DeadLetter, EditError, LetterEdit, unpacked};
use streamfleet_operations::dead::{self, Edit, Edited, encoding, find};
use tempfile::TempDir;

use crate::actor::{ActorArgs, told};
use crate::exit::Exit;
use crate::output;
use crate::{Context, Wrong, enqueue};

/// How `dead edit` is used.
const EXAMPLES: &str = "\
Examples:
  streamfleet dead edit order-7 --set payload.email=ann@example.com --reason 'the customer moved'
  streamfleet dead edit 1700000000000-0 --payload-file corrected.json --type mail.send
  streamfleet dead edit order-7 --undo
  streamfleet dead edit order-7 --queue mail";

/// The file that the editor opens, in a folder of its own.
const FILE: &str = "payload.json";

/// The arguments of `dead edit`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The id of the dead letter, or of its job.
    id: JobId,
    /// Change one value: payload.email=ann@example.com, payload.items[0].count=3, h.tenant=9, `max_attempts=5`,
    /// `timeout_ms=60000` or tracking=all. In a payload, the value stays text if it is text; otherwise the new one is JSON, or
    /// else text. May be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    changes: Vec<String>,
    /// Replace the whole payload by the content of this file, or of stdin (-). For MessagePack, the file has JSON.
    #[arg(long, value_name = "FILE")]
    payload_file: Option<String>,
    /// Change the type.
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<JobType>,
    /// Take back all edits: every value becomes again what it was before the first edit.
    #[arg(long, conflicts_with_all = ["changes", "payload_file", "job_type"])]
    undo: bool,
    #[command(flatten)]
    actor: ActorArgs,
}

/// Edits the letter. Without any change in the arguments, an editor shows its payload.
pub(super) async fn run(args: Args, queue: &Queue, context: &Context) -> anyhow::Result<Exit> {
    let (actor, schemas) = (super::actor(&args.actor)?, context.schemas()?);
    let letter = find(queue.dead_letters(), queue, &args.id).await?;
    let (changes, folder) = match args.edit(&letter)? {
        Some(changes) => (changes, None),
        None => match edited_by_hand(&letter).await? {
            Some((payload, folder)) => (LetterEdit::default().payload(payload), Some(folder)),
            None => {
                output::print_stderr("nothing was changed");
                return Ok(Exit::Done);
            }
        },
    };
    let edit = Edit { letter: &letter, changes: &changes, schemas: &schemas };
    let edited = dead::edit(queue, &actor, &edit).await;
    if let (Err(_), Some(folder)) = (&edited, folder) {
        keep(folder);
    }
    context.output.print_named(&told(edited?), |edited| vec![edited.letter.clone()], show)?;
    Ok(Exit::Done)
}

impl Args {
    /// Returns what the arguments change; `None` if they change nothing.
    fn edit(&self, letter: &DeadLetter) -> anyhow::Result<Option<LetterEdit>> {
        if self.undo {
            return Ok(Some(LetterEdit::default().undo()));
        }
        if self.changes.is_empty() && self.payload_file.is_none() && self.job_type.is_none() {
            return Ok(None);
        }
        let mut edit = LetterEdit::default();
        if let Some(file) = &self.payload_file {
            let source = if file == "-" { file.clone() } else { format!("@{file}") };
            edit = edit.payload(enqueue::payload(source, encoding(letter))?);
        }
        if let Some(job_type) = &self.job_type {
            edit = edit.job_type(job_type.clone());
        }
        for change in &self.changes {
            if change.starts_with("payload") {
                edit = edit.patch(
                    change
                        .parse()
                        .map_err(|error: streamfleet_engine::admin::PatchError| Wrong(error.to_string()))?,
                );
                continue;
            }
            let pair = change.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, value) = pair.ok_or_else(|| Wrong(format!("{change:?} must be NAME=VALUE")))?;
            edit = edit.field(name, value);
        }
        Ok(Some(edit))
    }
}

/// Lets a person edit the payload. Returns the new one, and the folder in which it is written; `None` if it was not changed.
async fn edited_by_hand(letter: &DeadLetter) -> anyhow::Result<Option<(Vec<u8>, TempDir)>> {
    if !std::io::stdin().is_terminal() {
        return Err(Wrong("say what to change with --set, --payload-file or --type".to_owned()).into());
    }
    if let Err(error @ EditError::Encoded(_)) = LetterEdit::default().payload("").job(letter) {
        return Err(Wrong(error.to_string()).into());
    }
    let set = |name: &str| std::env::var_os(name).filter(|editor| !editor.is_empty());
    let editor = ["VISUAL", "EDITOR"].into_iter().find_map(set);
    let editor = editor.ok_or_else(|| {
        Wrong("no editor is configured: set EDITOR, or use --set or --payload-file".to_owned())
    })?;
    let encoding = encoding(letter);
    let text = as_text(letter.fields.get(b"payload").unwrap_or_default(), encoding)?;
    // Only this user may read it, and what the editor writes beside it.
    let mut folder = tempfile::Builder::new();
    folder.prefix("streamfleet-").permissions(Permissions::from_mode(0o700));
    let folder = folder.tempdir().context("failed to make a folder")?;
    let file = folder.path().join(FILE);
    std::fs::write(&file, &text).context("failed to write the payload to a file")?;
    match opened(editor, &file).await.and_then(|written| changed(&text, written, encoding)) {
        Ok(edited) => Ok(edited.map(|edited| (edited, folder))),
        Err(error) => {
            keep(folder);
            Err(error)
        }
    }
}

/// Keeps what a person wrote.
fn keep(folder: TempDir) {
    output::print_stderr(&format!("what you wrote is in {}", folder.keep().join(FILE).display()));
}

/// Lets an editor change a file, and returns what it has then.
async fn opened(editor: OsString, file: &Path) -> anyhow::Result<Vec<u8>> {
    // The variable may have arguments, as `code --wait` has.
    let mut command = OsString::from("exec ");
    command.push(editor);
    command.push(" \"$1\"");
    let status = tokio::process::Command::new("sh").arg("-c").arg(command).arg("sh").arg(file).status();
    let status = status.await.context("failed to start the editor")?;
    if !status.success() {
        anyhow::bail!("the editor ended with {status}: nothing was changed");
    }
    // The editor may have replaced the file.
    std::fs::read(file).context("failed to read what the editor wrote")
}

/// Returns the new payload; `None` if it was not changed.
fn changed(text: &str, mut written: Vec<u8>, encoding: Encoding) -> anyhow::Result<Option<Vec<u8>>> {
    // Most editors end the last line of a file.
    if !text.ends_with('\n') && written.ends_with(b"\n") {
        written.pop();
    }
    if written == text.as_bytes() { Ok(None) } else { encoded(written, encoding).map(Some) }
}

/// Returns a payload in the form in which people edit it.
fn as_text(payload: &[u8], encoding: Encoding) -> anyhow::Result<String> {
    match encoding {
        Encoding::Json | Encoding::Raw => {
            let text = std::str::from_utf8(payload).map(str::to_owned);
            text.map_err(|_| Wrong("the payload is not text: use --payload-file".to_owned()).into())
        }
        Encoding::Msgpack => {
            let why = "the payload has values, or an order of members, that JSON would not keep: use --set";
            let value: Option<serde_json::Value> = unpacked(payload);
            let value = value.ok_or_else(|| Wrong(why.to_owned()))?;
            // JSON would change it: bytes, 32-bit numbers, or the order of members.
            if rmp_serde::to_vec_named(&value)? != payload {
                return Err(Wrong(why.to_owned()).into());
            }
            Ok(format!("{}\n", serde_json::to_string_pretty(&value)?))
        }
    }
}

/// Converts what a person wrote.
fn encoded(text: Vec<u8>, encoding: Encoding) -> anyhow::Result<Vec<u8>> {
    match encoding {
        Encoding::Json | Encoding::Raw => Ok(text),
        Encoding::Msgpack => {
            let value: serde_json::Value = serde_json::from_slice(&text)
                .map_err(|error| Wrong(format!("what you wrote is not valid JSON: {error}")))?;
            Ok(rmp_serde::to_vec_named(&value)?)
        }
    }
}

fn show(Edited { letter, id, queue, .. }: &Edited) -> String {
    format!(
        "{id} is now the dead letter {letter}; to run it: streamfleet dead replay {letter} --queue {queue}; to take back all edits: \
         streamfleet dead edit {letter} --queue {queue} --undo"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messagepack_is_edited_as_json() {
        let packed = rmp_serde::to_vec_named(&serde_json::json!({"to": "ann"})).unwrap();
        let text = as_text(&packed, Encoding::Msgpack).unwrap();
        assert_eq!(encoded(text.into_bytes(), Encoding::Msgpack).unwrap(), packed);
        assert!(as_text(b"\xff", Encoding::Raw).is_err());
        assert!(encoded(b"{".to_vec(), Encoding::Msgpack).is_err());
        for other in [&b"\xc4\x01a"[..], b"\xca\x3f\x80\x00\x00", b"\xcc\x01", b"\x01\x01"] {
            assert!(as_text(other, Encoding::Msgpack).is_err(), "{other:?}");
        }
        let deep = [vec![0x91; 100], vec![0xc0]].concat();
        assert!(as_text(&deep, Encoding::Msgpack).is_err(), "deeper than workers read it");
    }

    #[test]
    fn a_line_end_that_the_editor_added_is_no_change() {
        let changed = |text, written: &[u8]| changed(text, written.to_vec(), Encoding::Json).unwrap();
        assert_eq!((changed("{}", b"{}\n"), changed("{}\n", b"{}\n")), (None, None));
        assert_eq!(changed("{}", b"[]\n"), Some(b"[]".to_vec()));
        assert_eq!(
            (changed("{}", b"{}\n\n"), changed("{}\n", b"{}")),
            (Some(b"{}\n".to_vec()), Some(b"{}".to_vec()))
        );
    }
}
