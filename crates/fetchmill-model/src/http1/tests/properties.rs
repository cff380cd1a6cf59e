//! Properties that hold for any stream, however it is split.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{MAX_BODY, Read, read_cut};
use crate::http1::Framing;

/// Generates a valid reply and its body.
fn valid_reply() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let fields = prop::collection::vec(("[A-Za-z][A-Za-z0-9-]{0,20}", "[ -~]{0,40}"), 0..8);
    let chunks = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..60), 0..8);
    let interims = 0..3_usize;
    (fields, chunks, interims, 0..3_u8, any::<bool>()).prop_map(
        |(fields, chunks, interims, framing, trailer)| {
            let body = chunks.concat();
            let mut stream = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n".repeat(interims);
            stream.extend(b"HTTP/1.1 200 OK\r\n");
            for (name, value) in fields {
                stream.extend(format!("X-{name}: {value}\r\n").into_bytes());
            }
            match framing {
                0 => stream.extend(format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes()),
                1 => stream.extend(b"\r\n"),
                _ => {
                    stream.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                    for chunk in &chunks {
                        stream.extend(format!("{:x};e=f\r\n", chunk.len()).into_bytes());
                        stream.extend(chunk);
                        stream.extend(b"\r\n");
                    }
                    stream.extend(b"0\r\n");
                    stream.extend(if trailer { &b"A: b\r\n\r\n"[..] } else { b"\r\n" });
                }
            }
            if framing != 2 {
                stream.extend_from_slice(&body);
            }
            (stream, body)
        },
    )
}

/// Generates arbitrary streams. Half of the streams begin like a reply.
fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20),
        prop::sample::select(vec![
            &b"HTTP/1.1 200 OK\r\n"[..],
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"Content-Length: 3\r\n",
            b"Transfer-Encoding: chunked\r\n",
            b"\r\n",
            b"\n",
            b"3\r\nabc\r\n",
            b"0\r\n\r\n",
            b"abc",
            b": ",
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    (any::<bool>(), prop::collection::vec(piece, 0..12)).prop_map(|(reply, pieces)| {
        let start: &[u8] = if reply { b"HTTP/1.1 200 OK\r\n" } else { b"" };
        [start, &pieces.concat()].concat()
    })
}

fn sorted(cuts: &[prop::sample::Index], length: usize) -> BTreeSet<usize> {
    cuts.iter().map(|cut| cut.index(length + 1)).collect()
}

proptest! {
    #[test]
    fn a_valid_reply_is_read_however_it_is_cut(
        (stream, body) in valid_reply(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let cuts = sorted(&cuts, stream.len());
        match read_cut(&stream, cuts.into_iter()) {
            Read::Reply(head, got, consumed) => {
                prop_assert_eq!(head.status, 200);
                prop_assert_eq!(got, body);
                prop_assert_eq!(consumed, stream.len());
                prop_assert_eq!(head.keep_alive, head.framing != Framing::Eof);
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn any_stream_ends_the_same_however_it_is_cut(
        stream in any_stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let whole = read_cut(&stream, std::iter::empty());
        let cuts = sorted(&cuts, stream.len());
        prop_assert_eq!(&read_cut(&stream, cuts.into_iter()), &whole);
        prop_assert_eq!(&read_cut(&stream, 1..stream.len()), &whole);
        if let Read::Reply(_, body, consumed) = whole {
            prop_assert!(body.len() as u64 <= MAX_BODY && consumed <= stream.len());
        }
    }
}
