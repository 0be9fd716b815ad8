//! `enqueue --bulk --batch`: the members of a batch, and the job that follows when all of them have succeeded. All lines are
//! read before any job is submitted: a batch closes with the members that it has then.

use std::io::{self, BufRead, BufReader, Read};

use anyhow::Context as _;
use streamfleet::Submission;
use streamfleet::job::{BatchId, Timestamp};
use streamfleet::schema::Schemas;
use streamfleet_operations::submit::{self, Opened};

use super::{Target, refused};
use crate::exit::Exit;
use crate::output::{self, harmless};
use crate::{Context, Wrong};

/// The most bytes that all members have as lines. They are in memory at once.
const MOST_BYTES: u64 = 256 * 1024 * 1024;

/// Submits the jobs on stdin as members of a batch, and the job `follow` after them.
pub(super) async fn run(
    target: Target,
    batch: BatchId,
    follow: &str,
    context: &Context,
) -> anyhow::Result<Exit> {
    let now = target.to.queue.clock().await.context("failed to read the server's clock")?;
    let reading = Reading { max_payload: target.to.max_payload, schemas: context.schemas()?, now };
    let follow = reading.job(follow.as_bytes());
    let follow = follow.map_err(|why| Wrong(format!("--follow is not a valid job: {}", harmless(&why))))?;
    let members = reading.members(io::stdin().lock(), MOST_BYTES)?;
    let report = submit::open_batch(&target.to, &batch, follow, members).await.map_err(refused)?;
    context.output.print_named(&report, |report| report.ids.clone(), show)?;
    Ok(Exit::Done)
}

struct Reading {
    max_payload: usize,
    schemas: Schemas,
    now: Timestamp,
}

impl Reading {
    fn job(&self, text: &[u8]) -> Result<Submission, String> {
        let parsed = submit::parse(text, self.max_payload, self.now);
        let (_type, submission) = parsed.map_err(|invalid| invalid.to_string())?;
        submission.fits_schema(&self.schemas).map_err(|error| error.to_string())?;
        Ok(submission)
    }

    /// Reads the jobs of all lines, which together have at most `most` bytes.
    fn members(&self, input: impl Read, most: u64) -> anyhow::Result<Vec<Submission>> {
        let mut input = BufReader::new(input).take(most.saturating_add(1));
        let (mut members, mut text) = (Vec::new(), Vec::new());
        for number in 1_u64.. {
            text.clear();
            if input.read_until(b'\n', &mut text).context("failed to read stdin; nothing was submitted")? == 0
            {
                break;
            }
            if input.limit() == 0 {
                let mib = most / (1024 * 1024);
                let why = format!("a batch has at most {mib} MiB as lines; nothing was submitted");
                return Err(Wrong(why).into());
            }
            if text.trim_ascii().is_empty() {
                continue;
            }
            let invalid = |why: String| {
                Wrong(format!("line {number} is not a valid job: {}; nothing was submitted", harmless(&why)))
            };
            members.push(self.job(&text).map_err(invalid)?);
        }
        if members.is_empty() {
            let why =
                "stdin contains no jobs, and a batch needs a member: --bulk reads one JSON object per line";
            return Err(Wrong(why.to_owned()).into());
        }
        Ok(members)
    }
}

fn show(report: &Opened) -> String {
    let Opened { batch, queue, members, .. } = report;
    let members = output::counted(*members as u64, "job", "jobs");
    format!("the batch {batch} has {members}; to follow it: streamfleet batch {batch} --queue {queue}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &str, most: u64) -> Result<usize, String> {
        let reading =
            Reading { max_payload: 1024, schemas: Schemas::default(), now: Timestamp::from_ms(1).unwrap() };
        let members = reading.members(lines.as_bytes(), most);
        members.map(|members| members.len()).map_err(|error| error.to_string())
    }

    #[test]
    fn every_line_must_be_a_job_and_all_of_them_must_fit() {
        assert_eq!(read("{\"type\":\"a\"}\n\n{\"type\":\"b\"}", 100), Ok(2));
        let wrong = read("{\"type\":\"a\"}\n\n{\"tpye\":\"b\"}\n", 100).unwrap_err();
        assert!(
            wrong.starts_with("line 3 is not a valid job: ") && wrong.ends_with("nothing was submitted"),
            "{wrong}"
        );
        assert_eq!(read("{\"type\":\"a\"}\n", 13), Ok(1));
        assert!(read("{\"type\":\"a\"}\n", 12).unwrap_err().contains("at most"));
        assert!(read("\n", 100).unwrap_err().contains("no jobs"));
    }
}
