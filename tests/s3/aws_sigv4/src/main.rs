//! Signs requests with the crate `aws-sigv4`, for `tests/s3/test_s3_signer.py`. On each line of standard input stand,
//! with a tab between them: method, host, URL, body, seconds since 1970, region, access key, secret key, session token
//! (or nothing). On standard output stand the header fields, each as `name: value`, with a tab between them.

use std::error::Error;
use std::time::{Duration, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PayloadChecksumKind, PercentEncodingMode, SignableBody, SignableRequest, SigningSettings,
    UriPathNormalizationMode, sign,
};
use aws_sigv4::sign::v4;

fn main() -> Result<(), Box<dyn Error>> {
    for line in std::io::stdin().lines() {
        println!("{}", signed(&line?)?);
    }
    Ok(())
}

fn signed(line: &str) -> Result<String, Box<dyn Error>> {
    let fields: Vec<_> = line.split('\t').collect();
    let [method, host, url, body, now, region, access_key, secret_key, token] = fields[..] else {
        return Err("a line has nine fields".into());
    };
    let token = Some(token.to_owned()).filter(|token| !token.is_empty());
    let identity = Credentials::new(access_key, secret_key, token, None, "test").into();
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name("s3")
        .time(UNIX_EPOCH + Duration::from_secs(now.parse()?))
        .settings(settings())
        .build()?
        .into();
    let headers = [("host", host)].into_iter();
    let request = SignableRequest::new(method, url, headers, SignableBody::Bytes(body.as_bytes()))?;
    let (instructions, _) = sign(request, &parameters)?.into_parts();
    let lines: Vec<_> = instructions.headers().map(|(name, value)| format!("{name}: {value}")).collect();
    Ok(lines.join("\t"))
}

/// Those of S3: a path is encoded once, and not resolved.
fn settings() -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    settings
}
