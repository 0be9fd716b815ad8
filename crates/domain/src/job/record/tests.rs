//! What the fields of an entry mean, and which are refused.

use proptest::prelude::*;

use super::*;

const ENTRY: EntryId = EntryId { ms: 5_000, seq: 1 };

fn parse(fields: &[(&str, &str)]) -> Result<JobSpec, Malformed> {
    let envelope = Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    JobSpec::parse(&envelope, ENTRY, Lane::Normal)
}

#[test]
fn a_type_alone_is_a_job() {
    let job = parse(&[("type", "mail.send")]).unwrap();
    assert_eq!(job.id.to_string(), "5000-1");
    assert_eq!((job.attempt, job.lost, job.payload.len()), (0, 0, 0));
    assert_eq!(job.encoding, Encoding::Json);
    assert_eq!(job.created.as_ms(), 5_000);
}

#[test]
fn a_job_that_another_lane_has_for_once_knows_its_own() {
    let job = parse(&[("type", "a"), ("lane", "low")]).unwrap();
    assert_eq!((job.lane, job.own_lane), (Lane::Normal, Lane::Low));
    for lane in ["", "fast"] {
        assert_eq!(parse(&[("type", "a"), ("lane", lane)]).unwrap().own_lane, Lane::Normal);
    }
}

#[test]
fn every_broken_field_is_named_with_its_rule() {
    let broken = [
        ("type", "Mail"),
        ("id", "a b"),
        ("encoding", "xml"),
        ("attempt", "-1"),
        ("attempt", "+1"),
        ("attempt", "4294967296"),
        ("lost", "x"),
        ("run_at_ms", "99999999999999999"),
        ("delay_ms", "1e3"),
        ("expires_at_ms", ""),
        ("max_attempts", "0"),
        ("timeout_ms", "0"),
        ("timeout_ms", "604800001"),
        ("tracking", "some"),
    ];
    for (name, value) in broken {
        let mut fields = vec![("type", "mail.send")];
        fields.push((name, value));
        let error = parse(&fields).unwrap_err().to_string();
        assert!(error.contains(name), "{name}={value}: {error}");
    }
    assert!(parse(&[("payload", "{}")]).unwrap_err().to_string().contains("type is missing"));
}

#[test]
fn a_delay_counts_from_the_first_entry() {
    let job = parse(&[("type", "a"), ("delay_ms", "700"), ("created_ms", "1000")]).unwrap();
    assert_eq!(job.not_before.unwrap().as_ms(), 1_700);
    let both = parse(&[("type", "a"), ("delay_ms", "700"), ("run_at_ms", "9000")]).unwrap();
    assert_eq!(both.not_before.unwrap().as_ms(), 9_000);
}

#[test]
fn fields_of_later_versions_and_dead_letters_are_left_alone() {
    let job =
        parse(&[("type", "a"), ("dead_reason", "fatal"), ("wire_v9", "?"), ("h.tenant", "acme")]).unwrap();
    assert_eq!(job.job_type.as_str(), "a");
}

#[test]
fn tracking_of_the_job_beats_the_type_and_that_the_queue() {
    let policy = |tracking| Policy { tracking, ..Policy::default() };
    let plain = parse(&[("type", "a")]).unwrap();
    assert_eq!(plain.tracking(&policy(None), Tracking::All), Tracking::All);
    assert_eq!(plain.tracking(&policy(Some(Tracking::None)), Tracking::All), Tracking::None);
    let own = parse(&[("type", "a"), ("tracking", "failures")]).unwrap();
    assert_eq!(own.tracking(&policy(Some(Tracking::None)), Tracking::All), Tracking::Failures);
}

#[test]
fn a_repeated_job_has_a_record_whatever_its_tracking() {
    let (plain, named) = (parse(&[("type", "a")]).unwrap(), parse(&[("type", "a"), ("id", "x")]).unwrap());
    let repeated = parse(&[("type", "a"), ("lost", "1")]).unwrap();
    let of = |job: &JobSpec| {
        [Tracking::None, Tracking::Failures, Tracking::All].map(|tracking| job.has_record(tracking))
    };
    let drawn = parse(&[("type", "a"), ("id", "1f"), ("life", "1f")]).unwrap();
    assert_eq!(of(&plain), [false, false, true]);
    assert_eq!(of(&named), [false, true, true]);
    assert_eq!(of(&drawn), [false, false, true]);
    assert_eq!(of(&repeated), [true, true, true]);
}

#[test]
fn only_the_first_entry_of_an_id_that_was_accepted_once_is_noted() {
    let is_noted = |more: &[(&str, &str)]| {
        let fields = [&[("type", "a"), ("id", "x")][..], more].concat();
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let envelope = Envelope::new(fields);
        JobSpec::parse(&envelope, ENTRY, Lane::High).unwrap().is_noted(&envelope)
    };
    let noted = [("life", "1f"), ("once", "1")];
    assert!(is_noted(&noted));
    assert!(is_noted(&[&noted[..], &[("unique_scope", "window")]].concat()));
    assert!(!is_noted(&noted[..1]) && !is_noted(&noted[1..]));
    let others = [
        ("created_ms", "5000"),
        ("attempt", "1"),
        ("lost", "1"),
        ("replay_of", "4-1"),
        ("dead_life", "1e"),
        ("dead_at_ms", "4000"),
        ("unique", "k"),
        ("unique_scope", "waiting"),
        ("batch", "b"),
        ("on_success", "b"),
    ];
    for other in others {
        assert!(!is_noted(&[&noted[..], &[other]].concat()), "{other:?}");
    }
}

proptest! {
    #[test]
    fn parsing_any_fields_never_panics(fields in prop::collection::vec((
        prop_oneof![Just(b"type".to_vec()), Just(b"delay_ms".to_vec()), Just(b"id".to_vec()), any::<Vec<u8>>()],
        any::<Vec<u8>>(),
    ), 0..8)) {
        let envelope = Envelope::new(fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice())));
        let _ignored = JobSpec::parse(&envelope, ENTRY, Lane::High).is_ok();
    }
}
