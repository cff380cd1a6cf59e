//! Tests of SSO, which exchanges the token stored by the AWS command line for a role's credentials.

use super::World;
use super::server::Server;
use crate::access::renewal::CredentialSource as _;

const PROFILE: &str = "[profile p]\nsso_session = mine\nsso_account_id = 1\nsso_role_name = read only\n\
                       [sso-session mine]\nsso_region = eu-west-1\nsso_start_url = https://start.test/start\n";
// Names of token files: the SHA-1 of `mine`, and the SHA-1 of the start URL.
const OF_SESSION: &str = "8034c43d15bb7ef42e2cc24255217acfc5f4b2f4";
const OF_START_URL: &str = "8f5f88472d93311799e4d7c40100ad6d95a1f793";

fn portal() -> Server {
    Server::start(|_| {
        let given = r#"{"roleCredentials": {"accessKeyId": "SSO", "secretAccessKey": "secret",
            "sessionToken": "t", "expiration": 1893456000999}}"#;
        (200, given.into())
    })
}

/// Creates a world with a profile and a token in this file.
fn signed_in(config: &str, file: &str, expires_at: &str) -> World {
    let world = World::new().config(config).profile("p");
    std::fs::create_dir_all(world.path().join(".aws/sso/cache")).unwrap();
    let token = format!(r#"{{"accessToken": "hidden", "expiresAt": "{expires_at}", "region": "x"}}"#);
    world.write(&format!(".aws/sso/cache/{file}.json"), &token);
    world
}

#[test]
fn a_role_is_had_for_the_token_of_a_session() {
    let server = portal();
    let world =
        signed_in(PROFILE, OF_SESSION, "2100-01-01T00:00:00Z").set("AWS_ENDPOINT_URL_SSO", &server.url);

    let loaded = world.chain().load(&|| false).unwrap().unwrap();

    assert_eq!((loaded.credentials.access_key.as_str(), loaded.from.as_str()), ("SSO", "profile p"));
    assert_eq!((loaded.credentials.token.as_deref(), loaded.expires_at), (Some("t"), Some(1_893_456_000)));
    assert!(loaded.is_renewable);
    let asked = &server.asked()[0];
    assert!(
        asked.starts_with("GET /federation/credentials?role_name=read%20only&account_id=1 HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(asked.contains("\r\nx-amz-sso_bearer_token: hidden\r\n"), "{asked}");
}

#[test]
fn a_profile_without_a_session_has_the_settings_itself_and_comes_before_its_keys() {
    let server = portal();
    let config = "[profile p]\nsso_start_url = https://start.test/start\nsso_region = eu-west-1\n\
                  sso_account_id = 1\nsso_role_name = r\naws_access_key_id = KEYS\naws_secret_access_key = x\n";
    let world =
        signed_in(config, OF_START_URL, "2100-01-01T00:00:00Z").set("AWS_ENDPOINT_URL_SSO", &server.url);

    assert_eq!(world.found(), "SSO of profile p");
}

#[test]
fn a_role_may_be_assumed_with_what_sso_gives() {
    let server = Server::start(|request| {
        if request.contains("AssumeRole") {
            return (200, super::server::assumed("AssumeRole", "ROLE"));
        }
        let given = r#"{"roleCredentials": {"accessKeyId": "SSO", "secretAccessKey": "secret",
            "sessionToken": "t", "expiration": 1893456000000}}"#;
        (200, given.into())
    });
    let config = format!("{PROFILE}[profile role]\nrole_arn = arn:a\nsource_profile = p\n");
    let world = signed_in(&config, OF_SESSION, "2100-01-01T00:00:00Z");
    let world = world.set("AWS_ENDPOINT_URL_STS", &server.url).set("AWS_ENDPOINT_URL_SSO", &server.url);

    assert_eq!(world.profile("role").found(), "ROLE of profile role");
    assert!(server.asked()[1].contains("Credential=SSO/"), "{:?}", server.asked());
}

#[test]
fn who_must_sign_in_is_told_how_and_the_token_is_not_shown() {
    let refusing = Server::start(|_| (401, "{}".into()));
    let expired = signed_in(PROFILE, OF_SESSION, "2020-01-01T00:00:00Z");
    let refused =
        signed_in(PROFILE, OF_SESSION, "2100-01-01T00:00:00Z").set("AWS_ENDPOINT_URL_SSO", &refusing.url);
    let never = World::new().config(PROFILE).profile("p");
    let broken = signed_in(PROFILE, OF_SESSION, "tomorrow");

    for (world, why) in [
        (never, "there is no SSO token"),
        (expired, "the SSO token has expired"),
        (refused, "SSO rejected the token"),
        (broken, "an invalid expiration date"),
    ] {
        let said = world.found();
        assert!(said.starts_with("exit 2: ") && said.contains(why) && !said.contains("hidden"), "{said}");
        assert!(
            why == "an invalid expiration date"
                || said.contains("run aws sso login --profile p, then the same"),
            "{said}"
        );
    }
}

#[test]
fn what_a_profile_lacks_is_named() {
    let lacking = |config: &str| World::new().config(config).profile("p").found();

    let said = lacking("[profile p]\nsso_session = mine\n");
    assert!(said.starts_with("exit 2: profile p names the SSO session mine, which"), "{said}");
    let said = lacking(&PROFILE.replace("sso_account_id = 1\n", ""));
    assert!(said.starts_with("exit 2: profile p uses SSO but has no sso_account_id"), "{said}");
    let world = signed_in(&PROFILE.replace("eu-west-1", "a.test/"), OF_SESSION, "2100-01-01T00:00:00Z");
    assert!(world.found().contains("sso_region of profile p is not a valid region"), "{}", world.found());
}

#[test]
fn a_role_that_is_not_there_is_said() {
    let server = Server::start(|_| (404, "{}".into()));
    let world =
        signed_in(PROFILE, OF_SESSION, "2100-01-01T00:00:00Z").set("AWS_ENDPOINT_URL_SSO", &server.url);

    let said = world.found();
    assert!(said.contains("no credentials for the role read only of account 1 (status 404)"), "{said}");
}

#[test]
fn the_token_is_not_sent_to_the_endpoint_of_a_store() {
    let store = portal();
    let config = PROFILE.replace("sso_region = eu-west-1", "sso_region = no region");
    let config = config.replace("[profile p]\n", "[profile p]\nendpoint_url = http://store.test\n");
    let world = signed_in(&config, OF_SESSION, "2100-01-01T00:00:00Z").set("AWS_ENDPOINT_URL", &store.url);

    // The region is used only if no endpoint is set.
    assert!(world.found().contains("sso_region of profile p is not a valid region"), "{}", world.found());
    assert!(store.asked().is_empty());
}
