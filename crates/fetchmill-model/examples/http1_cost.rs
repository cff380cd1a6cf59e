//! Measures the cost of the HTTP/1.1 codec: the nanoseconds for a complete reply of 100 bytes, and for a request.
//!
//! Run it with `cargo run --release -p fetchmill-model --example http1_cost` on a quiet machine. It prints the best of
//! several rounds.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use fetchmill_model::http1::{BodySink, ReplyProgress, ReplyReader, RequestTemplate};
use fetchmill_model::name;

const ROUNDS: usize = 15;
const REPEATS: u32 = 200_000;

/// Counts the bytes of a body and does nothing else, so that only the codec is measured.
struct Count(usize);

impl BodySink for Count {
    fn piece(&mut self, bytes: &[u8]) {
        self.0 += black_box(bytes).len();
    }
}

fn main() {
    let lean = reply("Content-Length: 100\r\n");
    let usual = reply(
        "Server: nginx/1.26.0\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Type: application/octet-stream\r\n\
         Content-Length: 100\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nConnection: keep-alive\r\n\
         ETag: \"2ebc1b41-64\"\r\nAccept-Ranges: bytes\r\n",
    );
    println!("reply, lean head ({} bytes): {:.0} ns", lean.len(), reply_cost(&lean));
    println!("reply, usual head ({} bytes): {:.0} ns", usual.len(), reply_cost(&usual));

    let Ok(template) = RequestTemplate::new("example.org:8080", "/files/", "", &[]) else {
        unreachable!("the parts are valid");
    };
    for name in ["000012/000012345.bin", "photos/2024/été à la plage (1).jpg"] {
        let mut out = Vec::new();
        let request = best(|| {
            out.clear();
            template.write(black_box(name.as_bytes()), &mut out);
            black_box(&out);
        });
        let mut path = Vec::new();
        let on_disk = best(|| {
            black_box(name::to_path(black_box(name.as_bytes()), &mut path)).ok();
        });
        println!("name {name}: request {request:.0} ns, path {on_disk:.0} ns");
    }
}

fn reply(fields: &str) -> Vec<u8> {
    let mut bytes = format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes();
    bytes.extend([b'x'; 100]);
    bytes
}

fn reply_cost(bytes: &[u8]) -> f64 {
    let mut reader = ReplyReader::new(1 << 20);
    let mut body = Count(0);
    best(|| {
        reader.start();
        let progress = reader.read(black_box(bytes), &mut body);
        assert_eq!(progress, Ok(ReplyProgress::Done { consumed: bytes.len() }));
    })
}

/// Returns the duration of one call in the best round, in nanoseconds.
fn best(mut call: impl FnMut()) -> f64 {
    (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..REPEATS {
                call();
            }
            start.elapsed().as_nanos() as f64 / f64::from(REPEATS)
        })
        .fold(f64::INFINITY, f64::min)
}
