//! Redacts secrets in messages: signatures, tokens and passwords in URLs.

use std::borrow::Cow;

/// Words in the names of query parameters, in lower case. The value of such a parameter is redacted. The words are
/// common names for tokens, or parameters of presigned URLs from S3, `CloudFront`, Google and Azure. `-` and `_`
/// separate words.
const SECRET_WORDS: [&str; 21] = [
    "accesskey",
    "apikey",
    "auth",
    "awsaccesskeyid",
    "code",
    "credential",
    "googleaccessid",
    "jwt",
    "key",
    "pass",
    "passwd",
    "password",
    "policy",
    "pwd",
    "sas",
    "secret",
    "session",
    "sessionid",
    "sig",
    "signature",
    "token",
];
/// Words that also count at the end of a name without separators, such as `accessToken`.
const SECRET_ENDS: [&str; 6] = ["apikey", "accesskey", "password", "secret", "signature", "token"];
/// Prefixes of values that are secrets in any parameter: JWTs, and tokens from GitHub, GitLab and Slack.
const SECRET_STARTS: [&str; 9] =
    ["eyJ", "ghp_", "gho_", "ghu_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-"];
/// Text that replaces a redacted value.
const HIDDEN: &str = "***";

/// Redacts `text` for display to people. The values of secret parameters are redacted, and so are user names and
/// passwords before a host. The journal and the failures shards keep the original text, because a retry needs it.
pub fn hide_secrets(text: &str) -> Cow<'_, str> {
    if !text.contains('=') && !text.contains('@') {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    let mut rest = text;
    // The loop moves from one position at which a parameter or a host can begin to the next.
    while let Some(position) = rest.find(['?', '&', ';', '/']) {
        let behind = &rest[position + 1..];
        shown.push_str(&rest[..=position]);
        let hidden = if rest[position..].starts_with('/') {
            let is_authority = shown.ends_with("://");
            let end = behind.find(|c: char| "/?#\\".contains(c) || ends_value(c)).unwrap_or(behind.len());
            behind[..end].rfind('@').filter(|_| is_authority).map(|at| (0, at))
        } else {
            secret_value(behind)
        };
        rest = behind;
        if let Some((start, end)) = hidden {
            shown.push_str(&behind[..start]);
            shown.push_str(HIDDEN);
            rest = &behind[end..];
        }
    }
    shown.push_str(rest);
    Cow::Owned(shown)
}

/// Returns the start and the end of the value of a parameter, if the text begins with a parameter whose value must be
/// redacted.
fn secret_value(text: &str) -> Option<(usize, usize)> {
    // In HTML, `&` is written as `&amp;`.
    let name = text.strip_prefix("amp;").unwrap_or(text);
    let skipped = text.len() - name.len();
    let equals = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_')?;
    let start = skipped + equals + 1;
    let value = name[equals..].strip_prefix('=')?;
    let is_hidden =
        is_secret_name(&name[..equals]) || SECRET_STARTS.iter().any(|begin| value.starts_with(begin));
    let length = value.find(|c| matches!(c, '&' | ';' | '#') || ends_value(c)).unwrap_or(value.len());
    is_hidden.then_some((start, start + length))
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.split(['-', '_']).any(|word| SECRET_WORDS.contains(&word))
        || SECRET_ENDS.iter().any(|end| name.ends_with(end))
}

/// Returns whether a character ends a value. Such characters occur in the text around URLs, but not in URLs.
fn ends_value(character: char) -> bool {
    character.is_whitespace() || matches!(character, '"' | '\'' | '`' | '<' | '>' | ')' | ',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_and_tokens_are_hidden() {
        let cases = [
            (
                "GET https://b.s3/k?X-Amz-Credential=AK%2F1&X-Amz-Date=1&X-Amz-Signature=ab12: status 403",
                "GET https://b.s3/k?X-Amz-Credential=***&X-Amz-Date=1&X-Amz-Signature=***",
            ),
            (
                "http://a/?sig=1&amp;TOKEN=2#x (`?policy=a`)",
                "http://a/?sig=***&amp;TOKEN=***#x (`?policy=***`)",
            ),
            ("http://a/?Signature=", "http://a/?Signature=***"),
            (
                "/?private_token=1&key=2&jwt=3&pwd=4&code=5&session=6&sas=7&accessToken=8",
                "/?private_token=***&key=***&jwt=***&pwd=***&code=***&session=***&sas=***&accessToken=***",
            ),
            ("/?v=eyJhbGciOi.eyJz.x&w=glpat-1", "/?v=***&w=***"),
            ("http://user:pass@a.test/x@y", "http://***@a.test/x@y"),
        ];
        for (text, shown) in cases {
            assert!(hide_secrets(text).starts_with(shown), "{}", hide_secrets(text));
        }
    }

    #[test]
    fn all_else_stays() {
        for text in [
            "",
            "no URL, but a=b and c@d",
            "http://a/?page=2&design=3&tokens=4&monkey=5&passage=6&v=ey",
            "http://a/sig=1/token=2",
            "\u{e4}?\u{f6}=\u{fc}",
        ] {
            assert_eq!(hide_secrets(text), text);
        }
    }
}
