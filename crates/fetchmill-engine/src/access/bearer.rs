//! Bearer tokens printed by a command (`--bearer-command`). Requests to one origin carry the latest token. If the
//! server rejects the token with status 401, the command runs again.
//!
//! Memory use: one token of up to [`limits::TOKEN_BYTES_MAX`] bytes, plus one copy per requesting thread.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::renewal::{
    CredentialHolder, CredentialSource, LoadedCredentials, Refresher, Renewal, run_command,
};
use fetchmill_model::error::{Error, Result};
use fetchmill_model::limits;
use fetchmill_model::origin::{Authority, Authorize, OriginKey};
use fetchmill_model::panics::lock;
use fetchmill_model::verdict::is_unauthorized;
use fetchmill_net::PoolSettings;

const COMMAND: &str = "--bearer-command";

/// Output of one run of the command. Tokens from two runs count as different even if they are equal, because only the
/// server can tell whether a token is still valid.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token {
    text: Arc<str>,
    run: u64,
}

impl std::fmt::Debug for Token {
    /// Omits the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Token").field("run", &self.run).finish_non_exhaustive()
    }
}

/// The command that prints tokens.
struct TokenCommand {
    command: String,
    runs: AtomicU64,
}

impl TokenCommand {
    /// Runs the command until it prints a token, up to a few times. A command that timed out is not run again.
    fn token(&self, is_over: &dyn Fn() -> bool) -> Result<Token> {
        let patience = limits::CREDENTIAL_PROCESS_TIMEOUT;
        let begun = Instant::now();
        let mut wait = limits::CREDENTIALS_WAIT;
        let mut left = limits::CREDENTIALS_TRIES;
        loop {
            left -= 1;
            let printed = run_command(&self.command, COMMAND, patience, is_over);
            match printed.and_then(|output| token_of(&output)) {
                Ok(text) => return Ok(Token { text, run: self.runs.fetch_add(1, Ordering::Relaxed) }),
                Err(error) if left == 0 || is_over() || begun.elapsed() >= patience => return Err(error),
                Err(_) => std::thread::sleep(wait),
            }
            wait *= 2;
        }
    }
}

/// Returns the token in the first line of the output. Errors never show other output, which might also be secret.
fn token_of(output: &[u8]) -> Result<Arc<str>> {
    let no_token = |why: &str| {
        Err(Error::Temporary(format!(
            "{COMMAND} printed {why}; the command must print the token on the first line of its output"
        )))
    };
    let line = output.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    if line.is_empty() {
        return no_token("no token");
    }
    if line.len() > limits::TOKEN_BYTES_MAX {
        return no_token(&format!("a token of more than {} bytes", limits::TOKEN_BYTES_MAX));
    }
    match std::str::from_utf8(line) {
        Ok(text) if line.iter().all(u8::is_ascii_graphic) => Ok(text.into()),
        _ => no_token("a token with a space, a control character or a non-ASCII character"),
    }
}

impl CredentialSource for TokenCommand {
    type Credentials = Token;

    fn load(&self, is_over: &dyn Fn() -> bool) -> Result<Option<LoadedCredentials<Token>>> {
        let credentials = self.token(is_over)?;
        Ok(Some(LoadedCredentials {
            credentials,
            expires_at: None,
            from: COMMAND.into(),
            is_renewable: true,
        }))
    }
}

/// Token holder of a job. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct BearerTokens {
    /// Origin whose requests carry the token.
    origin: OriginKey,
    token: Mutex<Option<Token>>,
    /// Incremented with each new token.
    generation: AtomicU64,
    /// Number of rejected tokens since the last successful request.
    refused: AtomicU32,
    refresher: Mutex<Option<Refresher<BearerTokens>>>,
}

impl BearerTokens {
    /// Creates the token holder for an origin without running the command.
    pub(crate) fn new(origin: OriginKey) -> Arc<Self> {
        Arc::new(BearerTokens {
            origin,
            token: Mutex::default(),
            generation: AtomicU64::new(0),
            refused: AtomicU32::new(0),
            refresher: Mutex::default(),
        })
    }

    /// Runs the command to get the first token. Until [`BearerTokens::close`], it runs again whenever a token is
    /// rejected.
    pub(crate) fn load(self: &Arc<Self>, command: &str, is_over: &dyn Fn() -> bool) -> Result<()> {
        let command = TokenCommand { command: command.to_owned(), runs: AtomicU64::new(0) };
        let loaded = command.load(is_over)?;
        self.set_credentials(loaded.as_ref().map(|loaded| loaded.credentials.clone()));
        *lock(&self.refresher) = Some(Refresher::start(self, command, loaded, || false)?);
        Ok(())
    }

    /// Stops the renewal at the end of the job.
    pub(crate) fn close(&self) {
        let refresher = lock(&self.refresher).take();
        drop(refresher);
    }

    /// Returns whether requests to this origin carry a token.
    pub(crate) fn is_for(&self, key: &OriginKey) -> bool {
        self.origin == *key
    }

    /// Returns the token's generation. Read it before sending a request, so that a newer token is never mistaken for
    /// the one that was used.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Records the status of a reply to a request with the token of `generation`.
    pub(crate) fn note_reply(&self, status: u16, generation: u64) {
        let is_taken = !is_unauthorized(status) && status < 500;
        if is_taken && self.refused.load(Ordering::Relaxed) > 0 && self.generation() == generation {
            self.refused.store(0, Ordering::Relaxed);
        }
    }

    /// Requests a new token after the server rejected the token of `generation`. Returns whether a newer one is
    /// available.
    pub(crate) fn renew(&self, generation: u64) -> Renewal {
        if self.generation() == generation
            && self.refused.load(Ordering::Relaxed) >= limits::TOKENS_REFUSED_MAX
        {
            return Renewal::Failed(format!(
                "the server refused the tokens of {COMMAND} {} times in a row (status 401); make that \
                 command print valid tokens, then run the same fetchmill command again",
                limits::TOKENS_REFUSED_MAX
            ));
        }
        match &*lock(&self.refresher) {
            Some(refresher) => refresher.renew(generation),
            // The job is ending.
            None => Renewal::Pending,
        }
    }

    /// Returns connection settings that add the token to requests for the origin.
    pub(crate) fn shown_by(self: &Arc<Self>, pool: PoolSettings) -> PoolSettings {
        let authority = TokenAuthority { tokens: Arc::clone(self), otherwise: pool.authority };
        PoolSettings { authority: Some(Arc::new(authority)), ..pool }
    }
}

impl CredentialHolder for BearerTokens {
    type Credentials = Token;

    fn generation(&self) -> u64 {
        self.generation()
    }

    fn set_credentials(&self, credentials: Option<Token>) {
        let mut token = lock(&self.token);
        *token = credentials;
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Returns 0, because tokens have no expiry.
    fn now(&self) -> u64 {
        0
    }
}

/// Authority of a job that uses tokens. Requests to other origins use `otherwise`.
#[derive(Debug)]
struct TokenAuthority {
    tokens: Arc<BearerTokens>,
    otherwise: Option<Arc<dyn Authority>>,
}

impl Authority for TokenAuthority {
    fn of(&self, key: &OriginKey) -> Option<Rc<dyn Authorize>> {
        if self.tokens.is_for(key) {
            let line = RefCell::default();
            return Some(Rc::new(TokenLine { tokens: Arc::clone(&self.tokens), line }));
        }
        self.otherwise.as_ref()?.of(key)
    }

    fn is_named(&self, key: &OriginKey) -> bool {
        self.otherwise.as_ref().is_some_and(|otherwise| otherwise.is_named(key))
    }
}

/// A thread's copy of the token.
struct TokenLine {
    tokens: Arc<BearerTokens>,
    /// Header line with the token, and the token's generation.
    line: RefCell<(u64, Vec<u8>)>,
}

impl std::fmt::Debug for TokenLine {
    /// Omits the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TokenLine").finish_non_exhaustive()
    }
}

impl Authorize for TokenLine {
    fn write_fields(&self, _method: &str, _target: &[u8], _body: &[u8], out: &mut Vec<u8>) {
        let mut copy = self.line.borrow_mut();
        let generation = self.tokens.generation();
        if copy.0 != generation {
            let token = lock(&self.tokens.token);
            let text = token.as_ref().map(|token| Arc::clone(&token.text)).unwrap_or_default();
            *copy = (generation, format!("Authorization: Bearer {text}\r\n").into_bytes());
        }
        out.extend_from_slice(&copy.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(url: &str) -> OriginKey {
        OriginKey::of_url(url).unwrap().0
    }

    fn tokens(command: &str) -> Arc<BearerTokens> {
        let tokens = BearerTokens::new(origin("https://a/"));
        tokens.load(command, &|| false).unwrap();
        tokens
    }

    fn renewed(tokens: &BearerTokens) -> Renewal {
        let generation = tokens.generation();
        loop {
            match tokens.renew(generation) {
                Renewal::Pending => std::thread::yield_now(),
                other => return other,
            }
        }
    }

    #[test]
    fn the_first_line_is_the_token() {
        for printed in ["abc.d-e_f~/+==\n", " abc.d-e_f~/+== \r\nsecond\n", "abc.d-e_f~/+=="] {
            assert_eq!(&*token_of(printed.as_bytes()).unwrap(), "abc.d-e_f~/+==");
        }
    }

    #[test]
    fn what_is_no_token_is_refused_and_not_repeated() {
        let long = vec![b'x'; limits::TOKEN_BYTES_MAX + 1];
        for printed in [
            &b""[..],
            b"\nhidden\n",
            b"  \n",
            b"hid\x07den",
            b"hid den",
            b"hid\tden",
            b"hid\rden",
            b"\xffhidden",
            &long,
        ] {
            let said = token_of(printed).unwrap_err().to_string();
            assert!(said.contains("--bearer-command printed"), "{said}");
            assert!(!said.contains("hid") && said.len() < 200, "{said}");
        }
    }

    #[test]
    fn only_its_origin_gets_the_token() {
        let authority = TokenAuthority { tokens: tokens("echo secret"), otherwise: None };
        let mut line = Vec::new();
        authority.of(&origin("https://a/")).unwrap().write_fields("GET", b"/", b"", &mut line);

        assert_eq!(line, b"Authorization: Bearer secret\r\n");
        assert!(
            authority.of(&origin("http://a/")).is_none() && authority.of(&origin("https://a:1/")).is_none()
        );
        assert!(!format!("{authority:?}").contains("secret"));
    }

    #[test]
    fn tokens_are_renewed_until_some_in_a_row_were_refused() {
        let tokens = tokens("echo secret");
        for _ in 0..10 {
            tokens.note_reply(200, tokens.generation());
            assert_eq!(renewed(&tokens), Renewal::Newer);
        }
        let last = tokens.generation();
        for _ in 1..limits::TOKENS_REFUSED_MAX {
            // A reply to a request with an old token says nothing about the current one.
            tokens.note_reply(200, last - 1);
            tokens.note_reply(503, tokens.generation());
            assert_eq!(renewed(&tokens), Renewal::Newer);
        }
        assert!(matches!(renewed(&tokens), Renewal::Failed(why) if why.contains("status 401")));
        assert_eq!(tokens.renew(last), Renewal::Newer);
    }
}
