//! Tests of roles, whose credentials STS provides in exchange for other credentials or a token.

use fetchmill_model::s3::{Credentials, Signer};

use super::World;
use super::server::{Server, assumed};
use crate::access::renewal::CredentialSource as _;

/// Starts an STS server that returns credentials with the key `ROLE`, in the document of the requested action.
fn sts() -> Server {
    Server::start(|request| {
        let action = if request.contains("AssumeRoleWithWebIdentity") {
            "AssumeRoleWithWebIdentity"
        } else {
            "AssumeRole"
        };
        (200, assumed(action, "ROLE"))
    })
}

fn refusing() -> Server {
    Server::start(|_| {
        let error = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you &amp; nobody</Message></Error>\
                     </ErrorResponse>";
        (403, error.into())
    })
}

#[test]
fn a_role_is_assumed_with_the_keys_of_another_profile() {
    let server = sts();
    let world = World::new()
        .config(
            "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = keys\nexternal_id = a b\n\
             role_session_name = me\nregion = eu-west-1\nduration_seconds = 900\n",
        )
        .credentials("[keys]\naws_access_key_id = LONG\naws_secret_access_key = secret\n")
        .set("AWS_ENDPOINT_URL_STS", &server.url)
        .profile("role");

    let loaded = world.chain().load(&|| false).unwrap().unwrap();

    assert_eq!(loaded.credentials.access_key, "ROLE");
    assert_eq!(loaded.credentials.secret_key, "a+b/c");
    assert_eq!(loaded.credentials.token.as_deref(), Some("t=="));
    assert_eq!((loaded.expires_at, loaded.from.as_str()), (Some(1_893_456_000), "profile role"));
    let asked = &server.asked()[0];
    let target = "GET /?Action=AssumeRole&DurationSeconds=900&ExternalId=a%20b\
                  &RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=me&Version=2011-06-15 HTTP/1.1\r\n";
    assert!(asked.starts_with(target), "{asked}");
    assert!(asked.contains("\r\nAuthorization: AWS4-HMAC-SHA256 Credential=LONG/"), "{asked}");
    assert!(asked.contains("/eu-west-1/sts/aws4_request, SignedHeaders="), "{asked}");
}

#[test]
fn roles_may_be_assumed_one_with_the_other_but_not_in_a_circle() {
    let server = sts();
    let role = |name: &str, source: &str| {
        format!("[profile {name}]\nrole_arn = arn:{name}\nsource_profile = {source}\n")
    };
    let keys = "aws_access_key_id = LONG\naws_secret_access_key = secret\n";
    let world = World::new()
        .config(&format!(
            "{}{}{}{}{}{keys}",
            role("a", "b"),
            role("b", "c"),
            role("x", "y"),
            role("y", "x"),
            role("c", "c")
        ))
        .set("AWS_ENDPOINT_URL", &server.url);

    let world = world.profile("a");
    assert_eq!(world.found(), "ROLE of profile a");
    let roles: Vec<_> = server.asked().iter().map(|asked| asked.contains("Credential=LONG/")).collect();
    assert_eq!(roles, [true, false, false]);

    let said = world.profile("x").found();
    assert!(said.starts_with("exit 2: the source_profile settings after profile"), "{said}");
}

#[test]
fn a_role_needs_somebody_who_assumes_it() {
    let server = sts();
    let world = World::new()
        .config(
            "[profile a]\nrole_arn = arn:a\ncredential_source = Environment\n[profile b]\nrole_arn = arn:b\n",
        )
        .set("AWS_ENDPOINT_URL_STS", &server.url);

    let world = world.profile("b");
    let said = world.found();
    assert!(said.starts_with("exit 2: profile b names a role, but no credentials to assume it"), "{said}");
    let world = world.profile("a").set("AWS_ACCESS_KEY_ID", "ENV").set("AWS_SECRET_ACCESS_KEY", "secret");
    assert_eq!(world.found(), "ROLE of profile a");
    assert!(server.asked()[0].contains("Credential=ENV/"));
}

#[test]
fn a_role_that_needs_a_code_is_told() {
    let said = World::new()
        .config("[default]\nrole_arn = arn:a\nsource_profile = default\nmfa_serial = x\n")
        .found();

    assert!(said.starts_with("exit 2: the role of profile default needs an MFA code (mfa_serial)"), "{said}");
}

#[test]
fn a_token_is_exchanged_and_never_stands_in_a_url() {
    let server = sts();
    let elsewhere = World::new();
    let path = elsewhere.write("token", "a.b+c\n").display().to_string();
    let world = World::new()
        .set("AWS_WEB_IDENTITY_TOKEN_FILE", &path)
        .set("AWS_ROLE_ARN", "arn:r")
        .set("AWS_ENDPOINT_URL_STS", &server.url);

    assert_eq!(world.found(), "ROLE of web identity");
    let asked = &server.asked()[0];
    assert!(asked.starts_with("POST / HTTP/1.1\r\n"), "{asked}");
    assert!(asked.ends_with("&Version=2011-06-15&WebIdentityToken=a.b%2Bc"), "{asked}");
    assert!(!asked.contains("Authorization:"), "{asked}");

    let world = World::new()
        .config(&format!("[default]\nrole_arn = arn:p\nweb_identity_token_file = {path}\n"))
        .set("AWS_ENDPOINT_URL_STS", &server.url);
    assert_eq!(world.found(), "ROLE of profile default");
    assert!(server.asked()[1].contains("&RoleArn=arn%3Ap&"), "{}", server.asked()[1]);
}

#[test]
fn what_is_missing_for_a_token_is_told() {
    let world = World::new().set("AWS_WEB_IDENTITY_TOKEN_FILE", "~/missing");
    let said = world.found();
    assert!(
        said.starts_with("exit 2: AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not"),
        "{said}"
    );

    let said = world.set("AWS_ROLE_ARN", "arn:r").found();
    assert!(said.starts_with("exit 2: cannot read ~/missing (AWS_WEB_IDENTITY_TOKEN_FILE)"), "{said}");
}

#[test]
fn what_sts_says_is_told() {
    let server = refusing();
    let world = World::new()
        .config("[default]\nrole_arn = arn:r\nsource_profile = default\naws_access_key_id = A\naws_secret_access_key = s\n")
        .set("AWS_ENDPOINT_URL_STS", &server.url);
    let said = world.found();

    assert!(said.starts_with("exit 2: STS refused the role arn:r: AccessDenied not you & nobody"), "{said}");
    let said = world.set("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1").found();
    assert!(
        said.starts_with("exit 5: cannot get credentials from http://127.0.0.1:1: refused failed"),
        "{said}"
    );
}

#[test]
fn requests_to_sts_are_signed_as_botocore_signs_them() {
    let credentials =
        Credentials { access_key: "AK".into(), secret_key: "secret".into(), token: Some("tok".into()) };
    let target = "/?Action=AssumeRole&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%20b&Version=2011-06-15";
    let mut lines = Vec::new();
    let mut signer = Signer::for_sts("eu-west-1", "sts.eu-west-1.amazonaws.com");
    signer.write_fields(&credentials, "GET", target.as_bytes(), &[], 1_795_320_000, &mut lines);

    // Signature by botocore.auth.SigV4Auth of the same request at 2026-11-22 04:00 UTC.
    let expected = "Authorization: AWS4-HMAC-SHA256 Credential=AK/20261122/eu-west-1/sts/aws4_request, \
                    SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, \
                    Signature=f0856275abd7131bba7cffabeeeb4f31653ec11ab9c45848e07258cdfe7faf5e\r\n";
    let lines = String::from_utf8(lines).unwrap();
    assert!(lines.ends_with(expected), "{lines}");
}
