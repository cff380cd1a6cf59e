//! Measures the cost of an S3 signature, or prints signatures for a test (`tests/s3/test_s3_signer.py`). Without an
//! argument, it prints the nanoseconds per request. With `-`, it reads requests from standard input, one JSON object
//! per line. For each request, it prints the header fields as JSON.
//!
//! Run it with `cargo run --release -p fetchmill-model --example s3_signer` on a quiet machine. It prints the best of
//! several rounds.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::io::BufRead;
use std::time::Instant;

use fetchmill_model::name;
use fetchmill_model::s3::{Credentials, Signer};
use serde::Deserialize;

const ROUNDS: usize = 15;
const REPEATS: u32 = 20_000;

/// A request. `path` contains the bucket and the key and is not encoded.
#[derive(Deserialize)]
struct Request {
    method: String,
    host: String,
    region: String,
    path: String,
    query: String,
    body: String,
    now: u64,
    access_key: String,
    secret_key: String,
    token: Option<String>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() != Some("-") {
        println!("signature of a GET: {:.0} ns", cost(None));
        println!("with a session token of 1,000 bytes: {:.0} ns", cost(Some("t".repeat(1000))));
        return Ok(());
    }
    for line in std::io::stdin().lock().lines() {
        println!("{}", serde_json::to_string(&signed(serde_json::from_str(&line?)?))?);
    }
    Ok(())
}

/// Returns the path and query that are sent, and the header fields.
fn signed(request: Request) -> (String, Vec<(String, String)>) {
    let Request { method, host, region, path, query, body, now, access_key, secret_key, token } = request;
    let mut target = Vec::new();
    name::encode(path.as_bytes(), &mut target);
    if !query.is_empty() {
        target.push(b'?');
        target.extend_from_slice(query.as_bytes());
    }
    let credentials = Credentials { access_key, secret_key, token };
    let mut out = Vec::new();
    Signer::new(&region, &host).write_fields(&credentials, &method, &target, body.as_bytes(), now, &mut out);
    let fields = String::from_utf8_lossy(&out);
    let fields = fields.lines().filter_map(|line| line.split_once(": "));
    let fields = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    (String::from_utf8_lossy(&target).into_owned(), fields)
}

/// Returns the duration of one signature in the best round, in nanoseconds.
fn cost(token: Option<String>) -> f64 {
    let credentials =
        Credentials { access_key: "AKIAIOSFODNN7EXAMPLE".into(), secret_key: "secret".into(), token };
    let mut signer = Signer::new("eu-central-1", "bucket.s3.eu-central-1.amazonaws.com");
    let mut out = Vec::new();
    let round = |_| {
        let start = Instant::now();
        for _ in 0..REPEATS {
            out.clear();
            let target = black_box(b"/photos/000012/000012345.bin");
            signer.write_fields(&credentials, "GET", target, b"", 1_795_208_880, &mut out);
            black_box(&out);
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(REPEATS)
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}
