//! Tests of the endpoint that is derived from options, environment and profile.

use super::World;
use crate::access::s3::options::S3Options;
use crate::access::s3::settings::S3Settings;
use fetchmill_model::error::Result;
use fetchmill_model::s3::BucketName;
use fetchmill_model::source::OriginUrl;

fn host(world: &World) -> Result<String> {
    let place =
        S3Settings::within(&world.environment(), &world.options)?.place(&BucketName::parse("bkt")?)?;
    Ok(place.key.text().to_owned())
}

fn world(config: &str) -> World {
    World::new().set("AWS_REGION", "eu-west-1").config(&format!("[default]\n{config}\n"))
}

fn with(options: S3Options) -> World {
    World { options, ..world("") }
}

#[test]
fn options_environment_and_profile_choose_it() {
    let [fips, dual_stack, accelerate] = [true; 3];
    for (world, expected) in [
        (world(""), "bkt.s3.eu-west-1"),
        (with(S3Options { use_fips_endpoint: fips, ..S3Options::default() }), "bkt.s3-fips.eu-west-1"),
        (world("").set("AWS_USE_FIPS_ENDPOINT", "true"), "bkt.s3-fips.eu-west-1"),
        (world("use_fips_endpoint = true"), "bkt.s3-fips.eu-west-1"),
        (world("use_fips_endpoint = true").set("AWS_USE_FIPS_ENDPOINT", "false"), "bkt.s3.eu-west-1"),
        (
            with(S3Options { use_dualstack_endpoint: dual_stack, ..S3Options::default() }),
            "bkt.s3.dualstack.eu-west-1",
        ),
        (world("").set("AWS_USE_DUALSTACK_ENDPOINT", "TRUE"), "bkt.s3.dualstack.eu-west-1"),
        (world("use_dualstack_endpoint = true"), "bkt.s3.dualstack.eu-west-1"),
        (world("s3 =\n  use_dualstack_endpoint = true"), "bkt.s3.dualstack.eu-west-1"),
        (
            with(S3Options { use_accelerate_endpoint: accelerate, ..S3Options::default() }),
            "bkt.s3-accelerate",
        ),
        (world("s3 =\n  use_accelerate_endpoint = true"), "bkt.s3-accelerate"),
    ] {
        assert_eq!(host(&world).unwrap(), format!("https://{expected}.amazonaws.com"));
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let url = Some(OriginUrl::parse("http://127.0.0.1:1").unwrap());
    let named = S3Options { endpoint_url: url.clone(), use_fips_endpoint: true, ..S3Options::default() };
    assert!(host(&with(named)).unwrap_err().to_string().contains("cannot be combined with --endpoint-url"));
    let both = S3Options { use_accelerate_endpoint: true, use_fips_endpoint: true, ..S3Options::default() };
    assert!(host(&with(both)).unwrap_err().to_string().contains("no accelerated FIPS endpoints"));
    // The endpoint variant in the environment applies only to requests to AWS.
    let other = World { options: S3Options { endpoint_url: url, ..S3Options::default() }, ..world("") };
    assert_eq!(host(&other.set("AWS_USE_FIPS_ENDPOINT", "true")).unwrap(), "http://127.0.0.1:1");
}
