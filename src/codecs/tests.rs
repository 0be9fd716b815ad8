//! Tests of codecs: the vectors that all packages share, and everything that a program can do.

use std::collections::HashMap;
use std::sync::Mutex;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use proptest::prelude::*;
use serde_json::Value;

use super::*;

#[derive(Default)]
struct Memory(Mutex<HashMap<String, Bytes>>);

impl ClaimStore for Memory {
    async fn put(&self, sha256: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.0.lock().unwrap().insert(sha256.to_owned(), bytes);
        Ok(())
    }

    async fn get(&self, sha256: &str, _: usize) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.lock().unwrap().get(sha256).cloned())
    }
}

struct Broken;

impl ClaimStore for Broken {
    async fn put(&self, _: &str, _: Bytes) -> Result<(), StoreError> {
        Err("the disk is full".into())
    }

    async fn get(&self, _: &str, _: usize) -> Result<Option<Bytes>, StoreError> {
        Err("the disk is gone".into())
    }
}

fn vectors() -> Value {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/codecs/vectors.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn bytes(text: &Value) -> Bytes {
    BASE64_STANDARD.decode(text.as_str().unwrap()).unwrap().into()
}

fn keys() -> Keys {
    let vectors = vectors();
    let all =
        ["2026-11", "2026-10"].map(|name| (name, bytes(&vectors["keys"][name])[..].try_into().unwrap()));
    Keys::new(all).unwrap()
}

fn vector_codecs(vectors: &Value) -> Codecs {
    let claims = vectors["claims"].as_object().unwrap().iter().map(|(hash, data)| {
        let zeros = data.get("zeros").and_then(Value::as_u64);
        let data = zeros.map_or_else(|| bytes(data), |count| vec![0; usize::try_from(count).unwrap()].into());
        (hash.clone(), data)
    });
    let most = usize::try_from(vectors["max_bytes"].as_u64().unwrap()).unwrap();
    Codecs::new().keys(keys()).claims(Memory(Mutex::new(claims.collect()))).max_bytes(most)
}

async fn decoded(
    codecs: &Codecs,
    vector: &Value,
    encoding: Encoding,
) -> Result<(Encoding, Bytes), CodecError> {
    let job_type = vector["type"].as_str().unwrap().parse().unwrap();
    codecs.decode(&job_type, vector["header"].as_str().unwrap(), encoding, bytes(&vector["payload"])).await
}

fn named(vector: &Value) -> Encoding {
    Encoding::parse(vector["encoding"].as_str().unwrap()).unwrap()
}

fn a() -> JobType {
    "a".parse().unwrap()
}

#[tokio::test]
async fn every_vector_is_opened() {
    let vectors = vectors();
    let codecs = vector_codecs(&vectors);
    for vector in vectors["opened"].as_array().unwrap() {
        let opened = decoded(&codecs, vector, Encoding::Raw).await;
        assert_eq!(opened, Ok((named(vector), bytes(&vector["plain"]))), "{}", vector["what"]);
    }
}

#[tokio::test]
async fn every_wrong_payload_is_refused_with_the_reason() {
    let vectors = vectors();
    let codecs = vector_codecs(&vectors);
    for vector in vectors["refused"].as_array().unwrap() {
        let error = decoded(&codecs, vector, named(vector)).await.unwrap_err().to_string();
        assert!(error.contains(vector["error"].as_str().unwrap()), "{}: {error}", vector["what"]);
    }
}

#[tokio::test]
async fn each_combination_comes_back_as_it_was() {
    let noise: Vec<u8> = (0..5000).map(|_| rand::random()).collect();
    let texts = [Bytes::new(), Bytes::from_static(b"1"), noise.into(), "naive ".repeat(50_000).into()];
    for (at, text) in (0..8).flat_map(|at| texts.iter().map(move |text| (at, text))) {
        let mut codecs = Codecs::new().compress(at & 1 > 0).claim_above(2000);
        codecs = if at & 2 > 0 { codecs.keys(keys()) } else { codecs };
        codecs = if at & 4 > 0 { codecs.claims(Memory::default()) } else { codecs };
        let Some((codec, sent)) = codecs.encode(&a(), Encoding::Json, text.clone()).await.unwrap() else {
            assert!(at & 2 == 0, "encryption is never left out");
            continue;
        };
        let back = codecs.decode(&a(), &codec.to_string(), Encoding::Raw, sent).await;
        assert_eq!(back, Ok((Encoding::Json, text.clone())), "{codec}");
    }
}

#[tokio::test]
async fn nothing_is_done_that_gains_nothing() {
    let codecs = Codecs::new().compress(true).claims(Memory::default());
    let noise: Vec<u8> = (0..5000).map(|_| rand::random()).collect();
    for text in [Bytes::from("x".repeat(1024)), noise.into()] {
        assert_eq!(codecs.encode(&a(), Encoding::Json, text).await, Ok(None));
    }
    let (codec, sent) = codecs.encode(&a(), Encoding::Json, "x".repeat(1025).into()).await.unwrap().unwrap();
    assert!(codec.to_string() == "json gzip" && sent.len() < 100);
}

#[tokio::test]
async fn the_first_key_encrypts_and_all_decrypt() {
    let old = Codecs::new().keys(Keys::new([("a", [0; 32])]).unwrap());
    let new = Codecs::new().keys(Keys::new([("b", [1; 32]), ("a", [0; 32])]).unwrap());
    let one = || Bytes::from_static(b"1");
    let (codec, sent) = old.encode(&a(), Encoding::Json, one()).await.unwrap().unwrap();
    assert_eq!(codec.to_string(), "json aes-256-gcm;key=a");
    assert_eq!(new.decode(&a(), &codec.to_string(), Encoding::Raw, sent).await, Ok((Encoding::Json, one())));
    let (codec, sent) = new.encode(&a(), Encoding::Json, one()).await.unwrap().unwrap();
    let error = old.decode(&a(), &codec.to_string(), Encoding::Raw, sent).await.unwrap_err().to_string();
    assert!(error.contains("encrypted with the key b, which this program does not have"), "{error}");
}

#[tokio::test]
async fn a_store_that_fails_says_so() {
    let codecs = Codecs::new().claims(Broken).claim_above(0);
    let error = codecs.encode(&a(), Encoding::Json, Bytes::from_static(b"1")).await.unwrap_err();
    assert!(error.to_string().contains("so nothing was sent: the disk is full"), "{error}");
    let header = format!("json claim;sha256={}", "0".repeat(64));
    let error = codecs.decode(&a(), &header, Encoding::Raw, Bytes::new()).await.unwrap_err();
    assert!(error.to_string().contains("cannot be read") && error.to_string().ends_with("the disk is gone"));
    let large = Codecs::new().max_bytes(1).encode(&a(), Encoding::Json, Bytes::from_static(b"12")).await;
    assert_eq!(large.unwrap_err().to_string(), "the payload has 2 bytes; the most is 1");
}

#[test]
fn without_keys_only_what_was_compressed_is_visible() {
    let seen = |header: &str, payload: &[u8], most| {
        let fields = [(&b"payload"[..], payload), (b"encoding", b"raw"), (b"h.codec", header.as_bytes())];
        visible(&Envelope::new(fields.into_iter()), most)
    };
    let packed = gzip::deflated(br#"{"to":"ann"}"#).unwrap();
    assert_eq!(
        seen("json gzip", &packed, 99),
        Some(Ok((Encoding::Json, Bytes::from_static(br#"{"to":"ann"}"#))))
    );
    let large = seen("json gzip", &packed, 3).unwrap().unwrap_err();
    assert!(large.ends_with(", and the decompressed payload has more than 3 bytes"), "{large}");
    let sealed = seen("json aes-256-gcm;key=a", b"x", 99).unwrap();
    assert_eq!(sealed, Err("encrypted with the key a, 1 bytes".to_owned()));
    assert_eq!(seen("h264", b"x", 99), None);
}

proptest! {
    #[test]
    fn no_bytes_and_no_header_break_a_decoder(header in "(json|raw)( gzip)?( aes-256-gcm;key=2026-11)?|\\PC*", payload: Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let codecs = Codecs::new().keys(keys()).max_bytes(10_000);
        let decoded = runtime.block_on(codecs.decode(&a(), &header, Encoding::Raw, payload.into()));
        prop_assert!(decoded.is_err(), "{header:?}");
    }

    #[test]
    fn a_flipped_bit_is_found(at in 0_usize..60, bit in 0..8) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let codecs = Codecs::new().keys(keys());
        let plain = Bytes::from_static(b"a text of thirty-two bytes......");
        let (codec, sent) = runtime.block_on(codecs.encode(&a(), Encoding::Json, plain)).unwrap().unwrap();
        let mut changed = sent.to_vec();
        changed[at] ^= 1_u8 << bit;
        let decoded = runtime.block_on(codecs.decode(&a(), &codec.to_string(), Encoding::Raw, changed.into()));
        prop_assert!(decoded.is_err());
    }
}
