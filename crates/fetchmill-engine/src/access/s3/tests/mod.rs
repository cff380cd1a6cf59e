//! In these tests, a server on loopback returns the credentials, and a map replaces the environment. No test sends
//! requests to other machines or reads a variable of this process.

mod chain;
mod endpoints;
mod refresh;
mod roles;
mod server;
mod sso;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::S3Options;
use super::credentials::CredentialChain;
use super::environment::Environment;
use super::settings::S3Settings;
use crate::access::renewal::CredentialSource as _;
use fetchmill_model::limits;
use fetchmill_model::origin::OriginFields;
use fetchmill_model::reply::patience::Patience;
use fetchmill_net::{AddressPolicy, NameResolverSetup, PoolSettings, Resolver, Timeouts, TlsSetup};

/// Returns the connection settings of a job with few connections.
fn pool() -> PoolSettings {
    PoolSettings {
        timeouts: Timeouts::default(),
        max_body: limits::PAGE_BYTES_MAX as u64,
        connections: 1,
        fields: OriginFields::default(),
        authority: None,
        paces: None,
        tls: Arc::new(TlsSetup::default()),
        names: NameResolverSetup::System(Resolver::new()),
        idle_max: 0,
        proxy: None,
        reach: AddressPolicy::PublicOnly,
        times_phases: false,
        patience: Patience::default(),
        cookies: None,
    }
}

/// A test environment with its own home directory and variables.
struct World {
    home: tempfile::TempDir,
    variables: Vec<(String, String)>,
    options: S3Options,
}

impl World {
    /// Creates a world without credentials. The machine's metadata service is not queried.
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        let world = World { home, variables: Vec::new(), options: S3Options::default() };
        let path = world.home.path().display().to_string();
        world.set("HOME", &path).set("AWS_EC2_METADATA_DISABLED", "true")
    }

    /// Sets a variable. A later value replaces an earlier one.
    fn set(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn profile(mut self, name: &str) -> Self {
        self.options.profile = Some(name.to_owned());
        self
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn config(self, text: &str) -> Self {
        self.write(".aws/config", text);
        self
    }

    fn credentials(self, text: &str) -> Self {
        self.write(".aws/credentials", text);
        self
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    fn environment(&self) -> Environment {
        let variables = self.variables.clone();
        Environment::new(move |name| {
            let found = variables.iter().rev().find(|(key, _)| key == name);
            found.map(|(_, value)| value.clone())
        })
    }

    fn chain(&self) -> CredentialChain {
        CredentialChain::within(self.environment(), &S3Settings::without_environment(&self.options), pool())
    }

    /// Returns the access key that the search finds and its source, as `KEY of FROM`.
    fn found(&self) -> String {
        match self.chain().load(&|| false) {
            Ok(Some(loaded)) => format!("{} of {}", loaded.credentials.access_key, loaded.from),
            Ok(None) => "none".into(),
            Err(error) => format!("exit {}: {error}", error.exit_code()),
        }
    }
}
