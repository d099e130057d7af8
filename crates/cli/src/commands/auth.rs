//! `zester auth`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::auth::directory::{self, Directory, SECRETS, failure, new_key, now, random};
use crate::auth::{operators, push, revoker, roles, system, tls};
use crate::connection::Connect;
use crate::exit::Exit;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::time::Duration;
use zester_door::Pin;
use zester_identity::authority::{self, Fleet, PEEL_LIFE, Secrets, ServerPlaces, Unsealed};
use zester_identity::{KeyKind, PublicKey, Role, credentials};
use zester_wire::{MemberRole, PeelId, Roster, UnixMillis};

/// How long the key before still counts after a rotation: what runs with it is given the new one meanwhile.
const OVERLAP: &str = "1d";
/// Who ends sooner than this is told of.
const SOON: Duration = Duration::from_secs(30 * 86_400);

/// Keys of a fleet: who is who, and who may say what
#[derive(clap::Args, Debug)]
pub struct Auth {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    Init(Init),
    Key(Key),
    Issue(Issue),
    Admin(roles::Operator),
    Roles(roles::Roles),
    Can(roles::Can),
    Show(Where),
    /// Print what tells a new machine the CA of this fleet: the pin for `zester peel run --pin`
    Pin(Where),
    Lint(Where),
    Rotate(Rotate),
    Revoke(Revoke),
    Push(Push),
}

#[derive(clap::Args, Debug, Clone)]
pub struct Where {
    /// Where the keys of the fleet are
    #[arg(
        long,
        value_name = "DIR",
        default_value = "zester-auth",
        env = "ZESTER_AUTH_DIR",
        hide_env_values = true
    )]
    pub dir: PathBuf,
}

/// Make the keys of a new fleet: operator, accounts, masters, admins, a CA, and a nats-server.conf
///
/// Nothing is ever overwritten. Take keys/operator.nk and keys/core.nk to a place that is not on the network once you have
/// what you need; `zester auth lint` says what each is for.
#[derive(clap::Args, Debug)]
pub struct Init {
    #[command(flatten)]
    pub place: Where,
    /// A name or address of the server, for its certificate; the first is where it listens
    #[arg(long = "host", value_name = "HOST", default_values_t = ["localhost".to_string(), "127.0.0.1".to_string()])]
    pub hosts: Vec<String>,
    /// A name or address of a master, for the certificate of the door where peels enroll [default: the same]
    #[arg(long = "door", value_name = "HOST")]
    pub doors: Vec<String>,
    /// The port of the server
    #[arg(long, value_name = "PORT", default_value_t = 4222)]
    pub port: u16,
    /// A master to make credentials for
    #[arg(long = "master", value_name = "NAME", default_values_t = ["master".to_string()], value_parser = crate::arguments::name)]
    pub masters: Vec<String>,
    /// An admin to make credentials for
    #[arg(long = "admin", value_name = "NAME", default_values_t = ["admin".to_string()], value_parser = crate::arguments::name)]
    pub admins: Vec<String>,
    /// Where the server keeps its streams [default: nats below the directory]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
}

/// Make a key on the machine that it is for, and print its public half
///
/// The secret half never leaves the machine: give the public one to `zester auth issue ID --key KEY`, and put the credentials
/// that come of it beside the key, under the same name: web-01.nk, web-01.creds.
#[derive(clap::Args, Debug)]
pub struct Key {
    /// Where to keep it; one that is there already is shown
    #[arg(value_name = "FILE", default_value = "peel.nk")]
    pub file: PathBuf,
}

/// Make credentials for a peel
///
/// Without --key the file holds its secret key: give it to that machine and to nobody else.
#[derive(clap::Args, Debug)]
pub struct Issue {
    /// The name of the peel
    #[arg(value_name = "ID")]
    pub id: String,
    /// The public key that the peel made itself with `zester auth key`
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// How long they count
    #[arg(long, value_name = "TIME", value_parser = zester_model::duration::parse)]
    pub life: Option<Duration>,
    #[command(flatten)]
    pub place: Where,
}

/// Give a master, an admin, an operator, the issuer of peels or the server a new key
///
/// The key before counts for a while (--overlap), so that nothing stops: `zester auth push`, then give out the new credentials and
/// restart what uses them. A key that was stolen must not count any longer, nor what it signed: --stolen. A peel that enrolled gives
/// itself a new key with `zester peel rekey`.
#[derive(clap::Args, Debug)]
pub struct Rotate {
    /// The name of a master, an admin or an operator; or `issuer`, `revoker`, `sys` (who tells the server of accounts), `server` or
    /// `door` (their certificates)
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Of `server` and `door`: a name or address that the certificate is for
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
    /// How long the key before still counts
    #[arg(long, value_name = "TIME", default_value = OVERLAP, value_parser = zester_model::duration::parse)]
    pub overlap: Duration,
    /// The key before was stolen: it ends at once, and so does everything that it signed
    #[arg(long, conflicts_with = "overlap")]
    pub stolen: bool,
    /// Of `revoker`: the key before is given up, once all who use it have the new one
    #[arg(long, conflicts_with_all = ["overlap", "stolen"])]
    pub end: bool,
    #[command(flatten)]
    pub place: Where,
}

/// End every key of a name: nothing it signed counts any more, and the server lets it in no more
///
/// With a running fleet it takes effect at once, also on live connections.
#[derive(clap::Args, Debug)]
pub struct Revoke {
    /// The name of a peel, a master or an admin
    #[arg(value_name = "NAME")]
    pub name: String,
    #[command(flatten)]
    pub place: Where,
    #[command(flatten)]
    pub connect: Connect,
}

/// Tell a running fleet of what changed: accounts to the server, the roster to everybody
#[derive(clap::Args, Debug)]
pub struct Push {
    #[command(flatten)]
    pub place: Where,
    #[command(flatten)]
    pub connect: Connect,
}

pub fn run(args: Auth, app: &mut App) -> answer::Result {
    let app = &*app;
    match args.verb {
        Verb::Init(args) => init(&args, app),
        Verb::Key(args) => key(&args),
        Verb::Issue(args) => issue(&args),
        Verb::Pin(place) => {
            let pin = pin(&Directory::open(&place.dir)?)?;
            done(json!({ "pin": pin.to_string() }), format!("{pin}\n"))
        }
        Verb::Admin(args) => roles::operator(&args),
        Verb::Roles(args) => roles::roles(&args, app),
        Verb::Can(args) => roles::can(&args, app),
        Verb::Show(place) => show(&Directory::open(&place.dir)?),
        Verb::Lint(place) => lint(&Directory::open(&place.dir)?),
        Verb::Rotate(args) => rotate(&args),
        Verb::Revoke(args) => revoke(&args, app),
        Verb::Push(args) => {
            let directory = Directory::open(&args.place.dir)?;
            let pushed = app.block_on(push::push(&directory, &args.connect, app))?;
            let text = format!("{} accounts and the roster {} are out\n", pushed.accounts, pushed.serial);
            let moved: Vec<&String> = pushed.moved.iter().map(|(name, _)| name).collect();
            done(json!({ "accounts": pushed.accounts, "serial": pushed.serial, "moved": moved }), text)
        }
    }
}

fn done(json: Json, text: String) -> answer::Result {
    Ok((Answer::Document { json, text }, Exit::Good))
}

/// Makes everything; also what `zester up --secure` starts from.
pub fn make(args: &Init) -> Result<Directory, Failure> {
    let directory = Directory::create(&args.place.dir)?;
    let mut dice = Vec::new();
    for _ in SECRETS {
        dice.push(random()?);
    }
    let secrets =
        Secrets::new(|| dice.pop().unwrap_or_default()).map_err(|bad| Failure::usage(bad.to_string()))?;
    let mut fleet = Fleet::new(&secrets);
    let Secrets { operator, core, peels, operators, system, issuer, revoker } = &secrets;
    let pairs = [operator, core, peels, operators, system, issuer, revoker];
    for ((name, ..), pair) in SECRETS.iter().zip(pairs) {
        directory.keep_secret(name, pair)?;
    }
    let at = now();
    let mut roster = authority::first_roster(secrets.issuer.public(), at).map_err(failure)?;
    let mut members = Vec::new();
    let wanted = args.masters.iter().map(|name| (Role::Master, name));
    for (role, name) in wanted.chain(args.admins.iter().map(|name| (Role::Admin, name))) {
        let pair = new_key(KeyKind::User)?;
        let made = fleet.member((role, name), pair, &secrets.core, &mut roster, (at, Duration::ZERO));
        members.push(made.map_err(failure)?);
    }
    members.push(authority::system_user(new_key(KeyKind::User)?, &secrets.system, at));
    let signed = directory.keep_roster(&authority::renewed(&roster, at))?;
    for member in members {
        keep_credentials(&directory, &fleet, member, &signed)?;
    }
    directory.keep_fleet(&fleet)?;
    directory.keep_for_masters(&fleet, issuer, Some(revoker))?;
    let doors = if args.doors.is_empty() { &args.hosts } else { &args.doors };
    let tls::Made { ca, server, door } = tls::authority(&args.hosts, doors)?;
    for (name, content) in [
        ("door/ca.pem", ca.certificate.clone()),
        ("tls/ca.pem", ca.certificate),
        ("tls/ca.key", ca.key),
        ("tls/server.pem", server.certificate),
        ("tls/server.key", server.key),
        ("door/door.pem", door.certificate),
        ("door/door.key", door.key),
    ] {
        directory.write(name, content.as_bytes())?;
    }
    Ok(directory)
}

/// The configuration of the server that goes with the keys.
pub fn server_config(directory: &Directory, places: &ServerPlaces<'_>) -> Result<String, Failure> {
    let fleet = directory.fleet()?;
    let jwts = fleet.server_jwts(&directory.secret("operator")?, now()).map_err(failure)?;
    Ok(jwts.server_config(&fleet.system, places))
}

fn init(args: &Init, app: &App) -> answer::Result {
    let directory = make(args)?;
    let store = match &args.store {
        Some(path) => std::path::absolute(path)
            .map_err(|error| zester_converge::Error::io("find", path, error))?
            .display()
            .to_string(),
        None => directory.absolute("nats")?,
    };
    let host = args.hosts.first().map_or("localhost", String::as_str);
    let (certificate, key) = (directory.absolute("tls/server.pem")?, directory.absolute("tls/server.key")?);
    let config = server_config(
        &directory,
        &ServerPlaces {
            listen: &format!("{host}:{}", args.port),
            resolver: &format!("{store}/accounts"),
            store: &store,
            tls: Some((&certificate, &key)),
            more: "",
        },
    )?;
    let path = directory.write("nats-server.conf", config.as_bytes())?;
    let own = args.place.dir.join("keys");
    app.output.notice(&format!(
        "{} and core.nk beside it can do everything: keep them off the network",
        own.join("operator.nk").display()
    ));
    let (master, admin) =
        (args.masters.first().map_or("", String::as_str), args.admins.first().map_or("", String::as_str));
    let (dir, url) = (args.place.dir.display(), format!("tls://{host}:{}", args.port));
    let pin = pin(&directory)?;
    let door = args.doors.first().map_or(host, String::as_str);
    let bus = format!("--nats {url} --ca {dir}/tls/ca.pem");
    let port = zester_door::limits::DEFAULT_PORT;
    let text = format!(
        "the keys of a fleet are in {dir}\n\nthe server:\n  nats-server -c {}\n\n\
         a master, where peels enroll:\n  zester master run {bus} --creds {dir}/creds/{master}.creds --listen 0.0.0.0:{port} --door {dir}/door\n\n\
         an operator, who makes a word for a machine:\n  export ZESTER_NATS_URL={url} ZESTER_CA={dir}/tls/ca.pem ZESTER_CREDS={dir}/creds/{admin}.creds\n  zester enroll token web-01\n\n\
         that machine, which needs no file of this directory:\n  zester peel run --id web-01 --master https://{door}:{port} \\\n    --pin {pin} --token WORD\n",
        path.display()
    );
    done(json!({ "directory": args.place.dir, "url": url, "config": path, "pin": pin.to_string() }), text)
}

/// What tells a machine the CA of this fleet.
pub fn pin(directory: &Directory) -> Result<Pin, Failure> {
    let path = directory.path("tls/ca.pem");
    let text =
        std::fs::read_to_string(&path).map_err(|error| zester_converge::Error::io("read", &path, error))?;
    Pin::of_pem(&text).map_err(|bad| Failure::usage(format!("{}: {bad}", path.display())))
}

pub(crate) fn keep_credentials(
    directory: &Directory,
    fleet: &Fleet,
    member: Unsealed,
    signed_roster: &[u8],
) -> Result<PathBuf, Failure> {
    let name = member.name.clone();
    let credentials = member.with_roster(&directory.anchor(fleet)?, signed_roster);
    let text = credentials.to_text().map_err(|bad| Failure::usage(bad.to_string()))?;
    directory.write(&format!("creds/{name}.creds"), text.as_bytes())
}

fn key(args: &Key) -> answer::Result {
    let pair = directory::own_key(&args.file)?;
    let json = json!({ "public_key": pair.public().as_str(), "file": args.file });
    done(json, format!("{}\n", pair.public()))
}

/// Makes credentials for a peel with the key of the issuer alone. `key`: the one that it made itself.
pub fn issue_peel(
    directory: &Directory,
    id: &str,
    key: Option<&str>,
    life: Duration,
) -> Result<PathBuf, Failure> {
    let peel = PeelId::parse(id).map_err(|bad| Failure::usage(format!("`{id}` is {bad}")))?;
    let mut fleet = directory.fleet()?;
    let (roster, signed) = directory.roster(&fleet)?;
    // Credentials of a master or an admin would be overwritten, and one name would be two.
    let taken = |role| roster.members.iter().any(|member| member.role == role && member.name.as_str() == id);
    if [MemberRole::Master, MemberRole::Admin, MemberRole::Operator].into_iter().any(taken) {
        return Err(Failure::usage(format!("`{id}` is the name of a master or an operator already")));
    }
    let issuer = directory.secret("issuer")?;
    let path = match key {
        Some(text) => {
            let key = PublicKey::of_kind(text, KeyKind::User)
                .map_err(|bad| Failure::usage(format!("--key: {bad}")))?;
            let (jwt, certificate) = fleet.vouch(&peel, &key, &issuer, now(), life).map_err(failure)?;
            let anchor = directory.anchor(&fleet)?;
            let text = credentials::text_without_seed(&jwt, &anchor, &signed, &certificate);
            directory.write(&format!("creds/{id}.creds"), text.as_bytes())?
        }
        None => {
            let made = fleet.peel(&peel, new_key(KeyKind::User)?, &issuer, now(), life);
            keep_credentials(directory, &fleet, made.map_err(failure)?, &signed)?
        }
    };
    directory.keep_fleet(&fleet)?;
    Ok(path)
}

fn issue(args: &Issue) -> answer::Result {
    let directory = Directory::open(&args.place.dir)?;
    let life = args.life.unwrap_or(PEEL_LIFE);
    let path = issue_peel(&directory, &args.id, args.key.as_deref(), life)?;
    done(json!({ "peel": args.id, "creds": path }), format!("{}\n", path.display()))
}

/// Another certificate of the server or the door, by the CA. Whoever believes the CA believes the one before too, until it ends.
fn another_certificate(directory: &Directory, args: &Rotate) -> answer::Result {
    let (certificate, key, then) = match args.name.as_str() {
        "server" => ("tls/server.pem", "tls/server.key", "have it taken up: nats-server --signal reload"),
        _ => ("door/door.pem", "door/door.key", "copy both to each master with a door, and restart it"),
    };
    if args.hosts.is_empty() {
        let why = format!("say what the certificate is for: zester auth rotate {} --host HOST", args.name);
        return Err(Failure::usage(why));
    }
    let ca_key = directory::read_secret(&directory.path("tls/ca.key"))?;
    let path = directory.path("tls/ca.pem");
    let ca =
        std::fs::read_to_string(&path).map_err(|error| zester_converge::Error::io("read", &path, error))?;
    let made = tls::another(&ca, &ca_key, &args.hosts)?;
    // A server that takes up its files just between the two would find a pair that does not fit.
    directory.write_both((key, made.key.as_bytes()), (certificate, made.certificate.as_bytes()))?;
    let certificate = directory.path(certificate);
    let text = format!("{} is new; {then}\n", certificate.display());
    done(json!({ "name": args.name, "file": certificate, "hosts": args.hosts }), text)
}

fn rotate(args: &Rotate) -> answer::Result {
    let directory = Directory::open(&args.place.dir)?;
    let mut fleet = directory.fleet()?;
    let (mut roster, _) = directory.roster(&fleet)?;
    let at = now();
    let until = if args.stolen { at } else { at.plus(args.overlap) };
    let member = roster
        .members
        .iter()
        .find(|member| member.role != MemberRole::Issuer && member.name.as_str() == args.name);
    let role = member.and_then(|member| match member.role {
        MemberRole::Master => Some(Role::Master),
        MemberRole::Admin => Some(Role::Admin),
        MemberRole::Operator => Some(Role::Operator),
        MemberRole::Issuer | MemberRole::Unknown => None,
    });
    if role.is_none() && matches!(args.name.as_str(), "server" | "door") {
        return another_certificate(&directory, args);
    }
    if !args.hosts.is_empty() {
        return Err(Failure::usage("--host is for the certificates of `server` and `door`"));
    }
    if args.end && (role.is_some() || args.name != "revoker") {
        return Err(Failure::usage("--end is for `revoker`: other keys end by themselves"));
    }
    let what = match (args.name.as_str(), role) {
        ("sys", None) => {
            let issuer = directory.secret("issuer")?;
            let revoker = directory.has_secret("revoker").then(|| directory.secret("revoker")).transpose()?;
            let path = system::replace(&directory, &mut fleet)?;
            directory.keep_for_masters(&fleet, &issuer, revoker.as_ref())?;
            let text = format!(
                "{} is new; the one before is let in until `zester auth push`\ngive revoker/ to the masters that revoke\n",
                path.display()
            );
            return done(json!({ "name": args.name, "file": path }), text);
        }
        ("revoker", None) => {
            let stage = match (args.stolen, args.end) {
                (true, _) => revoker::Stage::Stolen,
                (_, true) => revoker::Stage::End,
                _ => revoker::Stage::Begin,
            };
            let done_so = revoker::rotate(&directory, stage)?;
            return done(json!({ "name": args.name, "file": done_so.file }), done_so.text);
        }
        ("issuer", None) => {
            let pair = new_key(KeyKind::Account)?;
            match args.stolen {
                true => fleet.replace_issuer(pair.public(), &mut roster, at),
                false => fleet.rotate_issuer(pair.public(), &mut roster, until),
            }
            .map_err(failure)?;
            directory.keep_roster(&authority::renewed(&roster, at))?;
            directory.keep_secret("issuer", &pair)?;
            directory.keep_for_masters(&fleet, &pair, None)?;
            directory.path("keys/issuer.nk")
        }
        (name, Some(role)) => {
            let pair = new_key(KeyKind::User)?;
            if args.stolen {
                fleet.revoke(name, &mut roster, at).map_err(failure)?;
            }
            let made = fleet
                .member((role, name), pair, &directory.secret("core")?, &mut roster, (at, args.overlap))
                .map_err(failure)?;
            let signed = directory.keep_roster(&authority::renewed(&roster, at))?;
            keep_credentials(&directory, &fleet, made, &signed)?
        }
        (name, None) => {
            return Err(Failure::usage(format!(
                "no master, admin or operator is called `{name}`; a peel that enrolled gets a new key with `zester peel rekey`, another with `zester auth issue`"
            )));
        }
    };
    directory.keep_fleet(&fleet)?;
    let before = match (args.stolen, role) {
        (true, _) => "counts no more, nor does what it signed".to_string(),
        (false, Some(_)) => ends(until, at),
        (false, None) => "signs no more, and what it signed goes on".to_string(),
    };
    let text = format!(
        "{} is new; the key before {before}\ntell the fleet with `zester auth push`\n",
        what.display()
    );
    done(json!({ "name": args.name, "file": what, "until": until.0 }), text)
}

fn revoke(args: &Revoke, app: &App) -> answer::Result {
    let directory = Directory::open(&args.place.dir)?;
    let mut fleet = directory.fleet()?;
    let (mut roster, _) = directory.roster(&fleet)?;
    let at = now();
    let count = fleet.revoke(&args.name, &mut roster, at).map_err(|error| {
        let name = &args.name;
        Failure::usage(format!("{error}; of a peel that enrolled: `zester enroll revoke {name} --dir`"))
    })?;
    directory.keep_roster(&authority::renewed(&roster, at))?;
    directory.keep_fleet(&fleet)?;
    let (keys, counts) = if count == 1 { ("key", "counts") } else { ("keys", "count") };
    let kept = format!("{count} {keys} of {} will count no more", args.name);
    let pushed = app.block_on(push::push(&directory, &args.connect, app)).map_err(|failure| {
        let words = format!(
            "{kept}, but the fleet does not know it yet: {}; repeat it with `zester auth push`",
            failure.error
        );
        Failure { error: zester_converge::Error::other(words), exit: Exit::Failed }
    })?;
    let text = format!(
        "{count} {keys} of {} {counts} no more, and the fleet knows it (roster {})\n",
        args.name, pushed.serial
    );
    done(json!({ "name": args.name, "keys": count, "serial": pushed.serial }), text)
}

fn show(directory: &Directory) -> answer::Result {
    let fleet = directory.fleet()?;
    let (roster, _) = directory.roster(&fleet)?;
    let at = now();
    let mut text =
        format!("anchor   {}\nroster   {}, {}\n", fleet.core, roster.serial, ends(roster.expires, at));
    // A directory that was taken apart has no CA to show.
    let pin = pin(directory).map(|pin| pin.to_string()).unwrap_or_default();
    if !pin.is_empty() {
        text.push_str(&format!("pin      {pin}\n"));
    }
    for member in &roster.members {
        let role = match member.role {
            MemberRole::Master => "master",
            MemberRole::Admin => "admin",
            MemberRole::Operator => "operator",
            MemberRole::Issuer => "issuer",
            MemberRole::Unknown => "newer",
        };
        let until = member.until.map_or_else(String::new, |until| format!("  {}", ends(until, at)));
        text.push_str(&format!("{role:<8} {}  {}{until}\n", member.name, member.key));
    }
    let peels = fleet.issued.iter().flat_map(|(name, keys)| keys.iter().map(move |one| (name, one)));
    for (name, one) in peels.filter(|(_, one)| one.role == "peel") {
        let revoked = if fleet.revoked.contains_key(&one.key) { "  revoked" } else { "" };
        text.push_str(&format!("peel     {name}  {}{revoked}\n", one.key));
    }
    // Whoever came in by a door is in no list here, until it was ended.
    let is_issued = |key: &str| fleet.issued.values().flatten().any(|one| one.key == key);
    for one in roster.revoked.iter().filter(|one| one.name != "issuer" && !is_issued(&one.key)) {
        text.push_str(&format!("peel     {}  {}  revoked\n", one.name, one.key));
    }
    let json = json!({
        "anchor": fleet.core, "pin": pin, "serial": roster.serial, "expires": roster.expires.0,
        "members": serde_json::to_value(&roster.members).unwrap_or_default(), "issued": fleet.issued, "revoked": fleet.revoked,
    });
    done(json, text)
}

fn lint(directory: &Directory) -> answer::Result {
    let fleet = directory.fleet()?;
    let (roster, _) = directory.roster(&fleet)?;
    let mut problems = problems_of(&roster, now());
    for path in directory.readable_by_others() {
        problems.push(format!("{} can be read by others: chmod 600 it", path.display()));
    }
    problems.extend(operators::problems(&fleet, &roster));
    problems.extend(revoker::problems(directory, &fleet)?);
    let named = [
        Some(&fleet.operator),
        Some(&fleet.core),
        Some(&fleet.peels),
        fleet.operators.as_ref(),
        Some(&fleet.system),
    ];
    for ((name, ..), public) in SECRETS.iter().zip(named) {
        let Some(public) = public else { continue };
        if directory.has_secret(name) && directory.secret(name)?.public().as_str() != public {
            problems.push(format!("keys/{name}.nk is of another fleet than fleet.json"));
        }
    }
    let mut text: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
    if problems.is_empty() {
        text.push_str("nothing is wrong with these keys\n");
    }
    for (name, _, purpose) in SECRETS.iter().filter(|(name, ..)| directory.has_secret(name)) {
        text.push_str(&format!("here: keys/{name}.nk ({purpose})\n"));
    }
    let exit = if problems.is_empty() { Exit::Good } else { Exit::Failed };
    Ok((Answer::Document { json: json!({ "problems": problems }), text }, exit))
}

fn problems_of(roster: &Roster, now: UnixMillis) -> Vec<String> {
    let mut problems = Vec::new();
    if roster.expires <= now {
        problems.push("the roster has ended: nobody is believed any more; rotate a key, and push it".into());
    } else if roster.expires < now.plus(SOON) {
        problems.push(format!("the roster {}; rotate a key, and push it", ends(roster.expires, now)));
    }
    for role in [MemberRole::Master, MemberRole::Admin, MemberRole::Issuer] {
        let counts = |until: Option<UnixMillis>| until.is_none_or(|until| until > now);
        if !roster.members.iter().any(|member| member.role == role && counts(member.until)) {
            problems.push(format!("the roster has no {role:?} whose key counts").to_lowercase());
        }
    }
    problems
}

/// How far ahead a moment is: in days, which is what matters of a year, and in hours where it is near.
fn ends(at: UnixMillis, now: UnixMillis) -> String {
    match at.since(now).as_secs().div_ceil(3_600) {
        _ if at <= now => "has ended".to_string(),
        1 => "ends within the hour".to_string(),
        hours @ 2..=48 => format!("ends in {hours} hours"),
        hours => format!("ends in {} days", hours / 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_in_words_that_fit() {
        let told = |hours: u64| ends(UnixMillis(1_000 + hours * 3_600_000), UnixMillis(1_000));
        assert_eq!(
            [0, 1, 24, 72].map(told),
            ["has ended", "ends within the hour", "ends in 24 hours", "ends in 3 days"]
        );
    }

    #[test]
    fn a_roster_without_a_master_or_near_its_end_is_a_problem() {
        let pair = zester_identity::KeyPair::new(KeyKind::Account, [1; 32]).unwrap();
        let (now, later) = (UnixMillis(0), UnixMillis(authority::ROSTER_LIFE.as_millis() as u64));
        let roster = authority::first_roster(pair.public(), now).unwrap();
        let none = ["the roster has no master whose key counts", "the roster has no admin whose key counts"];
        assert_eq!(problems_of(&roster, now), none);
        assert!(problems_of(&roster, later)[0].starts_with("the roster has ended"));
        assert!(
            problems_of(&roster, UnixMillis(later.0 - 86_400_000))[0]
                .starts_with("the roster ends in 24 hours")
        );
    }
}
