//! Making the connection, telling what happens to it, and ending it.

use super::passport::Passport;
use super::{Nats, Reads};
use crate::error::{Error, Kind};
use crate::event::{Event, EventSender};
use crate::limits::{
    ANSWER_TIMEOUT, CLIENT_QUEUE, CLOSE_TIMEOUT, COMMAND_QUEUE, PING_INTERVAL, RECONNECT_PAUSE_MAX,
    RECONNECT_PAUSE_MIN,
};
use crate::message::Info;
use async_nats::ConnectOptions;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Who we are to the server.
#[derive(Clone, Default)]
pub enum Credentials {
    #[default]
    None,
    /// The text of a credentials file: a user JWT and its seed.
    Text(String),
    Password {
        user: String,
        password: String,
    },
    /// A word that the server was given.
    Token(String),
    /// Ones that are renewed while the connection lives.
    Passport(Passport),
}

/// How to connect.
#[derive(Clone)]
pub struct Options {
    /// One address or several of the same cluster: `nats://host:port`, `tls://host:port`. Before the host may stand
    /// `token@` or `user:password@`; that of the first address that has one counts, unless there are other credentials.
    pub urls: Vec<String>,
    /// What the server calls this connection.
    pub name: String,
    /// Where answers come in: `<prefix>.>`. Peels have one each, or they could read each other's answers.
    pub inbox_prefix: String,
    pub credentials: Credentials,
    /// Certificates to trust beside those of the system.
    pub root_certificates: Vec<PathBuf>,
    /// Whether to speak TLS also where the address does not say so.
    pub require_tls: bool,
    /// Whether to return at once and go on trying when no server answers. A daemon may start before its bus.
    pub keep_trying: bool,
    /// How the stores are read: what the account of the credentials has.
    pub reads: Reads,
    /// How long the server may take to answer.
    pub answer_timeout: Duration,
    /// Over how long the members of a fleet come back that lost their server at once (J-27); zero where a person waits.
    pub reconnect_spread: Duration,
    /// How often a silent connection is probed. Whoever asks the server for a sign of life anyway needs it seldom.
    pub probe_every: Duration,
}

impl Options {
    pub fn new(urls: Vec<String>, name: impl Into<String>) -> Options {
        Options {
            urls,
            name: name.into(),
            inbox_prefix: "_INBOX".into(),
            credentials: Credentials::None,
            root_certificates: Vec::new(),
            require_tls: false,
            keep_trying: false,
            reads: Reads::All,
            answer_timeout: ANSWER_TIMEOUT,
            reconnect_spread: Duration::ZERO,
            probe_every: PING_INTERVAL,
        }
    }
}

/// Connects. Reconnects by itself from then on, until it is closed.
pub async fn connect(options: Options) -> Result<Nats, Error> {
    crate::pattern::check_subject(&options.inbox_prefix)?;
    let event_sender = EventSender::new();
    let (urls, from_url) = addresses(&options.urls);
    let credentials = match &options.credentials {
        Credentials::None => from_url,
        given => given.clone(),
    };
    let (unidentified, passport) = match &credentials {
        Credentials::Passport(passport) => (with_passport(passport.clone()), Some(passport.clone())),
        _ => (ConnectOptions::new(), None),
    };
    let pauses = Arc::new(Pauses { passport, ..Pauses::new(options.reconnect_spread) });
    let rounds = pauses.clone();
    let mut settings = unidentified
        .name(&options.name)
        .custom_inbox_prefix(&options.inbox_prefix)
        .ping_interval(options.probe_every)
        .request_timeout(Some(options.answer_timeout))
        .connection_timeout(options.answer_timeout)
        .subscription_capacity(CLIENT_QUEUE)
        .client_capacity(COMMAND_QUEUE)
        .reconnect_to_server_callback(move |_, _| {
            rounds.begin_round();
            // Which of them is the client's choice.
            std::future::ready(None)
        })
        .reconnect_delay_callback(move |attempts| pauses.before(attempts))
        .event_callback(tell(event_sender.clone()));
    if options.keep_trying {
        settings = settings.retry_on_initial_connect();
    }
    if options.require_tls {
        settings = settings.require_tls(true);
    }
    for file in &options.root_certificates {
        settings = settings.add_root_certificates(file.clone());
    }
    settings = match &credentials {
        Credentials::None | Credentials::Passport(_) => settings,
        Credentials::Text(text) => settings
            .credentials(text)
            .map_err(|error| Error::because(Kind::Invalid, "the credentials cannot be read", error))?,
        Credentials::Password { user, password } => {
            settings.user_and_password(user.clone(), password.clone())
        }
        Credentials::Token(token) => settings.token(token.clone()),
    };
    let client = settings.connect(urls.as_slice()).await.map_err(|error| {
        if is_of_tls(&error) {
            let text = format!("no trusted TLS with {} ({error}): is its CA named?", urls.join(", "));
            return Error::because(Kind::Invalid, text, error);
        }
        let kind = match error.kind() {
            async_nats::ConnectErrorKind::AuthorizationViolation
            | async_nats::ConnectErrorKind::Authentication => Kind::Refused,
            async_nats::ConnectErrorKind::ServerParse => Kind::Invalid,
            async_nats::ConnectErrorKind::TimedOut => Kind::Timeout,
            _ => Kind::Disconnected,
        };
        Error::because(kind, format!("cannot connect to {}: {error}", urls.join(", ")), error)
    })?;
    let mut jetstream = async_nats::jetstream::new(client.clone());
    jetstream.set_timeout(options.answer_timeout);
    Ok(Nats {
        client,
        jetstream,
        event_sender,
        answer_timeout: options.answer_timeout,
        reads: options.reads,
        closed: CancellationToken::new(),
        queues: Arc::new(Mutex::new(BTreeMap::new())),
        next_queue: AtomicU64::new(0),
        inboxes: Mutex::default(),
    })
}

/// Shows what the passport says at the moment of each connection.
fn with_passport(passport: Passport) -> ConnectOptions {
    ConnectOptions::with_auth_callback(move |nonce| {
        let proof = passport.prove(&nonce);
        let mut auth = async_nats::Auth::new();
        auth.jwt = Some(proof.jwt);
        auth.signature = Some(proof.signature);
        std::future::ready(Ok(auth))
    })
}

/// Whether somebody answers there whose certificate is not trusted, or who speaks no TLS: rustls says so by this kind.
fn is_of_tls(error: &async_nats::ConnectError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::InvalidData) {
            return true;
        }
        cause = error.source();
    }
    error.kind() == async_nats::ConnectErrorKind::Tls
}

/// Takes what is secret out of the addresses, so that it turns up in no message.
fn addresses(urls: &[String]) -> (Vec<String>, Credentials) {
    let mut credentials = Credentials::None;
    let bare = |url: &String| {
        let (scheme, rest) = url
            .split_once("://")
            .map_or((String::new(), url.as_str()), |(scheme, rest)| (format!("{scheme}://"), rest));
        let Some((secret, host)) = rest.rsplit_once('@') else { return url.clone() };
        if matches!(credentials, Credentials::None) {
            credentials = match secret.split_once(':') {
                Some((user, password)) => {
                    Credentials::Password { user: user.into(), password: password.into() }
                }
                None => Credentials::Token(secret.into()),
            };
        }
        format!("{scheme}{host}")
    };
    (urls.iter().map(bare).collect(), credentials)
}

/// The client pauses before every try.
struct Pauses {
    spread: Duration,
    tried: AtomicBool,
    /// The next try is the first of a round over all servers that the client knows: those it was given, and those that they
    /// told it of.
    begins_round: AtomicBool,
    passport: Option<Passport>,
}

impl Pauses {
    fn new(spread: Duration) -> Pauses {
        Pauses { spread, tried: AtomicBool::new(false), begins_round: AtomicBool::new(false), passport: None }
    }

    fn begin_round(&self) {
        self.begins_round.store(true, Ordering::Relaxed);
    }

    fn before(&self, attempts: usize) -> Duration {
        let begins_round = self.begins_round.swap(false, Ordering::Relaxed);
        // Before the very first nothing has gone wrong yet, and whoever typed a command would wait for nothing.
        if !self.tried.swap(true, Ordering::Relaxed) {
            return Duration::ZERO;
        }
        // Nothing went wrong, and nobody else does it at the same time: it shows its new credentials.
        if self.passport.as_ref().is_some_and(Passport::was_renewed) {
            return Duration::ZERO;
        }
        // Every round, not only the first: one that was away for long finds its fleet spread as well. Once in a round: who
        // meets the dead server of a cluster goes on to the next before its master gives it up.
        let spread = if begins_round { self.spread.mul_f64(chance()) } else { Duration::ZERO };
        pause(attempts).max(spread)
    }
}

/// Doubles up to a limit. A fleet that lost its server must not come back in step, so each pause has a share of chance.
fn pause(attempts: usize) -> Duration {
    let doubled = u32::try_from(attempts).unwrap_or(u32::MAX).min(16);
    let longest = RECONNECT_PAUSE_MIN.saturating_mul(1 << doubled).min(RECONNECT_PAUSE_MAX);
    longest.mul_f64(0.5 + 0.5 * chance())
}

/// A number between 0 and 1 that differs between processes and calls.
fn chance() -> f64 {
    use std::hash::BuildHasher;
    let bits = std::collections::hash_map::RandomState::new().hash_one(0_u8) >> 32;
    f64::from(u32::try_from(bits).unwrap_or_default()) / f64::from(u32::MAX)
}

type Told = std::future::Ready<()>;

/// Translates the client's events into ours.
fn tell(event_sender: EventSender) -> impl Fn(async_nats::Event) -> Told + Send + Sync + 'static {
    let connected_before = AtomicBool::new(false);
    move |event| {
        let ours = match event {
            async_nats::Event::Connected if connected_before.swap(true, Ordering::Relaxed) => {
                Event::Reconnected
            }
            async_nats::Event::Connected => Event::Connected,
            async_nats::Event::Disconnected => Event::Disconnected,
            async_nats::Event::SlowConsumer(_) => Event::SlowConsumer,
            async_nats::Event::Closed => Event::Closed,
            other => Event::ServerSaid(other.to_string()),
        };
        event_sender.send(ours);
        std::future::ready(())
    }
}

impl Nats {
    pub(super) fn server_info(&self) -> Info {
        let server = self.client.try_server_info();
        let (version, servers) = match &server {
            // Only servers in a cluster name each other; one that stands alone may name each of its own addresses.
            Some(info) if info.cluster.is_some() => (info.version.clone(), info.connect_urls.len().max(1)),
            Some(info) => (info.version.clone(), 1),
            None => (String::new(), 1),
        };
        let connected = self.is_connected() && !self.closed.is_cancelled();
        let single_reads = self.reads_singly();
        Info { connected, version, max_payload: self.client.max_payload(), servers, single_reads }
    }

    pub(super) async fn shut(&self) -> Result<(), Error> {
        if self.closed.is_cancelled() {
            return Ok(());
        }
        if self.is_connected() {
            // Best effort: whoever needs to know that a message arrived has asked for an answer to it.
            let _sent = tokio::time::timeout(CLOSE_TIMEOUT, self.round_trip()).await;
        }
        self.end_queues();
        self.closed.cancel();
        let _drained = tokio::time::timeout(CLOSE_TIMEOUT, self.client.drain()).await;
        self.event_sender.send(Event::Closed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    /// What peels have where nobody sets another.
    const RECONNECT_SPREAD: Duration = Duration::from_secs(30);

    #[test]
    fn what_is_secret_in_an_address_is_used_and_never_shown() {
        let split = |url: &str| addresses(&[url.to_string()]);
        let (urls, token) = split("nats://s3cret@127.0.0.1:4222");
        assert_eq!(urls, ["nats://127.0.0.1:4222"]);
        assert!(matches!(token, Credentials::Token(token) if token == "s3cret"));
        let (urls, password) = split("me:word@host:1");
        assert_eq!(urls, ["host:1"]);
        assert!(
            matches!(password, Credentials::Password { user, password } if user == "me" && password == "word")
        );
        let (urls, none) = split("nats://host:1");
        assert_eq!(urls, ["nats://host:1"]);
        assert!(matches!(none, Credentials::None));
    }

    #[test]
    fn only_the_first_try_of_all_is_at_once() {
        let pauses = Pauses::new(Duration::ZERO);
        assert_eq!(pauses.before(1), Duration::ZERO);
        assert!(
            pauses.before(1) >= RECONNECT_PAUSE_MIN / 2,
            "a fleet that lost its server must not come back in step"
        );
    }

    #[test]
    #[rule("J-27")]
    fn j27_a_fleet_that_lost_its_server_comes_back_spread_over_half_a_minute() {
        let mut first: Vec<Duration> = (0..1_000)
            .map(|_| {
                let pauses = connected_once();
                pauses.begin_round();
                pauses.before(1)
            })
            .collect();
        first.sort_unstable();
        assert!(first[999] <= RECONNECT_SPREAD && first[999] > RECONNECT_SPREAD.mul_f64(0.95));
        // No second of the thirty gets more than a few times its share.
        for second in 0..30 {
            let within = |pause: &&Duration| pause.as_secs() == second;
            assert!(first.iter().filter(within).count() < 100, "second {second}");
        }
    }

    #[test]
    #[rule("J-27")]
    fn j27_the_servers_of_a_cluster_are_all_tried_within_one_spread() {
        // However many of them the client was given, and however many it learned of.
        for _ in 0..100 {
            let pauses = connected_once();
            pauses.begin_round();
            let round: Duration = (1..=3).map(|attempts| pauses.before(attempts)).sum();
            assert!(round <= RECONNECT_SPREAD + RECONNECT_PAUSE_MIN * 16, "{round:?}");
        }
        let second_round = |_| {
            let pauses = connected_once();
            pauses.begin_round();
            let _first_round: Duration = (1..=3).map(|attempts| pauses.before(attempts)).sum();
            pauses.begin_round();
            pauses.before(4)
        };
        let longest = (0..100).map(second_round).max();
        assert!(longest > Some(RECONNECT_SPREAD / 2), "{longest:?}");
    }

    /// A client that has made its first try.
    fn connected_once() -> Pauses {
        let pauses = Pauses::new(RECONNECT_SPREAD);
        pauses.begin_round();
        assert_eq!(pauses.before(1), Duration::ZERO);
        pauses
    }

    #[test]
    fn pauses_grow_to_a_limit() {
        assert!(pause(0) <= RECONNECT_PAUSE_MIN);
        for attempts in [1, 10, 100, usize::MAX] {
            assert!(pause(attempts) <= RECONNECT_PAUSE_MAX);
        }
        assert!(pause(50) >= RECONNECT_PAUSE_MAX / 2);
    }
}
