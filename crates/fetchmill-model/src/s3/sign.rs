//! Signature Version 4, in header fields (AWS: "Signature Calculations for the Authorization Header", of the S3 API
//! reference). What is the same for all requests of a day is made once: the signing key, the scope.
//!
//! Cost: two hashes and one HMAC of some hundred bytes a request.

use aws_lc_rs::{digest, hmac};

use super::Credentials;
use crate::time_text::basic_date;

/// What asks for the checksum of an object.
pub const CHECKSUM_MODE: &[u8] = b"x-amz-checksum-mode: ENABLED\r\n";
/// The SHA-256 of no bytes: the body of a GET.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const S3: &str = "s3";
const STS: &str = "sts";
/// Bytes of `20261122`, the day of a date.
const DAY_LEN: usize = 8;

/// Signs the requests to one host, for one region.
#[derive(Debug)]
pub struct Signer {
    service: &'static str,
    region: Box<str>,
    host: Box<str>,
    day: Option<SigningDay>,
    canonical: Vec<u8>,
    asks_checksums: bool,
}

/// What holds for a day and a pair of keys.
#[derive(Debug)]
struct SigningDay {
    date: [u8; DAY_LEN],
    /// With the secret: the same access key may get another one.
    credentials: Credentials,
    key: hmac::Key,
}

impl Signer {
    /// For the value `host` of the field `Host`.
    pub fn new(region: &str, host: &str) -> Self {
        Signer {
            service: S3,
            region: region.into(),
            host: host.into(),
            day: None,
            canonical: Vec::new(),
            asks_checksums: false,
        }
    }

    /// The same for requests to the service that gives out credentials of roles.
    pub fn for_sts(region: &str, host: &str) -> Self {
        Signer { service: STS, ..Signer::new(region, host) }
    }

    /// Lets a request for an object ask for its checksum, too: [`CHECKSUM_MODE`].
    #[must_use]
    pub fn asking_checksums(self, asks_checksums: bool) -> Self {
        Signer { asks_checksums, ..self }
    }

    /// Appends the fields that sign a request: `x-amz-date`, `x-amz-content-sha256`, `x-amz-security-token` for
    /// credentials that have one, `Authorization`. `target` is the path as it is sent, with its query in canonical
    /// form; `now` is the store's time in seconds since 1970.
    pub fn write_fields(
        &mut self,
        credentials: &Credentials,
        method: &str,
        target: &[u8],
        body: &[u8],
        now: u64,
        out: &mut Vec<u8>,
    ) {
        let date = basic_date(now);
        let mut body_hash = [0; 64];
        let body_hash: &[u8] = if body.is_empty() {
            EMPTY_SHA256.as_bytes()
        } else {
            hex(digest::digest(&digest::SHA256, body).as_ref(), &mut body_hash);
            &body_hash
        };
        let token = credentials.token.as_deref();
        let asks_checksum = self.asks_checksums && method == "GET";
        if asks_checksum {
            out.extend_from_slice(CHECKSUM_MODE);
        }
        self.write_canonical(method, target, body_hash, &date, (token, asks_checksum));
        let day: [u8; DAY_LEN] = std::array::from_fn(|at| date[at]);
        if self.day.as_ref().is_none_or(|known| known.date != day || known.credentials != *credentials) {
            self.day = Some(self.start_day(day, credentials));
        }
        let signature = self.signature(&date, &day);
        for part in [&b"x-amz-date: "[..], &date, b"\r\nx-amz-content-sha256: ", body_hash] {
            out.extend_from_slice(part);
        }
        if let Some(token) = token {
            out.extend_from_slice(b"\r\nx-amz-security-token: ");
            out.extend_from_slice(token.as_bytes());
        }
        let names = signed_names(token, asks_checksum);
        for part in [
            &b"\r\nAuthorization: AWS4-HMAC-SHA256 Credential="[..],
            credentials.access_key.as_bytes(),
            b"/",
            &day,
            b"/",
            self.region.as_bytes(),
            b"/",
            self.service.as_bytes(),
            b"/aws4_request, SignedHeaders=",
            names.as_bytes(),
            b", Signature=",
            &signature,
            b"\r\n",
        ] {
            out.extend_from_slice(part);
        }
    }

    fn write_canonical(
        &mut self,
        method: &str,
        target: &[u8],
        body_hash: &[u8],
        date: &[u8],
        (token, asks_checksum): (Option<&str>, bool),
    ) {
        let out = &mut self.canonical;
        out.clear();
        out.extend_from_slice(method.as_bytes());
        out.push(b'\n');
        let (path, query) = match memchr::memchr(b'?', target) {
            Some(at) => (&target[..at], &target[at + 1..]),
            None => (target, &[][..]),
        };
        write_path(path, out);
        for part in [
            &b"\n"[..],
            query,
            b"\nhost:",
            self.host.as_bytes(),
            if asks_checksum { b"\nx-amz-checksum-mode:ENABLED" } else { b"" },
            b"\nx-amz-content-sha256:",
            body_hash,
            b"\nx-amz-date:",
            date,
        ] {
            out.extend_from_slice(part);
        }
        if let Some(token) = token {
            out.extend_from_slice(b"\nx-amz-security-token:");
            out.extend_from_slice(token.as_bytes());
        }
        for part in [&b"\n\n"[..], signed_names(token, asks_checksum).as_bytes(), b"\n", body_hash] {
            out.extend_from_slice(part);
        }
    }

    fn start_day(&self, day: [u8; DAY_LEN], credentials: &Credentials) -> SigningDay {
        let secret = format!("AWS4{}", credentials.secret_key);
        let mut key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        for part in [&day[..], self.region.as_bytes(), self.service.as_bytes(), b"aws4_request"] {
            key = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part).as_ref());
        }
        SigningDay { date: day, credentials: credentials.clone(), key }
    }

    fn signature(&self, date: &[u8], day: &[u8]) -> [u8; 64] {
        let mut hash = [0; 64];
        hex(digest::digest(&digest::SHA256, &self.canonical).as_ref(), &mut hash);
        let mut signature = [0; 64];
        if let Some(SigningDay { key, .. }) = &self.day {
            let mut context = hmac::Context::with_key(key);
            for part in [
                &b"AWS4-HMAC-SHA256\n"[..],
                date,
                b"\n",
                day,
                b"/",
                self.region.as_bytes(),
                b"/",
                self.service.as_bytes(),
                b"/aws4_request\n",
                &hash,
            ] {
                context.update(part);
            }
            hex(context.sign().as_ref(), &mut signature);
        }
        signature
    }
}

fn signed_names(token: Option<&str>, asks_checksum: bool) -> &'static str {
    match (token, asks_checksum) {
        (Some(_), true) => "host;x-amz-checksum-mode;x-amz-content-sha256;x-amz-date;x-amz-security-token",
        (None, true) => "host;x-amz-checksum-mode;x-amz-content-sha256;x-amz-date",
        (Some(_), false) => "host;x-amz-content-sha256;x-amz-date;x-amz-security-token",
        (None, false) => "host;x-amz-content-sha256;x-amz-date",
    }
}

/// The path as it is signed. It is sent with `%2E` for the dots of a segment `.` or `..`, that nobody on the way is to
/// resolve; a store decodes it, and signs the dots as they are.
fn write_path(path: &[u8], out: &mut Vec<u8>) {
    let mut rest = path;
    while let Some(at) = memchr::memmem::find(rest, b"%2E") {
        out.extend_from_slice(&rest[..at]);
        out.push(b'.');
        rest = &rest[at + 3..];
    }
    out.extend_from_slice(rest);
}

/// In lower case.
fn hex(bytes: &[u8], out: &mut [u8; 64]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2013-05-24T00:00:00Z.
    const NOW: u64 = 1_369_353_600;

    fn credentials() -> Credentials {
        Credentials {
            access_key: "AKIAIOSFODNN7EXAMPLE".into(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
            token: None,
        }
    }

    fn fields(signer: &mut Signer, credentials: &Credentials, target: &str, now: u64) -> String {
        let mut out = Vec::new();
        signer.write_fields(credentials, "GET", target.as_bytes(), b"", now, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn signature(target: &str) -> String {
        let mut signer = Signer::new("us-east-1", "examplebucket.s3.amazonaws.com");
        let fields = fields(&mut signer, &credentials(), target, NOW);
        fields.trim_end().rsplit_once("Signature=").unwrap().1.to_owned()
    }

    /// Those of the S3 API reference that sign no more fields than are signed here.
    #[test]
    fn the_examples_of_aws_have_their_signatures() {
        assert_eq!(
            signature("/?lifecycle="),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
        assert_eq!(
            signature("/?max-keys=2&prefix=J"),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
    }

    #[test]
    fn a_signature_is_in_header_fields() {
        let mut signer = Signer::new("us-east-1", "h");
        let with_token = Credentials { token: Some("t0/+=".into()), ..credentials() };

        let text = fields(&mut signer, &with_token, "/a", NOW);

        let start = format!(
            "x-amz-date: 20130524T000000Z\r\nx-amz-content-sha256: {EMPTY_SHA256}\r\nx-amz-security-token: t0/+=\r\n\
             Authorization: AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, Signature="
        );
        assert!(text.starts_with(&start), "{text}");
        assert_eq!(text.len(), start.len() + 64 + 2);
    }

    #[test]
    fn dots_are_signed_as_they_are() {
        assert_eq!(signature("/a/%2E%2E/b"), signature("/a/../b"));
        assert_ne!(signature("/a/%252E/b"), signature("/a/./b"));
        assert_ne!(signature("/a?prefix=%2E"), signature("/a?prefix=."));
    }

    #[test]
    fn a_kept_key_is_not_used_for_another_day_or_secret() {
        let mut signer = Signer::new("us-east-1", "h");
        let other = Credentials { secret_key: "other".into(), ..credentials() };
        for (credentials, now) in
            [(credentials(), NOW), (credentials(), NOW - 1), (other.clone(), NOW - 1), (other, NOW)]
        {
            let fresh = fields(&mut Signer::new("us-east-1", "h"), &credentials, "/a", now);
            assert_eq!(fields(&mut signer, &credentials, "/a", now), fresh);
        }
    }
}
