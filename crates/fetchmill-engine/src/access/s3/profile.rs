//! The two profile files that AWS programs share: `~/.aws/config` and `~/.aws/credentials`.

use std::collections::HashMap;

use super::environment::{Environment, read_file};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::name::for_display;

const NAME_DEFAULT: &str = "default";

/// Settings of a profile, by lower-case key.
pub(super) type Profile = HashMap<String, String>;

/// Profiles of both files. See the [module documentation](self). If a profile is in both, its settings are merged, and
/// the credentials file takes precedence.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    by_name: HashMap<String, Profile>,
    /// Sections `[services NAME]`.
    services: HashMap<String, Profile>,
    /// Sections `[sso-session NAME]`.
    sessions: HashMap<String, Profile>,
}

impl Profiles {
    /// Reads the files. A missing file counts as empty.
    pub(super) fn read(environment: &Environment) -> Result<Self> {
        let mut profiles = Profiles::default();
        for (variable, usual, in_config) in [
            ("AWS_CONFIG_FILE", "~/.aws/config", true),
            ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials", false),
        ] {
            let text = environment.get(variable).unwrap_or_else(|| usual.to_owned());
            let Some(path) = environment.path(&text) else { continue };
            match read_file(&path) {
                Ok(text) => profiles.add(&text, in_config),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => {
                    return Err(Error::Usage(format!(
                        "cannot read the profiles in {text} ({error}): make it readable, or name another file with \
                         {variable}"
                    )));
                }
            }
        }
        Ok(profiles)
    }

    /// Parses lines according to the rules of Python's configparser: an indented line continues the value of the key
    /// above it. Indented lines below a key without a value are nested keys. For example, `addressing_style` below `s3
    /// =` becomes `s3.addressing_style`.
    fn add(&mut self, text: &str, in_config: bool) {
        let mut section: Option<&mut Profile> = None;
        let mut indent_of_key = usize::MAX;
        let mut above = String::new();
        for line in text.trim_start_matches('\u{feff}').lines() {
            let content = line.trim();
            let indent = line.len() - line.trim_start().len();
            if content.is_empty() || content.starts_with(['#', ';']) {
                continue;
            }
            if indent > indent_of_key {
                if let (false, Some(section), Some((key, value))) =
                    (above.is_empty(), &mut section, content.split_once('='))
                {
                    let key = format!("{above}.{}", key.trim().to_ascii_lowercase());
                    section.insert(key, value.trim().to_owned());
                }
                continue;
            }
            if let Some(header) = content.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                indent_of_key = usize::MAX;
                let header = header.trim();
                section = self.section(header, in_config);
            } else if let Some((key, value)) = content.split_once('=') {
                indent_of_key = indent;
                let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
                above = if value.is_empty() { key.clone() } else { String::new() };
                if let Some(section) = &mut section {
                    section.insert(key, value.to_owned());
                }
            }
        }
    }

    /// Returns the section with this header, or `None` if the section is not needed.
    fn section(&mut self, header: &str, in_config: bool) -> Option<&mut Profile> {
        let (sections, name) = if let Some(name) = name_of(header, in_config) {
            (&mut self.by_name, name)
        } else if let Some(name) = name_behind(header, "services") {
            (&mut self.services, name)
        } else {
            (&mut self.sessions, name_behind(header, "sso-session")?)
        };
        Some(sections.entry(name.to_owned()).or_default())
    }

    /// Returns the section of the SSO session that a profile refers to.
    pub(super) fn need_session(&self, name: &str, profile: &str) -> Result<&Profile> {
        self.sessions.get(name).ok_or_else(|| {
            Error::Usage(format!(
                "profile {profile} names the SSO session {}, which is not in ~/.aws/config; run aws \
                 configure sso",
                for_display(name.as_bytes())
            ))
        })
    }

    /// Returns the profile with this name, if it exists.
    pub(super) fn get(&self, name: &str) -> Option<&Profile> {
        self.by_name.get(name)
    }

    /// Returns an S3 setting from the profile's services section.
    pub(super) fn of_s3(&self, profile: &str, key: &str) -> Option<&String> {
        let services = self.get(profile)?.get("services")?;
        self.services.get(services)?.get(&format!("s3.{key}"))
    }

    /// Returns the profile with this name. Fails if it does not exist.
    pub(super) fn need(&self, name: &str) -> Result<&Profile> {
        self.get(name).ok_or_else(|| {
            let mut names: Vec<_> = self.by_name.keys().map(|name| for_display(name.as_bytes())).collect();
            names.sort_unstable();
            let there = if names.is_empty() { "none".into() } else { names.join(", ") };
            Error::Usage(format!(
                "profile {} does not exist (existing profiles: {there}); choose another profile with \
                 --profile or AWS_PROFILE, or add this profile to ~/.aws/config",
                for_display(name.as_bytes())
            ))
        })
    }
}

/// Returns the profile name in a section header. In the credentials file, every section is a profile.
fn name_of(header: &str, in_config: bool) -> Option<&str> {
    if !in_config || header == NAME_DEFAULT {
        return Some(header);
    }
    name_behind(header, "profile")
}

/// Returns the name after `kind` in a section header.
fn name_behind<'h>(header: &'h str, kind: &str) -> Option<&'h str> {
    let name = header.strip_prefix(kind)?;
    name.starts_with([' ', '\t']).then(|| name.trim().trim_matches(['"', '\'']))
}

/// Returns the name of the profile to use, and whether the user selected it. A selected profile must exist.
pub(super) fn chosen(option: Option<&str>, environment: &Environment) -> (String, bool) {
    let said =
        option.map(str::to_owned).or_else(|| environment.first(&["AWS_PROFILE", "AWS_DEFAULT_PROFILE"]));
    let is_said = said.is_some();
    (said.unwrap_or_else(|| NAME_DEFAULT.to_owned()), is_said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profiles(config: &str, credentials: &str) -> Profiles {
        let mut profiles = Profiles::default();
        profiles.add(config, true);
        profiles.add(credentials, false);
        profiles
    }

    #[test]
    fn both_files_say_what_a_profile_is_and_that_of_credentials_is_right() {
        let both = profiles(
            "[default]\nregion = eu-west-1\n[profile a]\r\nREGION=x=y\r\naws_access_key_id = old\n[services z]\nb = c\n",
            "# mine\n[a]\naws_access_key_id=new\n; and\n[b]\n",
        );

        assert_eq!(both.get("default").unwrap()["region"], "eu-west-1");
        assert_eq!(both.get("a").unwrap()["region"], "x=y");
        assert_eq!(both.get("a").unwrap()["aws_access_key_id"], "new");
        assert!(both.get("b").unwrap().is_empty());
        assert!(both.get("z").is_none() && both.get("services z").is_none());
    }

    #[test]
    fn what_is_indented_below_a_key_is_no_key() {
        let read = profiles(
            "\u{feff}[profile \"with space\"]\n  region = a\n  s3 =\n    region = b\n  output = c\n",
            "",
        );
        let profile = read.get("with space").unwrap();

        assert_eq!(profile["region"], "a");
        assert_eq!(profile["s3.region"], "b");
        assert_eq!(profile["output"], "c");
    }

    #[test]
    fn a_profile_names_a_section_of_services() {
        let read = profiles(
            "[profile a]\nservices = mine\n[services mine]\ns3 =\n  endpoint_url = http://s\nsts =\n  endpoint_url = http://t\n",
            "",
        );

        assert_eq!(read.of_s3("a", "endpoint_url").map(String::as_str), Some("http://s"));
        assert_eq!(read.of_s3("a", "region"), None);
        assert!(read.get("mine").is_none());
    }

    #[test]
    fn a_profile_that_is_missing_is_told_with_those_that_are_there() {
        let error = profiles("[profile b]\n[default]", "[a]\n").need("c").unwrap_err();

        assert_eq!(error.exit_code(), 2);
        assert!(
            error.to_string().contains("profile c does not exist (existing profiles: a, b, default)"),
            "{error}"
        );
    }
}
