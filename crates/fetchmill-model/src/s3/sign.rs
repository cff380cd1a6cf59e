//! Signature Version 4 in header fields (AWS: "Signature Calculations for the Authorization Header", in the S3 API
//! reference). The signing key and the scope, which all requests of a day share, are computed once.
//!
//! Each request costs two hashes and one HMAC of a few hundred bytes.

use aws_lc_rs::{digest, hmac};

use super::Credentials;
use crate::text::dates::basic_date;

/// Field that asks for an object's checksum.
pub const CHECKSUM_MODE: (&str, &str) = ("x-amz-checksum-mode", "ENABLED");
/// Field by which the requester agrees to pay.
pub const REQUEST_PAYER: (&str, &str) = ("x-amz-request-payer", "requester");
/// SHA-256 of an empty body, such as the body of a `GET`.
const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// Fields that every signature covers, in this order.
const HOST: &str = "host";
const CONTENT_HASH: &str = "x-amz-content-sha256";
const DATE: &str = "x-amz-date";
const TOKEN: &str = "x-amz-security-token";
const S3: &str = "s3";
const STS: &str = "sts";
/// Length of the day in a date, such as `20261122`.
const DAY_LEN: usize = 8;

/// Signs requests to one host in one region.
#[derive(Debug)]
pub struct Signer {
    service: &'static str,
    region: Box<str>,
    host: Box<str>,
    day: Option<SigningDay>,
    canonical: Vec<u8>,
    /// Additional fields for all requests.
    fields: SignedFields,
    /// Additional fields for requests for objects (`GET`).
    object_fields: SignedFields,
}

/// `x-amz-...` fields that are the same in each request, both as they are sent and as they are signed.
#[derive(Debug, Clone)]
struct SignedFields {
    lines: Vec<u8>,
    /// Parts of the canonical request: the part before the hash of the body, the part between the date and the session
    /// token, and the part after the token.
    canonical: [Vec<u8>; 3],
    /// Names of all signed fields, first without and then with the session token.
    names: [String; 2],
}

impl SignedFields {
    fn new(fields: &[(&str, &str)]) -> Self {
        let mut sorted = fields.to_vec();
        sorted.sort_unstable();
        let mut signed =
            SignedFields { lines: Vec::new(), canonical: Default::default(), names: Default::default() };
        for (name, value) in &sorted {
            signed.lines.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            let place = [CONTENT_HASH, TOKEN].into_iter().filter(|other| name > other).count();
            signed.canonical[place].extend_from_slice(format!("\n{name}:{value}").as_bytes());
        }
        for (names, with_token) in signed.names.iter_mut().zip([&[][..], &[TOKEN]]) {
            let own = [HOST, CONTENT_HASH, DATE];
            let mut all: Vec<&str> = sorted.iter().map(|(name, _)| *name).chain(own).collect();
            all.extend_from_slice(with_token);
            all.sort_unstable();
            *names = all.join(";");
        }
        signed
    }

    fn names(&self, token: Option<&str>) -> &str {
        &self.names[usize::from(token.is_some())]
    }
}

/// Values that depend only on the day and the credentials.
#[derive(Debug)]
struct SigningDay {
    date: [u8; DAY_LEN],
    /// Credentials, including the secret, because the secret of an access key can change.
    credentials: Credentials,
    key: hmac::Key,
}

impl Signer {
    /// Creates a signer. `host` is the value of the `Host` field.
    pub fn new(region: &str, host: &str) -> Self {
        Signer {
            service: S3,
            region: region.into(),
            host: host.into(),
            day: None,
            canonical: Vec::new(),
            fields: SignedFields::new(&[]),
            object_fields: SignedFields::new(&[]),
        }
    }

    /// Creates a signer for requests to STS, which issues credentials for roles.
    pub fn for_sts(region: &str, host: &str) -> Self {
        Signer { service: STS, ..Signer::new(region, host) }
    }

    /// Adds `fields` (`x-amz-...`) to every request, and `of_objects` to each `GET`. Names must be in lower case.
    #[must_use]
    pub fn with_fields(self, fields: &[(&str, &str)], of_objects: &[(&str, &str)]) -> Self {
        let object_fields = SignedFields::new(&[fields, of_objects].concat());
        Signer { fields: SignedFields::new(fields), object_fields, ..self }
    }

    fn fields(&self, method: &str) -> &SignedFields {
        if method == "GET" { &self.object_fields } else { &self.fields }
    }

    /// Appends only the fields of [`Signer::with_fields`], for an unsigned request.
    pub fn write_unsigned(&self, method: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.fields(method).lines);
    }

    /// Appends the fields that sign a request: `x-amz-date`, `x-amz-content-sha256`, `x-amz-security-token` if the
    /// credentials have a session token, and `Authorization`. `target` is the path as sent, with its query in canonical
    /// form. `now` is the store's time in seconds since 1970 UTC.
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
        self.write_unsigned(method, out);
        self.write_canonical(method, target, body_hash, &date, token);
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
            self.fields(method).names(token).as_bytes(),
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
        token: Option<&str>,
    ) {
        let fields = if method == "GET" { &self.object_fields } else { &self.fields };
        let [before_hash, before_token, after_token] = &fields.canonical;
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
            before_hash,
            b"\nx-amz-content-sha256:",
            body_hash,
            b"\nx-amz-date:",
            date,
            before_token,
        ] {
            out.extend_from_slice(part);
        }
        if let Some(token) = token {
            out.extend_from_slice(b"\nx-amz-security-token:");
            out.extend_from_slice(token.as_bytes());
        }
        for part in [after_token, &b"\n\n"[..], fields.names(token).as_bytes(), b"\n", body_hash] {
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

/// Appends the path in its signed form. The segments `.` and `..` are sent as `%2E` and `%2E%2E`, so no proxy on the
/// way resolves them. The store decodes them and computes the signature with plain dots.
fn write_path(path: &[u8], out: &mut Vec<u8>) {
    let mut rest = path;
    while let Some(at) = memchr::memmem::find(rest, b"%2E") {
        out.extend_from_slice(&rest[..at]);
        out.push(b'.');
        rest = &rest[at + 3..];
    }
    out.extend_from_slice(rest);
}

/// Writes bytes as lower-case hexadecimal digits.
fn hex(bytes: &[u8], out: &mut [u8; 64]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time 2013-05-24T00:00:00Z.
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

    /// Checks the examples in the S3 API reference that sign the same fields as this module.
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
    fn fields_of_the_store_are_signed_in_their_order() {
        let mut signer = Signer::new("us-east-1", "h").with_fields(
            &[REQUEST_PAYER],
            &[("x-amz-server-side-encryption-customer-key", "k"), CHECKSUM_MODE],
        );
        let with_token = Credentials { token: Some("t".into()), ..credentials() };

        let text = fields(&mut signer, &with_token, "/a", NOW);

        let names = "SignedHeaders=host;x-amz-checksum-mode;x-amz-content-sha256;x-amz-date;x-amz-request-payer;\
                     x-amz-security-token;x-amz-server-side-encryption-customer-key,";
        assert!(text.contains(names), "{text}");
        let canonical = String::from_utf8(signer.canonical.clone()).unwrap();
        let fields = format!(
            "\nhost:h\nx-amz-checksum-mode:ENABLED\nx-amz-content-sha256:{EMPTY_SHA256}\nx-amz-date:20130524T000000Z\
             \nx-amz-request-payer:requester\nx-amz-security-token:t\nx-amz-server-side-encryption-customer-key:k\n\n"
        );
        assert!(canonical.contains(&fields), "{canonical}");
        let mut unsigned = Vec::new();
        signer.write_unsigned("HEAD", &mut unsigned);
        assert_eq!(unsigned, b"x-amz-request-payer: requester\r\n");
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
