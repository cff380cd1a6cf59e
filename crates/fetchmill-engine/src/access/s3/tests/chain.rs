//! Tests of the order of credential sources, and of the errors for configured sources without credentials.

use std::time::{Duration, Instant};

use super::super::settings::{endpoint_url_within, region_within};
use super::World;
use super::server::{Server, document};
use crate::access::renewal::CredentialSource as _;

const KEYS: &str = "aws_access_key_id = FILE\naws_secret_access_key = secret\n";

#[test]
fn without_any_credentials_requests_are_not_signed() {
    assert_eq!(World::new().found(), "none");
    // A profile does not have to contain credentials.
    assert_eq!(World::new().config("[default]\nregion = x\n").found(), "none");
}

#[test]
fn no_sign_request_asks_nobody() {
    let mut world = World::new().set("AWS_ACCESS_KEY_ID", "ENV").profile("missing");
    world.options.no_sign_request = true;

    assert_eq!(world.found(), "none");
}

#[test]
fn the_environment_comes_before_the_files() {
    let world = World::new().credentials(&format!("[default]\n{KEYS}"));
    assert_eq!(world.found(), "FILE of profile default");

    let world = world.set("AWS_ACCESS_KEY_ID", "ENV").set("AWS_SECRET_ACCESS_KEY", "secret");
    assert_eq!(world.found(), "ENV of environment");
    assert_eq!(world.chain().load(&|| false).unwrap().unwrap().credentials.token, None);

    let world = world.set("AWS_SESSION_TOKEN", "t").set("AWS_CREDENTIAL_EXPIRATION", "1970-01-02T00:00:00Z");
    let loaded = world.chain().load(&|| false).unwrap().unwrap();
    assert_eq!((loaded.credentials.token.as_deref(), loaded.expires_at), (Some("t"), Some(86_400)));
    assert!(!format!("{loaded:?}").contains("secret"));
}

#[test]
fn a_profile_that_is_named_comes_before_the_environment() {
    let world = World::new().credentials(&format!("[a]\n{KEYS}")).profile("a");
    let world = world.set("AWS_ACCESS_KEY_ID", "ENV").set("AWS_SECRET_ACCESS_KEY", "secret");

    assert_eq!(world.found(), "FILE of profile a");
}

#[test]
fn a_profile_of_the_environment_is_used_and_must_be_there() {
    let world = World::new().config(&format!("[profile a]\n{KEYS}"));

    assert_eq!(world.found(), "none");
    let world = world.set("AWS_PROFILE", "a");
    assert_eq!(world.found(), "FILE of profile a");
    let said = world.set("AWS_PROFILE", "b").found();
    assert!(
        said.starts_with("exit 2: profile b does not exist (existing profiles: a); choose another"),
        "{said}"
    );
}

#[test]
fn files_may_be_elsewhere() {
    let world = World::new();
    let path = world.write("mine", &format!("[default]\n{KEYS}"));
    let world = world.set("AWS_SHARED_CREDENTIALS_FILE", &path.display().to_string());
    assert_eq!(world.found(), "FILE of profile default");

    assert_eq!(world.set("AWS_SHARED_CREDENTIALS_FILE", "~/none").found(), "none");
}

#[test]
fn half_a_pair_of_keys_is_told() {
    let said = World::new().set("AWS_ACCESS_KEY_ID", "ENV").found();
    assert!(said.starts_with("exit 2: AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not"), "{said}");

    let said = World::new().credentials("[default]\naws_access_key_id = A\n").found();
    assert!(said.starts_with("exit 2: profile default has aws_access_key_id but no"), "{said}");
}

#[test]
fn keys_that_could_be_more_than_keys_in_a_request_are_refused() {
    let world = World::new().set("AWS_ACCESS_KEY_ID", "A").set("AWS_SECRET_ACCESS_KEY", "hidden\r\nX: y");
    let said = world.found();

    assert!(
        said.starts_with("exit 2: the credentials from the environment") && !said.contains("hidden"),
        "{said}"
    );
}

#[test]
fn a_profile_may_have_a_command_that_writes_credentials() {
    let world = World::new();
    let path = world.write(
        "written",
        r#"{"Version": 1, "AccessKeyId": "CMD", "SecretAccessKey": "secret",
        "SessionToken": "t", "Expiration": "2030-01-01T00:00:00+00:00"}"#,
    );
    let world = world.config(&format!("[default]\ncredential_process = cat '{}'\n", path.display()));

    let loaded = world.chain().load(&|| false).unwrap().unwrap();
    assert_eq!(loaded.credentials.access_key, "CMD");
    assert_eq!(loaded.credentials.token.as_deref(), Some("t"));
    assert_eq!((loaded.expires_at, loaded.from.as_str()), (Some(1_893_456_000), "profile default"));
}

#[test]
fn a_command_that_fails_says_why() {
    let command =
        |command: &str| World::new().config(&format!("[default]\ncredential_process = {command}\n")).found();

    let said = command("echo 'not today' >&2; exit 3");
    assert!(said.starts_with("exit 5: the credential_process of profile default failed"), "{said}");
    assert!(said.contains("failed (exit status: 3): not today; run the command by hand"), "{said}");
    let said = command("echo hidden");
    assert!(
        said.contains("the credential_process of profile default returned invalid credentials"),
        "{said}"
    );
    assert!(!said.contains("hidden"), "{said}");
}

#[test]
fn a_command_ends_with_the_job_and_so_does_what_it_has_started() {
    let world = World::new();
    let pid = world.path().join("pid");
    let world = world.config(&format!(
        "[default]\ncredential_process = sleep 60 & echo $! > {0}.new; mv {0}.new {0}; wait\n",
        pid.display()
    ));
    let start = Instant::now();

    let error = world.chain().load(&|| pid.exists()).unwrap_err();

    assert!(error.to_string().contains("stopped") && start.elapsed() < Duration::from_secs(20));
    let number: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    while is_alive(number) {
        assert!(Instant::now() < end, "a child process of the command is still running");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns whether a process exists and is not a zombie.
fn is_alive(number: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

#[test]
fn who_signs_in_by_aws_login_is_told_what_to_do() {
    let said = World::new().config("[default]\nlogin_session = arn:aws:iam::1:user/x\n").found();

    assert!(said.starts_with("exit 2: profile default signs in with `aws login`"), "{said}");
    assert!(
        said.contains("credential_process = aws configure export-credentials --profile default"),
        "{said}"
    );
}

#[test]
fn a_container_gives_credentials_for_its_token() {
    let server = Server::start(|_| (200, document("BOX", "2030-01-01T00:00:00Z")));
    let world = World::new().set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &format!("{}/creds?id=1", server.url));
    let path = world.write("token", "of a file\n");
    let world = world
        .set("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of a variable")
        .set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", &path.display().to_string());

    let loaded = world.chain().load(&|| false).unwrap().unwrap();

    assert_eq!((loaded.from.as_str(), loaded.expires_at), ("container", Some(1_893_456_000)));
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].starts_with("GET /creds?id=1 HTTP/1.1\r\n"), "{}", asked[0]);
    assert!(asked[0].contains("\r\nAuthorization: of a file\r\n"), "{}", asked[0]);
}

#[test]
fn a_container_that_refuses_is_an_error_and_one_that_stumbles_is_asked_again() {
    let server = Server::start(|_| (403, "no".into()));
    let world = World::new().set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &server.url);
    let said = world.found();
    assert!(said.starts_with("exit 5:") && said.contains("returned no credentials (status 403)"), "{said}");
    assert_eq!(server.asked().len(), 1);

    let stumbling = Server::start({
        let count = std::sync::atomic::AtomicU32::new(0);
        move |_| match count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
            0 | 1 => (500, String::new()),
            _ => (200, document("BOX", "2030-01-01T00:00:00Z")),
        }
    });
    assert_eq!(world.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", &stumbling.url).found(), "BOX of container");
}

#[test]
fn a_token_file_that_is_missing_is_an_error() {
    let world = World::new()
        .set("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/")
        .set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "~/missing");
    let said = world.found();

    assert!(
        said.starts_with("exit 2: cannot read ~/missing (AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE)"),
        "{said}"
    );
}

/// Answers like version 2 of the metadata service on a machine that has a role.
fn machine(request: &str) -> (u16, String) {
    let has_token = request.to_ascii_lowercase().contains("\r\nx-aws-ec2-metadata-token: tok\r\n");
    match request.split(" HTTP").next().unwrap_or_default() {
        "PUT /latest/api/token" => (200, "tok".into()),
        _ if !has_token => (401, String::new()),
        "GET /latest/meta-data/iam/security-credentials/" => (200, "my-role\n".into()),
        "GET /latest/meta-data/iam/security-credentials/my-role" => {
            (200, document("EC2", "2030-01-01T00:00:00Z"))
        }
        _ => (404, String::new()),
    }
}

fn on_machine(url: &str) -> World {
    World::new().set("AWS_EC2_METADATA_DISABLED", "").set("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
}

#[test]
fn a_machine_gives_the_credentials_of_its_role() {
    let server = Server::start(machine);
    assert_eq!(on_machine(&server.url).found(), "EC2 of instance metadata");
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked[0].contains("X-aws-ec2-metadata-token-ttl-seconds: 300\r\n"), "{}", asked[0]);
    assert!(asked[0].to_ascii_lowercase().contains("\r\ncontent-length: 0\r\n"), "{}", asked[0]);

    assert_eq!(on_machine(&server.url).set("AWS_EC2_METADATA_DISABLED", "TRUE").found(), "none");
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn a_machine_without_metadata_or_without_a_role_has_none_soon() {
    let start = Instant::now();
    // This listener never accepts connections, so it never answers.
    let mute = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(on_machine(&format!("http://{}", mute.local_addr().unwrap())).found(), "none");
    assert_eq!(on_machine("http://127.0.0.1:1").found(), "none");
    let roleless =
        Server::start(
            |request| if request.starts_with("PUT") { machine(request) } else { (404, String::new()) },
        );
    assert_eq!(on_machine(&roleless.url).found(), "none");
    let other = Server::start(|_| (200, "<html>\n<body>".into()));
    assert_eq!(on_machine(&other.url).found(), "none");
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_machine_whose_role_is_broken_is_an_error() {
    let server = Server::start(|request| match machine(request) {
        (200, text) if text.contains("AccessKeyId") => (200, r#"{"Code": "Failed"}"#.into()),
        other => other,
    });
    let said = on_machine(&server.url).found();

    assert!(
        said.starts_with("exit 5: the instance metadata returned no credentials (status 200) Failed"),
        "{said}"
    );
}

#[test]
fn region_and_endpoint_are_said_by_option_environment_and_profile_in_this_order() {
    let mut world =
        World::new().config("[profile a]\nregion = file\nendpoint_url = http://127.0.0.1:1\n").profile("a");
    let region = |world: &World| region_within(&world.environment(), &world.options);
    let endpoint = |world: &World| endpoint_url_within(&world.environment(), &world.options);

    assert_eq!(region(&world).as_deref(), Some("file"));
    assert_eq!(endpoint(&world).as_deref(), Some("http://127.0.0.1:1"));
    world = world.set("AWS_DEFAULT_REGION", "default").set("AWS_ENDPOINT_URL", "http://127.0.0.1:2");
    assert_eq!(region(&world).as_deref(), Some("default"));
    assert_eq!(endpoint(&world).as_deref(), Some("http://127.0.0.1:2"));
    world = world.set("AWS_REGION", "own").set("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:3");
    assert_eq!(region(&world).as_deref(), Some("own"));
    assert_eq!(endpoint(&world).as_deref(), Some("http://127.0.0.1:3"));
    world = world.set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
    assert_eq!(endpoint(&world), None);
    world.options.region = Some("option".into());
    world.options.endpoint_url =
        Some(fetchmill_model::source::OriginUrl::parse("http://127.0.0.1:4/").unwrap());
    assert_eq!(region(&world).as_deref(), Some("option"));
    assert_eq!(endpoint(&world).as_deref(), Some("http://127.0.0.1:4"));
}
