//! Access checks for signatures, clocks, credentials and regions, in the order in which S3 makes them.

use super::behaviour::StoreBehaviour;
use super::clock;
use super::failure::Failure;
use super::head::RequestHead;
use super::sign::{self, SignatureClaim};
use super::store::Bucket;
use super::uri::Query;

const EMPTY_SHA256: &[u8] = b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// A request whose access is checked.
pub(crate) struct GatedRequest<'a> {
    pub(crate) behaviour: &'a StoreBehaviour,
    pub(crate) head: &'a RequestHead<'a>,
    /// Decoded path.
    pub(crate) path: &'a [u8],
    pub(crate) query: &'a Query,
    pub(crate) body: &'a [u8],
    /// Time at which the request arrived, in milliseconds since 1970.
    pub(crate) now: i64,
    /// Whether the request only reads.
    pub(crate) reads: bool,
    /// Name of the requested bucket.
    pub(crate) name: &'a str,
    pub(crate) bucket: Option<&'a Bucket>,
    /// Region of the endpoint whose host is `endpoint`.
    pub(crate) region: &'a str,
    pub(crate) endpoint: &'a str,
}

impl GatedRequest<'_> {
    /// Allows the request, or returns the reason for refusing it.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.query.has("X-Amz-Signature") {
            return Err(Failure::not_implemented("X-Amz-Signature"));
        }
        let Some(authorization) = self.head.field("authorization") else {
            return match self.bucket {
                None => Err(Failure::no_such_bucket(self.name)),
                Some(bucket) if bucket.public && self.reads => Ok(()),
                Some(_) => Err(Failure::access_denied()),
            };
        };
        let claim = sign::claim(authorization)?;
        let time = self.time(&claim)?;
        let secret = self.secret(&claim)?;
        self.region(&claim)?;
        sign::check_signed(self.head, &claim)?;
        self.signature(&claim, time, secret)
    }

    /// Returns the time of the signature in the form in which it was sent. Fails if it is too far from the store's
    /// clock.
    fn time(&self, claim: &SignatureClaim<'_>) -> Result<&[u8], Failure> {
        let text = self.head.field("x-amz-date");
        let Some((text, time)) = text.and_then(|text| Some((text, clock::parse_basic(text)?))) else {
            let message = "AWS authentication requires a valid Date or x-amz-date header";
            return Err(Failure::new(403, "AccessDenied", message));
        };
        if !text.starts_with(claim.day.as_bytes()) {
            let message =
                "The authorization header is malformed; the date of the Credential is not the request's.";
            return Err(Failure::new(400, "AuthorizationHeaderMalformed", message));
        }
        let skew_max = self.behaviour.options.max_skew * 1000.0;
        if (self.now - time).unsigned_abs() as f64 > skew_max {
            let message = "The difference between the request time and the current time is too large.";
            return Err(Failure::new(403, "RequestTimeTooSkewed", message)
                .with("RequestTime", String::from_utf8_lossy(text))
                .with("ServerTime", clock::iso(self.now - self.now.rem_euclid(1000)).replace(".000Z", "Z"))
                .with("MaxAllowedSkewMilliseconds", (skew_max as u64).to_string()));
        }
        Ok(text)
    }

    /// Returns the secret key for the access key in the request. Fails if the pair of keys is not valid, or if its
    /// token is missing.
    fn secret(&self, claim: &SignatureClaim<'_>) -> Result<&str, Failure> {
        let pairs = &self.behaviour.credentials;
        let Some(pair) = pairs.iter().find(|pair| pair.access_key == claim.access_key) else {
            let message = "The AWS Access Key Id you provided does not exist in our records.";
            return Err(
                Failure::new(403, "InvalidAccessKeyId", message).with("AWSAccessKeyId", claim.access_key)
            );
        };
        if self.head.field("x-amz-security-token") != pair.token.as_deref().map(str::as_bytes) {
            let message = "The provided token is malformed or otherwise invalid.";
            return Err(Failure::new(400, "InvalidToken", message));
        }
        if pair.is_expired() {
            return Err(Failure::new(400, "ExpiredToken", "The provided token has expired."));
        }
        Ok(&pair.secret_key)
    }

    /// Checks that the request is signed for the region of the bucket. A request that is signed for the endpoint's
    /// region is redirected to the bucket's region. Any other region is an error.
    fn region(&self, claim: &SignatureClaim<'_>) -> Result<(), Failure> {
        let right = self.bucket.map_or(self.region, |bucket| &bucket.region);
        if claim.region == right {
            return Ok(());
        }
        if claim.region == self.region {
            let message = "The bucket you are attempting to access must be addressed using the specified endpoint. \
                           Please send all future requests to this endpoint.";
            let mut failure = Failure::new(301, "PermanentRedirect", message)
                .with("Endpoint", self.endpoint)
                .with("Bucket", self.name)
                .with("Region", right);
            failure.bucket_region = Some(right.into());
            return Err(failure);
        }
        let message = format!(
            "The authorization header is malformed; the region '{}' is wrong; expecting '{right}'",
            claim.region
        );
        Err(Failure::new(400, "AuthorizationHeaderMalformed", message).with("Region", right))
    }

    fn signature(&self, claim: &SignatureClaim<'_>, time: &[u8], secret: &str) -> Result<(), Failure> {
        let Some(content) = self.head.field("x-amz-content-sha256") else {
            let message = "Missing required header for this request: x-amz-content-sha256";
            return Err(Failure::new(400, "InvalidRequest", message));
        };
        if content.starts_with(b"STREAMING-") {
            return Err(Failure::not_implemented("x-amz-content-sha256"));
        }
        let (mut canonical, mut text) = (Vec::with_capacity(512), Vec::with_capacity(192));
        sign::canonical(self.head, self.path, self.query, claim, content, &mut canonical);
        sign::string_to_sign(claim, time, &canonical, &mut text);
        if !sign::is_right(claim, secret, &text) {
            let message = "The request signature we calculated does not match the signature you provided. Check your \
                           key and signing method.";
            return Err(Failure::new(403, "SignatureDoesNotMatch", message)
                .with("AWSAccessKeyId", claim.access_key)
                .with("StringToSign", String::from_utf8_lossy(&text))
                .with("CanonicalRequest", String::from_utf8_lossy(&canonical)));
        }
        let is_body = content == b"UNSIGNED-PAYLOAD"
            || (self.body.is_empty() && content == EMPTY_SHA256)
            || content == sign::sha256(self.body);
        if !is_body {
            let message = "The provided 'x-amz-content-sha256' header does not match what was computed.";
            return Err(Failure::new(400, "XAmzContentSHA256Mismatch", message));
        }
        Ok(())
    }
}
