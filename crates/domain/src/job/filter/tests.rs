//! Tests of filters.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::job::Envelope;

const NOW: u64 = 1_700_000_000_000;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms).unwrap()
}

fn envelope(fields: &[(&str, &[u8])]) -> Envelope {
    Envelope::new(fields.iter().map(|(name, value)| (name.as_bytes(), *value)))
}

fn condition(text: &str) -> Filter {
    Filter::new().condition(text).unwrap()
}

fn found(filter: &Filter, payload: &[u8], encoding: &str) -> Match {
    let fields = envelope(&[
        ("type", b"mail.send"),
        ("payload", payload),
        ("encoding", encoding.as_bytes()),
        ("h.tenant", b"9"),
    ]);
    filter.check(&Candidate::new("order-7").fields(&fields).at(at(NOW)), at(NOW))
}

const ORDER: &str = r#"{"customer":9,"paid":true,"total":12.5,"note":null,"big":9007199254740993,
    "items":[{"sku":"a"},{"sku":"b c"}],"a.b":{"x":"y"},"at":"2026-11-02","0":"zero","mail":"bob@example.com"}"#;

/// Matches the order in both encodings, which must agree.
fn order(filter: &Filter) -> Match {
    let value: serde_json::Value = serde_json::from_str(ORDER).unwrap();
    let json = found(filter, ORDER.as_bytes(), "json");
    assert_eq!(found(filter, &rmp_serde::to_vec_named(&value).unwrap(), "msgpack"), json, "{filter}");
    json
}

#[test]
fn fields_of_a_payload_are_found_by_their_path_and_compared_as_text() {
    let holding = [
        "payload.customer=9",
        "payload.customer = 9",
        "payload.customer!=8",
        "payload.missing!=8",
        "payload.customer>8.5",
        "payload.customer>=9",
        "payload.customer<10",
        "payload.paid=true",
        "payload.note=null",
        "payload.total=12.50",
        "payload.total<=12.5",
        "payload.big=9007199254740993",
        "payload.big>9007199254740992",
        "payload.items[0].sku=a",
        "payload.items.1.sku=b c",
        "payload.items[1].sku~b",
        "payload[\"a.b\"].x=y",
        "payload.at>2026-11-01",
        "payload.0=zero",
        "payload.mail~@example.",
        "h.tenant=9",
        "h.tenant<10",
        "h.other!=9",
    ];
    for text in holding {
        assert_eq!(order(&condition(text)), Match::Yes, "{text}");
    }
    let failing = [
        "payload.customer=09",
        "payload.customer!=9",
        "payload.missing=9",
        "payload.missing<9",
        "payload.missing~9",
        "payload.big=9007199254740992",
        "payload.items=a",
        "payload.items[2].sku=a",
        "payload.items[0]=a",
        "payload[0]=zero",
        "payload.customer.id=9",
        "payload.mail<9",
        "payload.customer<x",
        "h.other=9",
    ];
    for text in failing {
        assert_eq!(order(&condition(text)), Match::No, "{text}");
    }
}

#[test]
fn nobody_looks_into_a_payload_that_is_encoded() {
    let checked = |header: &str, filter: &Filter| {
        let fields: [(&str, &[u8]); 5] = [
            ("type", b"mail.send"),
            ("payload", b"customer 9"),
            ("encoding", b"raw"),
            ("h.codec", header.as_bytes()),
            ("h.tenant", b"9"),
        ];
        let fields = envelope(&fields);
        filter.check(&Candidate::new("order-7").fields(&fields).at(at(NOW)), at(NOW))
    };
    let text = Filter::new().and("text", "customer").unwrap();
    for header in ["json gzip", "json aes-256-gcm;key=2026-11"] {
        for filter in [condition("payload.customer=9"), text.clone()] {
            assert_eq!(checked(header, &filter), Match::Unreadable, "{header} {filter}");
        }
        assert_eq!(checked(header, &condition("h.tenant=9")), Match::Yes);
        assert_eq!(
            checked(header, &condition("h.tenant=8").condition("payload.customer=9").unwrap()),
            Match::No
        );
    }
    assert_eq!(checked("h264", &text), Match::Yes);
}

#[test]
fn a_condition_that_is_empty_or_unclear_is_refused() {
    for name in ["type", "state", "id-prefix", "text", "error", "reason", "kind", "group", "where", "since"] {
        for value in ["", " "] {
            assert_eq!(Filter::new().and(name, value), Err(FilterError::Empty(name.to_owned())));
        }
    }
    let unclear = [
        ("type", "*"),
        ("type", "Mail"),
        ("type", ".*"),
        ("state", "running away"),
        ("reason", "bad luck"),
        ("kind", "a b"),
        ("since", "yesterday"),
        ("until", "2026-12-01T10:00:00"),
        ("older-than", "10"),
        ("id-prefix", "a b"),
    ];
    for (name, value) in unclear {
        assert!(matches!(Filter::new().and(name, value), Err(FilterError::Invalid { .. })), "{name} {value}");
    }
    let wheres = [
        "payload",
        "payload=9",
        "payload.=9",
        "payload.a",
        "payload.a=",
        "payload.a= ",
        "payload.a==9",
        "payload..a=9",
        "payload.a[=9",
        "payload.a[x]=9",
        "payload[\"\"]=9",
        "payloads.a=9",
        "h.=9",
        "h.a=",
        "customer=9",
        "=9",
        "payload.a=~9",
    ];
    for text in wheres {
        assert!(matches!(Filter::new().condition(text), Err(FilterError::Invalid { .. })), "{text}");
    }
    assert_eq!(Filter::new().and("color", "red"), Err(FilterError::Unknown("color".to_owned())));
}

#[test]
fn a_header_whose_name_would_begin_another_operator_is_refused() {
    for name in ["tenant!", "tenant<", "tenant>", "tenant~", "ten ant", "tenant ", "a="] {
        let refused = Filter::new().header(name, "9");
        assert!(matches!(refused, Err(FilterError::Invalid { .. })), "{name:?}: {refused:?}");
    }
    assert_eq!(Filter::new().header("tenant", "a!=9").unwrap(), condition("h.tenant=a!=9"));
}

#[test]
fn a_filter_is_bounded() {
    let mut filter = Filter::new();
    for _ in 0..Filter::MAX_CONDITIONS {
        filter = filter.text("x").unwrap();
    }
    assert_eq!(filter.text("x"), Err(FilterError::TooMany));
    assert_eq!(Filter::new().text(&"x".repeat(Filter::MAX_BYTES)), Err(FilterError::TooLarge));
}

#[test]
fn all_conditions_must_hold_and_what_is_not_decided_is_told() {
    let both = condition("payload.customer=9").job_type("mail.*").unwrap();
    assert_eq!(found(&both, br#"{"customer":9}"#, "json"), Match::Yes);
    assert_eq!(found(&both, br#"{"customer":9"#, "json"), Match::Unreadable);
    assert_eq!(found(&both, br#"{"customer":9}"#, "raw"), Match::Unreadable);
    assert_eq!(found(&both, br#"{"customer":9}"#, "msgpack"), Match::Unreadable);
    assert_eq!(found(&both, b"", "json"), Match::No);
    let large = format!("\"{}\"", "x".repeat(Filter::MAX_PAYLOAD_BYTES));
    assert_eq!(found(&both, large.as_bytes(), "json"), Match::TooLarge);
    let other = condition("payload.customer=9").job_type("report.daily").unwrap();
    assert_eq!(found(&other, large.as_bytes(), "json"), Match::No);
    let gone = Candidate::new("order-7").at(at(NOW));
    assert_eq!(both.check(&gone, at(NOW)), Match::Unreadable);
    assert_eq!(Filter::new().check(&gone, at(NOW)), Match::Yes);
}

#[test]
fn a_restored_payload_without_an_encoding_is_read() {
    let payload = format!(r#"{{"customer":9,"blob":"{}"}}"#, "x".repeat(200 * 1024));
    let whole = envelope(&[("type", b"mail.send"), ("payload", payload.as_bytes()), ("dead_error", b"no")]);
    let generation =
        crate::job::Generation::of_entry(crate::job::EntryId::new(5, 1), crate::job::Lane::Normal);
    let light = whole.without_large_fields(&generation).unwrap();
    let restored = light.envelope.with_large_fields(&light.fields).unwrap();
    let is = |filter: &Filter, fields: &Envelope| filter.check(&Candidate::new("a").fields(fields), at(NOW));
    for filter in
        [condition("payload.customer=9"), condition("h.tenant!=9"), Filter::new().text("xxx").unwrap()]
    {
        assert_eq!(is(&filter, &restored), Match::Yes, "{filter}");
        assert_eq!(is(&filter, &light.envelope), Match::Unreadable, "{filter}");
    }
}

#[test]
fn a_text_is_not_sought_in_a_payload_that_is_too_large() {
    let large = "x".repeat(Filter::MAX_PAYLOAD_BYTES + 1);
    let filter = Filter::new().text("x").unwrap();
    assert_eq!(found(&filter, large.as_bytes(), "json"), Match::TooLarge);
    assert_eq!(found(&filter, &large.as_bytes()[1..], "json"), Match::Yes);
}

#[test]
fn nobody_knows_the_payload_and_headers_of_packed_fields() {
    let fields = envelope(&[("raw", b"\xc1"), ("dead_reason", b"malformed"), ("dead_error", b"no")]);
    let letter = Candidate::new("order-7").fields(&fields).state(State::Dead);
    for text in ["payload.customer!=9", "payload.customer=9", "h.tenant!=9"] {
        assert_eq!(condition(text).check(&letter, at(NOW)), Match::Unreadable, "{text}");
    }
    let malformed = Filter::new().reason(DeadReason::Malformed).unwrap();
    assert_eq!(malformed.check(&letter, at(NOW)), Match::Yes);
    assert_eq!(Filter::new().kind("timeout").unwrap().check(&letter, at(NOW)), Match::No);
}

#[test]
fn a_text_is_found_as_php_and_python_write_it() {
    let filter = Filter::new().text("给/\"é").unwrap();
    for payload in [r#"["给/\"é"]"#, r#"["\u7ed9/\"\u00e9"]"#, r#"["\u7ed9\/\"\u00e9"]"#] {
        assert_eq!(found(&filter, payload.as_bytes(), "json"), Match::Yes, "{payload}");
    }
    assert_eq!(found(&filter, br#"["\u7ed9/\"\u00e9"]"#, "raw"), Match::No);
    assert_eq!(found(&filter, &[[0xff].as_slice(), "给/\"é".as_bytes()].concat(), "raw"), Match::Yes);
}

#[test]
fn fields_of_a_letter_count_only_for_dead_jobs() {
    let fields = envelope(&[
        ("type", b"mail.send"),
        ("dead_reason", b"exhausted"),
        ("dead_kind", b"timeout"),
        ("dead_error", b"timed out after 3s"),
        ("dead_fingerprint", b"0123456789abcdef"),
    ]);
    let filter = Filter::new().reason(DeadReason::Exhausted).unwrap().kind("timeout").unwrap();
    let filter = filter.error("timed out").unwrap().group("0123456789abcdef").unwrap();
    let letter = Candidate::new("order-7").fields(&fields).state(State::Dead);
    assert_eq!(filter.check(&letter, at(NOW)), Match::Yes);
    assert_eq!(filter.check(&letter.state(State::Waiting), at(NOW)), Match::No);
    assert_eq!(Filter::new().error("3s").unwrap().check(&letter.error("refused"), at(NOW)), Match::No);
}

#[test]
fn the_groups_other_and_none_have_letters() {
    let is = |group: &str, fields: &[(&str, &[u8])]| {
        let fields = envelope(fields);
        let letter = Candidate::new("a").fields(&fields).state(State::Dead);
        Filter::new().group(group).unwrap().check(&letter, at(NOW)) == Match::Yes
    };
    let other: [(&str, &[u8]); 2] = [("dead_fingerprint", b"00ff"), ("dead_group", b"other")];
    assert!(is("other", &other) && is("00ff", &other) && !is("none", &other));
    let none: [(&str, &[u8]); 1] = [("dead_error", b"no")];
    assert!(is("none", &none) && !is("other", &none));
    let fields = envelope(&none);
    let alive = Candidate::new("a").fields(&fields).state(State::Waiting);
    assert_eq!(Filter::new().group("none").unwrap().check(&alive, at(NOW)), Match::No);
}

#[test]
fn times_begin_with_since_and_end_before_until() {
    let is = |filter: &Filter, ms: u64| filter.check(&Candidate::new("a").at(at(ms)), at(NOW)) == Match::Yes;
    let since = Filter::new().since(at(NOW - 5)).unwrap();
    assert!(is(&since, NOW - 5) && !is(&since, NOW - 6));
    let until = Filter::new().until(at(NOW - 5)).unwrap();
    assert!(is(&until, NOW - 6) && !is(&until, NOW - 5));
    let old = Filter::new().older_than(Duration::from_secs(60)).unwrap();
    assert!(is(&old, NOW - 60_001) && !is(&old, NOW - 60_000));
    let fixed = old.clone().fixed_at(at(NOW));
    assert!(is(&fixed, NOW - 60_001) && !is(&fixed, NOW - 60_000));
    assert_eq!(fixed, Filter::new().until(at(NOW - 60_000)).unwrap());
    let new = Filter::new().and("since", "1m").unwrap();
    assert!(is(&new, NOW - 60_000) && !is(&new, NOW - 60_001));
    assert_eq!(new.to_string(), "--since 1m");
    assert_eq!(new.fixed_at(at(NOW)), Filter::new().since(at(NOW - 60_000)).unwrap());
    assert_eq!(Filter::new().and("until", "1m").unwrap(), old);
}

#[test]
fn a_filter_is_shown_as_a_person_would_type_it() {
    let filter = Filter::new().job_type("mail.*").unwrap().error("it's late").unwrap();
    let filter = filter.condition("payload.items[0].sku != x").unwrap().header("tenant", "9").unwrap();
    let filter = filter.older_than(Duration::from_secs(5400)).unwrap().since(at(NOW)).unwrap();
    assert_eq!(
        filter.to_string(),
        "--type 'mail.*' --error 'it'\\''s late' --where 'payload.items[0].sku!=x' --where h.tenant=9 \
         --older-than '1h 30m' --since 2023-11-14T22:13:20.000Z"
    );
}

#[test]
fn a_stored_filter_with_anything_unknown_is_refused() {
    let stored = r#"{"conditions":[["type","mail.*"],["where","payload.customer=9"]]}"#;
    let filter: Filter = serde_json::from_str(stored).unwrap();
    assert_eq!(serde_json::to_string(&filter).unwrap(), stored);
    for wrong in [
        r#"{"conditions":[["color","red"]]}"#,
        r#"{"conditions":[["type",""]]}"#,
        r#"{"conditions":[],"except":[]}"#,
        r#"{}"#,
    ] {
        assert!(serde_json::from_str::<Filter>(wrong).is_err(), "{wrong}");
    }
}

fn any_condition() -> impl Strategy<Value = (&'static str, String)> {
    let operator =
        prop_oneof![Just("="), Just("!="), Just("<"), Just("<="), Just(">"), Just(">="), Just("~")];
    let name = "\\PC{1,12}";
    let comparison =
        (name, 0..9_usize, operator, "[^=~\\s]\\PC{0,20}").prop_map(|(name, at, operator, value)| {
            let name = serde_json::to_string(&name).unwrap();
            ("where", format!("payload[{name}][{at}].x{operator}{value}"))
        });
    let text = "[^\\s]\\PC{0,20}";
    prop_oneof![
        comparison,
        text.prop_map(|text| ("text", text)),
        text.prop_map(|text| ("error", text)),
        "[a-z0-9][a-z0-9._-]{0,20}\\*?".prop_map(|name| ("type", name)),
        (0..Timestamp::MAX.as_ms() / 2).prop_map(|ms| ("since", instant_text(at(ms)))),
        (1..100_000_000_u64).prop_map(|ms| ("since", format_duration(Duration::from_millis(ms)))),
        (1..100_000_000_u64).prop_map(|ms| ("older-than", format_duration(Duration::from_millis(ms)))),
    ]
}

proptest! {
    #[test]
    fn a_stored_filter_comes_back_the_same(conditions in vec(any_condition(), 0..8)) {
        let mut filter = Filter::new();
        for (name, value) in conditions {
            filter = filter.and(name, &value).unwrap();
        }
        let stored = serde_json::to_string(&filter).unwrap();
        prop_assert_eq!(serde_json::from_str::<Filter>(&stored).unwrap(), filter);
    }

    #[test]
    fn reading_any_text_as_a_condition_never_panics(name in "(type|where|text|since|id-prefix)", value in "\\PC*") {
        if let Ok(filter) = Filter::new().and(&name, &value) {
            prop_assert!(!filter.is_empty() && !filter.to_string().is_empty());
        }
        let _ignored = Filter::new().condition(&format!("payload.{value}")).is_ok();
        let _ignored = Filter::new().condition(&format!("payload[{value}")).is_ok();
    }

    #[test]
    fn checking_any_payload_never_panics(payload in vec(any::<u8>(), 0..200), is_json in any::<bool>()) {
        let filter = condition("payload.a[0].b>9").text("x").unwrap();
        let _ignored = found(&filter, &payload, if is_json { "json" } else { "msgpack" });
    }

    #[test]
    fn unequal_is_the_opposite_of_equal(value in "[a-z0-9]{1,3}", wanted in "[a-z0-9]{1,3}") {
        let payload = format!(r#"{{"a":{}}}"#, serde_json::to_string(&value).unwrap());
        let equal = found(&condition(&format!("payload.a={wanted}")), payload.as_bytes(), "json");
        let unequal = found(&condition(&format!("payload.a!={wanted}")), payload.as_bytes(), "json");
        prop_assert_eq!((equal == Match::Yes, unequal == Match::No), (value == wanted, value == wanted));
    }
}

#[test]
fn large_fields_that_are_elsewhere_rule_no_job_out() {
    let light = envelope(&[("type", b"mail.send"), ("offloaded", b"token 10"), ("encoding", b"offloaded")]);
    let may_match = |filter: Filter| filter.may_match(&Candidate::new("order-7").fields(&light), at(NOW));
    assert!(may_match(condition("payload.customer=9").job_type("mail.*").unwrap()));
    assert!(may_match(condition("payload.customer!=9")));
    assert!(may_match(Filter::new().error("timed out").unwrap()), "the error may be elsewhere too");
    assert!(!may_match(condition("payload.customer=9").job_type("report").unwrap()));
}

#[test]
fn a_filter_knows_which_names_it_looks_at() {
    let looks = |filter: &Filter| filter.looks_at(|name| name == "card");
    for text in ["payload.payer.card>4", "payload.card[0]=4", "payload[\"card\"].number~4", "h.card=4"] {
        assert!(looks(&condition(text)), "{text}");
    }
    assert!(looks(&Filter::new().text("4111").unwrap()));
    for text in ["payload.order=card", "h.tenant=card", "payload.cards=4"] {
        assert!(!looks(&condition(text)), "{text}");
    }
    assert!(!looks(&Filter::new().and("error", "card").unwrap()));
}

#[test]
fn what_is_masked_in_a_text_decides_nothing() {
    let names = ["card".to_owned()];
    let fields = envelope(&[
        ("type", b"mail.send"),
        ("payload", br#"{"body":"{\"card\":\"4713\",\"to\":\"ann\"}"}"#),
        ("h.note", b"card=4711 x"),
        ("dead_error", b"declined: card=4714"),
    ]);
    let letter = Candidate::new("order-7").state(State::Dead).fields(&fields);
    let holds = |filter: &Filter| filter.check(&letter, at(NOW)) == Match::Yes;
    for (name, hidden, shown) in [
        ("error", "4714", "declined: card=***"),
        ("where", "h.note~4711", "h.note~x"),
        ("where", "h.note=card=4711 x", "h.note=card=*** x"),
        ("where", "payload.body~4713", "payload.body~ann"),
        ("where", r#"payload.body>{"card":"47"#, "payload.body~***"),
    ] {
        let filter = |value: &str| Filter::new().and(name, value).unwrap();
        assert!(holds(&filter(hidden)) && !holds(&filter(hidden).masked(&names)), "{hidden}");
        assert!(holds(&filter(shown).masked(&names)), "{shown}");
    }
}

#[test]
fn a_stored_filter_still_knows_what_is_masked() {
    let names = ["card".to_owned()];
    for filter in [Filter::new().error("no").unwrap(), condition("payload.a~no")] {
        let filter = filter.masked(&names);
        let stored = serde_json::to_string(&filter).unwrap();
        assert!(stored.contains("card"), "{stored}");
        assert_eq!(serde_json::from_str::<Filter>(&stored).unwrap(), filter);
    }
    // Older versions can read the others.
    let stored = serde_json::to_string(&Filter::new().state(State::Dead).unwrap().masked(&names)).unwrap();
    assert_eq!(stored, r#"{"conditions":[["state","dead"]]}"#);
}
