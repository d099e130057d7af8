//! Who may do what: operators, their roles, and why a decision is as it is (I-14).

use super::directory::{Directory, failure, new_key, now};
use super::push;
use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::commands::auth::{Where, keep_credentials};
use crate::connection::Connect;
use crate::exit::Exit;
use crate::fleet::ask;
use crate::fleet::watching::{client_failure, patiently};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zester_converge::Error;
use zester_identity::{KeyKind, Role, authority};
use zester_model::source::Sources;
use zester_policy::limits::FILE_BYTES_MAX;
use zester_policy::{Call, Rights, RoleVerdict, VERBS, Wanted};
use zester_wire::{Member, MemberRole, OperatorRole, Roster, Token};

/// Make credentials for an operator, or give one other roles
///
/// Without --role it is an admin, who may do everything. With roles it may do what their lines allow (`zester auth roles`) and
/// nothing else. Tell the fleet with `zester auth push`.
#[derive(clap::Args, Debug)]
pub struct Operator {
    /// The name of the operator
    #[arg(value_name = "NAME", value_parser = crate::arguments::name)]
    pub name: String,
    /// A role to give; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    pub roles: Vec<String>,
    #[command(flatten)]
    pub place: Where,
}

/// Sign what roles may do into the roster, and tell the fleet; without FILE show it
#[derive(clap::Args, Debug)]
#[command(after_help = ROLES_EXAMPLE)]
pub struct Roles {
    /// The roles: a map of names to lines
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Sign them, and leave telling the fleet to `zester auth push`
    #[arg(long)]
    pub no_push: bool,
    #[command(flatten)]
    pub place: Where,
    #[command(flatten)]
    pub connect: Connect,
}

const ROLES_EXAMPLE: &str = "A file of roles:
  deployers:
    - allow: [state.apply, test.ping]
      targets: 'web*'
    - allow: ['state.*']
      test_only: true
    - deny: ['state.apply']
      targets: web-01
    - verbs: [kill]
      targets: 'web*'

A line may also say `environments: [staging]` (calls that name one of these) and `direct: true` (past the masters too). What no line
allows is refused, and a line that denies wins.";

/// Explain whether an operator may do something, and which line says so
///
/// Reads the roster that the fleet counts by; with --dir, the one that lies there. Exit code 2 where it is refused.
#[derive(clap::Args, Debug)]
#[command(after_help = CAN_EXAMPLES)]
pub struct Can {
    /// The operator
    #[arg(value_name = "USER")]
    pub user: String,
    /// The peels
    #[arg(value_name = "TARGET")]
    pub target: String,
    /// The function, or a verb: kill, retry, publish, forget, event, enroll, breaker_close
    #[arg(value_name = "FN")]
    pub function: String,
    /// Its words: saltenv=staging
    #[arg(value_name = "k=v")]
    pub words: Vec<String>,
    /// As a dry run
    #[arg(long)]
    pub test: bool,
    /// Past the masters
    #[arg(long)]
    pub direct: bool,
    /// Where the keys of the fleet are [default: ask the fleet]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub connect: Connect,
}

const CAN_EXAMPLES: &str = "Examples:
  zester auth can bob 'web*' state.apply --test
  zester auth can bob web-01 cmd.run --direct
  zester auth can bob '*' publish";

pub fn operator(args: &Operator) -> answer::Result {
    let directory = Directory::open(&args.place.dir)?;
    let mut fleet = directory.fleet()?;
    let (mut roster, _) = directory.roster(&fleet)?;
    for role in &args.roles {
        if !roster.roles.iter().any(|one| one.name.as_str() == role) {
            let known: Vec<&str> = roster.roles.iter().map(|one| one.name.as_str()).collect();
            let known = match known.is_empty() {
                true => "there is none yet: `zester auth roles FILE` signs some".to_string(),
                false => format!("there are {}", known.join(", ")),
            };
            return Err(Failure::usage(format!("there is no role `{role}`; {known}")));
        }
    }
    let wanted = if args.roles.is_empty() { Role::Admin } else { Role::Operator };
    let member = roster.members.iter().find(|member| is_named(member, &args.name)).map(|member| member.role);
    let (is_new, is_other) = match (member, wanted) {
        (None, _) => (true, false),
        (Some(MemberRole::Admin), Role::Admin) | (Some(MemberRole::Operator), Role::Operator) => {
            (false, false)
        }
        (Some(MemberRole::Admin | MemberRole::Operator), _) => (false, true),
        (Some(_), _) => {
            return Err(Failure::usage(format!("`{}` is the name of a master already", args.name)));
        }
    };
    if fleet.issued.get(&args.name).is_some_and(|keys| keys.iter().any(|one| one.role == "peel")) {
        return Err(Failure::usage(format!("`{}` is the name of a peel already", args.name)));
    }
    if is_other {
        let why = format!(
            "`{}` has keys of another sort already; `zester auth revoke {0}` ends them, then make it anew",
            args.name
        );
        return Err(Failure::usage(why));
    }
    assign(&mut roster, &args.name, &args.roles)?;
    let path = directory.path(&format!("creds/{}.creds", args.name));
    if is_new {
        let (pair, core) = (new_key(KeyKind::User)?, directory.secret("core")?);
        let made = fleet
            .member((wanted, &args.name), pair, &core, &mut roster, (now(), Duration::ZERO))
            .map_err(failure)?;
        let signed = directory.keep_roster(&authority::renewed(&roster, now()))?;
        keep_credentials(&directory, &fleet, made, &signed)?;
        directory.keep_fleet(&fleet)?;
    } else {
        directory.keep_roster(&authority::renewed(&roster, now()))?;
    }
    let what = match args.roles.as_slice() {
        [] => "may do everything".to_string(),
        roles => format!("has the roles {}", roles.join(", ")),
    };
    let text = format!("{}\n{} {what}; tell the fleet with `zester auth push`\n", path.display(), args.name);
    let json = json!({ "operator": args.name, "roles": args.roles, "creds": path });
    Ok((Answer::Document { json, text }, Exit::Good))
}

fn is_named(member: &Member, name: &str) -> bool {
    member.role != MemberRole::Issuer && member.name.as_str() == name
}

/// These roles and no others.
fn assign(roster: &mut Roster, name: &str, roles: &[String]) -> Result<(), Failure> {
    let token = Token::parse(name).map_err(|bad| Failure::usage(format!("`{name}` is {bad}")))?;
    for role in &mut roster.roles {
        role.members.retain(|member| *member != token);
        if roles.iter().any(|one| one == role.name.as_str()) {
            role.members.push(token.clone());
        }
    }
    Ok(())
}

pub fn roles(args: &Roles, app: &App) -> answer::Result {
    let directory = Directory::open(&args.place.dir)?;
    let (mut roster, _) = directory.roster(&directory.fleet()?)?;
    let Some(file) = &args.file else { return Ok(shown(&roster.roles)) };
    let mut fresh = read(file)?;
    // Who has a role keeps it while there is one of that name.
    for role in &mut fresh {
        let before = roster.roles.iter().find(|one| one.name == role.name);
        role.members = before.map(|one| one.members.clone()).unwrap_or_default();
    }
    for gone in roster.roles.iter().filter(|one| !fresh.iter().any(|role| role.name == one.name)) {
        for member in &gone.members {
            app.output.notice(&format!("{member} loses the role {}, which is gone", gone.name));
        }
    }
    roster.roles = fresh;
    directory.keep_roster(&authority::renewed(&roster, now()))?;
    let count = roster.roles.len();
    let noun = if count == 1 { "role is" } else { "roles are" };
    if args.no_push {
        let text = format!("{count} {noun} signed; tell the fleet with `zester auth push`\n");
        return Ok((Answer::Document { json: json!({ "roles": count }), text }, Exit::Good));
    }
    let pushed = app.block_on(push::push(&directory, &args.connect, app)).map_err(|failure| {
        let words = format!(
            "{count} {noun} signed, but the fleet does not know it yet: {}; repeat it with `zester auth push`",
            failure.error
        );
        Failure { error: Error::other(words), exit: Exit::Failed }
    })?;
    let text = format!("{count} {noun} signed, and the fleet knows it (roster {})\n", pushed.serial);
    Ok((Answer::Document { json: json!({ "roles": count, "serial": pushed.serial }), text }, Exit::Good))
}

fn shown(roles: &[OperatorRole]) -> (Answer, Exit) {
    let mut text = String::new();
    for role in roles {
        let members: Vec<&str> = role.members.iter().map(Token::as_str).collect();
        let members = if members.is_empty() { "nobody".to_string() } else { members.join(", ") };
        let lines = if role.rules.len() == 1 { "line" } else { "lines" };
        text.push_str(&format!("{}  {} {lines}, for {members}\n", role.name, role.rules.len()));
    }
    if roles.is_empty() {
        text.push_str("there are no roles; every operator is an admin\n");
    }
    let json = json!({ "roles": serde_json::to_value(roles).unwrap_or_default() });
    (Answer::Document { json, text }, Exit::Good)
}

fn read(path: &Path) -> Result<Vec<OperatorRole>, Failure> {
    let io = |error| Failure::from(Error::io("read the roles", path, error));
    if std::fs::metadata(path).map_err(io)?.len() > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{} is larger than {FILE_BYTES_MAX} bytes", path.display())));
    }
    let text = std::fs::read_to_string(path).map_err(io)?;
    let mut sources = Sources::default();
    let file = sources.add(&path.display().to_string(), text.as_str());
    let read =
        zester_compile::parse_yaml(file, &text).and_then(|node| zester_policy::read_roles(&node, &sources));
    read.map_err(|diagnostics| Error::Diagnostics { diagnostics, sources: Box::new(sources) }.into())
}

/// What the fleet knows of operators.
struct Known {
    members: Vec<Member>,
    roles: Vec<OperatorRole>,
}

pub fn can(args: &Can, app: &App) -> answer::Result {
    let target = ask::target(&args.target)?;
    let of_dir = match &args.dir {
        Some(dir) => {
            let directory = Directory::open(dir)?;
            let (roster, _) = directory.roster(&directory.fleet()?)?;
            Some(Known { members: roster.members, roles: roster.roles })
        }
        None => None,
    };
    let (known, peels) = match (of_dir, target.exact_ids()) {
        // Names need no fleet.
        (Some(known), Some(ids)) => {
            (known, ids.into_iter().map(|id| (id.to_string(), Json::Object(Map::new()))).collect())
        }
        (of_dir, _) => app.block_on(ask_fleet(args, app, of_dir))?,
    };
    let is = |role: MemberRole| {
        known.members.iter().any(|member| member.role == role && member.name.as_str() == args.user)
    };
    if is(MemberRole::Admin) {
        let text = format!("✓ {} is an admin and may do everything\n", args.user);
        let json = json!({ "allowed": true, "admin": true, "decisions": [] });
        return Ok((Answer::Document { json, text }, Exit::Good));
    }
    if !is(MemberRole::Operator) {
        return Err(Failure::usage(format!(
            "there is no operator `{}`; `zester auth show` lists them",
            args.user
        )));
    }
    if peels.is_empty() {
        return Err(Failure::usage(format!("no peel matches `{}`", args.target)));
    }
    let mut named = Map::new();
    for word in &args.words {
        let Some((key, value)) = word.split_once('=') else {
            return Err(Failure::usage(format!("`{word}` is no k=v")));
        };
        named.insert(key.to_string(), value.into());
    }
    let call =
        Call { function: &args.function, state_id: "", positionals: &[], args: &named, test: args.test };
    let wanted = match VERBS.iter().find(|verb| **verb == args.function) {
        Some(verb) => Wanted::Verb(verb),
        None => Wanted::Call { call, direct: args.direct },
    };
    let rights = Rights::new(&known.roles);
    let mut decisions = Decisions::new();
    let is_of_no_peel =
        matches!(wanted, Wanted::Verb("publish" | "event" | "enroll" | "breaker_close" | "audit"));
    for (peel, facts) in &peels {
        let of = Some((peel.as_str(), facts)).filter(|_| !is_of_no_peel);
        let RoleVerdict { allowed, by, .. } = rights.judge(&args.user, &wanted, of);
        decisions.entry((allowed, by)).or_default().push(peel.clone());
    }
    Ok(decided(args, &rights, decisions, is_of_no_peel))
}

type Decisions = BTreeMap<(bool, Option<(String, String)>), Vec<String>>;

fn decided(args: &Can, rights: &Rights, decisions: Decisions, is_of_no_peel: bool) -> (Answer, Exit) {
    let (mut text, mut documents, mut refused) = (String::new(), Vec::new(), false);
    let direct = if args.direct { " --direct" } else { "" };
    let test = if args.test { " --test" } else { "" };
    for ((allowed, by), peels) in decisions {
        refused |= !allowed;
        let (sign, may) = if allowed { ("✓", "may") } else { ("✗", "may not") };
        let on = if is_of_no_peel { String::new() } else { format!(" on {}", peels.join(", ")) };
        let why = match (&by, allowed) {
            (Some((role, line)), true) => format!("role {role} allows it ({line})"),
            (Some((role, line)), false) => format!("role {role} denies it ({line})"),
            (None, _) => match rights.roles_of(&args.user).into_iter().collect::<Vec<_>>().join(", ") {
                roles if roles.is_empty() => "it has no role".to_string(),
                roles => format!("no line of {roles} allows it"),
            },
        };
        text.push_str(&format!(
            "{sign} {} {may} {}{test}{direct}{on}\n    {why}\n",
            args.user, args.function
        ));
        let (role, line) = by.unwrap_or_default();
        documents.push(json!({ "allowed": allowed, "role": role, "line": line, "peels": peels, "why": why }));
    }
    let json = json!({ "allowed": !refused, "admin": false, "decisions": documents });
    (Answer::Document { json, text }, if refused { Exit::Failed } else { Exit::Good })
}

async fn ask_fleet(
    args: &Can,
    app: &App,
    of_dir: Option<Known>,
) -> Result<(Known, BTreeMap<String, Json>), Failure> {
    let client = args.connect.client(app).await?;
    let known = match of_dir {
        Some(known) => known,
        None => {
            let refreshed = client.link().refresh_trust().await;
            refreshed.map_err(|error| Failure::usage(error.to_string()))?;
            let Some(trust) = client.link().trust() else {
                return Err(Failure::usage("nobody has keys in this fleet, so everybody may do everything"));
            };
            Known { members: trust.members(), roles: trust.roles() }
        }
    };
    let explained = |error| args.connect.explained(app, client_failure(error));
    let peels = patiently(app, client.resolve_direct(&args.target)).await.map_err(explained)?;
    let mut facts = client.facts().await.map_err(explained)?;
    let with_facts = peels.into_iter().map(|peel| {
        let facts = facts.remove(&peel).unwrap_or_default();
        (peel.to_string(), Json::Object(facts))
    });
    Ok((known, with_facts.collect()))
}
