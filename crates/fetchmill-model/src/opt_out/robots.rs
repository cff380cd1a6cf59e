//! The rules of a host's robots.txt for the targets of a list (`--robots`). Replies are interpreted according to RFC
//! 9309, 2.3.1.

use crate::limits::OPT_OUT_EVIDENCE_BYTES_MAX;
use crate::opt_out::OptOut;
use crate::outcome::FailureKind;
use crate::outcome::opt_out_rule::OptOutRule;
use crate::source::percent;
use crate::source::robots::{PRODUCT_TOKEN, Robots};
use crate::verdict::failure_detail::status_text;

/// Path of the robots.txt.
pub const ROBOTS_PATH: &str = "/robots.txt";

/// The robots.txt of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostRobots {
    /// The rules, which are empty if the host has no robots.txt.
    Rules(Robots),
    /// The server failed to send its robots.txt, so nothing may be requested. Contains the reason as text.
    Forbidden(String),
    /// No complete reply was received, so the rules are unknown.
    Unknown(FailureKind, String),
}

/// Decision whether a target may be requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RobotsVerdict {
    /// The target may be requested.
    Allowed,
    /// The target must not be requested.
    OptedOut(OptOut),
    /// The target is not requested, because the rules are unknown. Contains the reason.
    Failed(FailureKind, String),
}

impl HostRobots {
    /// Interprets the final reply to a request for a robots.txt. `body` must be decoded. Only the start of the body is
    /// used.
    pub fn of_reply(status: u16, body: &[u8]) -> Self {
        match status {
            200..300 => HostRobots::Rules(Robots::parse(body, PRODUCT_TOKEN)),
            // A redirect that is not followed counts as a missing file.
            300..500 => HostRobots::Rules(Robots::default()),
            _ => HostRobots::Forbidden(format!("robots.txt: {}", status_text(status))),
        }
    }

    /// Returns the decision for a target with this path and query, as they appear in the target's URL.
    pub fn verdict(&self, path: &str) -> RobotsVerdict {
        match self {
            HostRobots::Rules(robots) if robots.is_empty() => RobotsVerdict::Allowed,
            HostRobots::Rules(robots) => {
                let decoded = percent::decode(path.as_bytes());
                match robots.forbidding(decoded.as_deref().unwrap_or(path.as_bytes())) {
                    Some(rule) => {
                        let evidence = format!("robots.txt: Disallow: {}", cut(&rule));
                        RobotsVerdict::OptedOut(OptOut { rule: OptOutRule::Robots, evidence })
                    }
                    None => RobotsVerdict::Allowed,
                }
            }
            HostRobots::Forbidden(why) => {
                RobotsVerdict::OptedOut(OptOut { rule: OptOutRule::RobotsError, evidence: why.clone() })
            }
            HostRobots::Unknown(kind, why) => RobotsVerdict::Failed(*kind, why.clone()),
        }
    }

    /// Returns the memory that the rules occupy, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                HostRobots::Rules(robots) => robots.bytes(),
                HostRobots::Forbidden(why) | HostRobots::Unknown(_, why) => why.len(),
            }
    }
}

/// Returns the start of a rule as a single line.
fn cut(rule: &str) -> String {
    let shown = rule.chars().map(|shown| if shown.is_control() { '\u{fffd}' } else { shown });
    shown.take(OPT_OUT_EVIDENCE_BYTES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_decides_as_rfc_9309_says() {
        let forbids = b"User-agent: *\nDisallow: /a\n";
        for (status, allowed) in
            [(200, false), (204, false), (301, true), (401, true), (403, true), (404, true), (429, true)]
        {
            let verdict = HostRobots::of_reply(status, forbids).verdict("/a?b");
            assert_eq!(verdict == RobotsVerdict::Allowed, allowed, "{status} {verdict:?}");
        }
        for status in [500, 503, 999] {
            let verdict = HostRobots::of_reply(status, forbids).verdict("/free");
            let RobotsVerdict::OptedOut(OptOut { evidence: why, .. }) = verdict else {
                panic!("{status}: {verdict:?}")
            };
            assert!(why.starts_with("robots.txt: ") && why.contains(&status.to_string()), "{why}");
        }
        let unknown = HostRobots::Unknown(FailureKind::HeadTimeout, "why".into());
        assert_eq!(unknown.verdict("/"), RobotsVerdict::Failed(FailureKind::HeadTimeout, "why".into()));
    }

    #[test]
    fn the_rule_is_the_evidence() {
        let robots = "User-agent: *\nDisallow: /p*q$\nDisallow: /caf%C3%A9\nDisallow: /*?s=\n";
        let host = HostRobots::of_reply(200, robots.as_bytes());
        for (path, rule) in
            [("/pxq", "/p*q$"), ("/caf%c3%a9/x", "/caf\u{e9}"), ("/a?s=1", "/*?s="), ("/%70q", "/p*q$")]
        {
            let evidence = format!("robots.txt: Disallow: {rule}");
            let expected = RobotsVerdict::OptedOut(OptOut { rule: OptOutRule::Robots, evidence });
            assert_eq!(host.verdict(path), expected, "{path}");
        }
        assert_eq!(host.verdict("/100%"), RobotsVerdict::Allowed);

        let long = format!("User-agent: *\nDisallow: /{}\u{7}\n", "x".repeat(60_000));
        let host = HostRobots::of_reply(200, long.as_bytes());
        assert!(host.bytes() > 60_000);
        let path = format!("/{}%07", "x".repeat(60_000));
        let RobotsVerdict::OptedOut(OptOut { evidence: why, .. }) = host.verdict(&path) else {
            panic!("it is forbidden")
        };
        assert!(why.len() < 2 * OPT_OUT_EVIDENCE_BYTES_MAX, "{}", why.len());
    }
}
