//! Signature Version 4 in the `Authorization` field. Parses the claim of a request and computes the correct signature.
//!
//! These functions are pure. `gate` decides which signatures to accept.

use std::cell::RefCell;

use aws_lc_rs::{digest, hmac};

use super::failure::Failure;
use super::head::RequestHead;
use super::uri::{self, Query};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const HEX: &[u8; 16] = b"0123456789abcdef";
/// Number of derived keys that are cached per thread. There is one per day, region and secret.
const KEYS_MAX: usize = 16;

/// Contents of an `Authorization` field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SignatureClaim<'a> {
    pub(crate) access_key: &'a str,
    /// Day, such as `20130524`.
    pub(crate) day: &'a str,
    pub(crate) region: &'a str,
    signed: &'a str,
    signature: &'a str,
}

fn malformed(message: &'static str) -> Failure {
    Failure::new(400, "AuthorizationHeaderMalformed", message)
}

/// Parses an `Authorization` field.
pub(crate) fn claim(authorization: &[u8]) -> Result<SignatureClaim<'_>, Failure> {
    let text = std::str::from_utf8(authorization)
        .map_err(|_| malformed("The authorization header is malformed; it is not text."))?;
    let Some(rest) = text.strip_prefix(ALGORITHM).and_then(|rest| rest.strip_prefix(' ')) else {
        let message =
            "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.";
        return Err(Failure::new(400, "InvalidRequest", message));
    };
    let part =
        |name: &str| rest.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
    let (Some(credential), Some(signed), Some(signature)) =
        (part("Credential"), part("SignedHeaders"), part("Signature"))
    else {
        return Err(malformed(
            "The authorization header is malformed; it needs Credential, SignedHeaders, Signature.",
        ));
    };
    // Access keys can contain slashes. The scope starts after the fourth slash from the end.
    let mut scope = credential.rsplitn(5, '/');
    let (end, service) = (scope.next(), scope.next());
    let (Some(region), Some(day), Some(access_key)) = (scope.next(), scope.next(), scope.next()) else {
        return Err(malformed("The authorization header is malformed; the Credential is mal-formed."));
    };
    if end != Some("aws4_request") || service != Some("s3") {
        return Err(malformed(
            "The authorization header is malformed; the scope must end with s3/aws4_request.",
        ));
    }
    Ok(SignatureClaim { access_key, day, region, signed, signature })
}

/// Fails if a required field is not signed. The required fields are `Host` and all `x-amz-` fields.
pub(crate) fn check_signed(head: &RequestHead<'_>, claim: &SignatureClaim<'_>) -> Result<(), Failure> {
    for (name, _) in head.fields() {
        let is_due = name.eq_ignore_ascii_case(b"host")
            || name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case(b"x-amz-"));
        if is_due && !claim.signed.split(';').any(|signed| signed.as_bytes().eq_ignore_ascii_case(name)) {
            let message = "There were headers present in the request which were not signed";
            let name = String::from_utf8_lossy(name).to_lowercase();
            return Err(Failure::new(403, "AccessDenied", message).with("HeadersNotSigned", name));
        }
    }
    Ok(())
}

/// Appends the canonical request, over which the signature is computed. `path` is decoded.
pub(crate) fn canonical(
    head: &RequestHead<'_>,
    path: &[u8],
    query: &Query,
    claim: &SignatureClaim<'_>,
    content_hash: &[u8],
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(head.method);
    out.push(b'\n');
    uri::encode(path, true, out);
    out.push(b'\n');
    query.canonical(out);
    out.push(b'\n');
    for name in claim.signed.split(';') {
        out.extend_from_slice(name.as_bytes());
        out.push(b':');
        let values = head.fields().iter().filter(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()));
        for (position, (_, value)) in values.enumerate() {
            if position > 0 {
                out.push(b',');
            }
            single_spaces(value, out);
        }
        out.push(b'\n');
    }
    out.push(b'\n');
    out.extend_from_slice(claim.signed.as_bytes());
    out.push(b'\n');
    out.extend_from_slice(content_hash);
}

/// Appends a value, collapsing repeated spaces.
fn single_spaces(value: &[u8], out: &mut Vec<u8>) {
    for (position, &byte) in value.iter().enumerate() {
        if byte != b' ' || value.get(position + 1) != Some(&b' ') {
            out.push(byte);
        }
    }
}

/// Appends the string to sign.
pub(crate) fn string_to_sign(claim: &SignatureClaim<'_>, time: &[u8], canonical: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(ALGORITHM.as_bytes());
    out.push(b'\n');
    out.extend_from_slice(time);
    for part in ["\n", claim.day, "/", claim.region, "/s3/aws4_request\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(&sha256(canonical));
}

/// Returns whether the signature was made with this secret.
pub(crate) fn is_right(claim: &SignatureClaim<'_>, secret: &str, string_to_sign: &[u8]) -> bool {
    let tag = with_key(secret, claim.day, claim.region, |key| hmac::sign(key, string_to_sign));
    hex(tag.as_ref()) == *claim.signature.as_bytes()
}

/// Returns the SHA-256 in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 64] {
    let mut digits = [0; 64];
    digits.copy_from_slice(&hex(digest::digest(&digest::SHA256, bytes).as_ref()));
    digits
}

/// Returns bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> Vec<u8> {
    let mut digits = vec![0; bytes.len() * 2];
    for (byte, digits) in bytes.iter().zip(digits.as_chunks_mut::<2>().0) {
        *digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
    }
    digits
}

/// A signing key, and the values that it was derived from.
struct DerivedKey {
    secret: String,
    day: String,
    region: String,
    key: hmac::Key,
}

thread_local! {
    static KEYS: RefCell<Vec<DerivedKey>> = const { RefCell::new(Vec::new()) };
}

/// Calls `use_it` with a cached signing key. Deriving a key costs four times as much as verifying a signature, and the
/// key stays the same for a whole day.
fn with_key<T>(secret: &str, day: &str, region: &str, use_it: impl FnOnce(&hmac::Key) -> T) -> T {
    KEYS.with_borrow_mut(|keys| {
        let is_it =
            |derived: &DerivedKey| derived.secret == secret && derived.day == day && derived.region == region;
        let position = keys.iter().position(is_it).unwrap_or_else(|| {
            keys.truncate(KEYS_MAX - 1);
            let key = derive(secret, day, region);
            keys.insert(0, DerivedKey { secret: secret.into(), day: day.into(), region: region.into(), key });
            0
        });
        use_it(&keys[position].key)
    })
}

fn derive(secret: &str, day: &str, region: &str) -> hmac::Key {
    let mut key = hmac::Key::new(hmac::HMAC_SHA256, format!("AWS4{secret}").as_bytes());
    for part in [day, region, "s3", "aws4_request"] {
        key = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref());
    }
    key
}

#[cfg(test)]
mod tests {
    use super::super::head;
    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    /// Returns whether an example request from the AWS documentation ("Examples: Signature Calculations") is signed
    /// correctly.
    fn holds(request: &str, content_hash: &str, signed: &str, signature: &str, secret: &str) -> bool {
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders={signed},Signature={signature}"
        );
        let text = format!(
            "{request}\r\nHost: examplebucket.s3.amazonaws.com\r\nx-amz-content-sha256: {content_hash}\r\n\
             x-amz-date: 20130524T000000Z\r\n\r\n"
        );
        let (head, _) = head::parse(text.as_bytes()).expect("well-formed").expect("whole");
        let claim = claim(authorization.as_bytes()).expect("well-formed");
        check_signed(&head, &claim).expect("all is signed");
        let mut path = Vec::new();
        assert!(uri::decode(head.path, false, &mut path));
        let query = Query::parse(head.query).expect("well-formed");
        let (mut request, mut text) = (Vec::new(), Vec::new());
        canonical(&head, &path, &query, &claim, content_hash.as_bytes(), &mut request);
        string_to_sign(&claim, b"20130524T000000Z", &request, &mut text);
        is_right(&claim, secret, &text)
    }

    #[test]
    fn the_published_examples_are_right() {
        for (request, content_hash, signed, signature) in [
            (
                "GET /test.txt HTTP/1.1\r\nRange: bytes=0-9",
                EMPTY,
                "host;range;x-amz-content-sha256;x-amz-date",
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "PUT /test%24file.text HTTP/1.1\r\nDate: Fri, 24 May 2013 00:00:00 GMT\r\n\
                 x-amz-storage-class: REDUCED_REDUNDANCY",
                "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
                "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                "GET /?lifecycle HTTP/1.1",
                EMPTY,
                "host;x-amz-content-sha256;x-amz-date",
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "GET /?max-keys=2&prefix=J HTTP/1.1",
                EMPTY,
                "host;x-amz-content-sha256;x-amz-date",
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
        ] {
            assert!(holds(request, content_hash, signed, signature, SECRET), "{request}");
            assert!(!holds(request, content_hash, signed, signature, "another"), "{request}");
            let changed = request.replacen('/', "/x", 1);
            assert!(!holds(&changed, content_hash, signed, signature, SECRET), "{changed}");
        }
    }

    #[test]
    fn a_claim_is_read_with_and_without_spaces() {
        for separator in [", ", ","] {
            let text =
                ["Credential=A/B/20130524/eu-west-1/s3/aws4_request", "SignedHeaders=host", "Signature=ab"];
            let text = format!("{ALGORITHM} {}", text.join(separator));
            let expected = SignatureClaim {
                access_key: "A/B",
                day: "20130524",
                region: "eu-west-1",
                signed: "host",
                signature: "ab",
            };

            assert_eq!(claim(text.as_bytes()).expect("well-formed"), expected);
        }
    }

    #[test]
    fn other_claims_are_refused() {
        for (text, code) in [
            ("AWS key:signature", "InvalidRequest"),
            ("AWS4-HMAC-SHA256 Credential=A", "AuthorizationHeaderMalformed"),
            (
                "AWS4-HMAC-SHA256 Credential=A/1/r/s3,SignedHeaders=host,Signature=ab",
                "AuthorizationHeaderMalformed",
            ),
            (
                "AWS4-HMAC-SHA256 Credential=A/1/r/sqs/aws4_request,SignedHeaders=host,Signature=ab",
                "AuthorizationHeaderMalformed",
            ),
        ] {
            assert_eq!(claim(text.as_bytes()).expect_err("refused").code, code, "{text}");
        }
    }

    #[test]
    fn a_field_that_is_not_signed_is_refused() {
        let text = "GET / HTTP/1.1\r\nHost: x\r\nX-Amz-Meta-A: b\r\nAccept: c\r\n\r\n";
        let (head, _) = head::parse(text.as_bytes()).expect("well-formed").expect("whole");
        let claim = |signed| SignatureClaim { access_key: "", day: "", region: "", signed, signature: "" };

        assert!(check_signed(&head, &claim("host;x-amz-meta-a")).is_ok());
        assert_eq!(check_signed(&head, &claim("host")).expect_err("refused").code, "AccessDenied");
        assert!(check_signed(&head, &claim("x-amz-meta-a")).is_err());
    }
}
