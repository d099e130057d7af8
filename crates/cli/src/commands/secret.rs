//! `zester secret`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::arguments::Inputs;
use crate::connection::Connect;
use crate::exit::Exit;
use crate::secret::blocks::{self, Block};
use crate::secret::keys::{self, Published};
use crate::secret::value::{self, Value};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use zester_converge::data_dir::DataDir;
use zester_converge::secrets;
use zester_secret::{PublicKey, Recipient, Sealed, Unsealed};

/// Where groups of peels are named.
const GROUPS_FILE: &str = "secret-groups.yaml";
const SETTINGS_DIRS: [&str; 2] = ["settings", "/srv/zester/settings"];

/// Seal values that only some peels can read
///
/// A sealed value stands in settings behind `!secret`. It is opened on the peels it names and nowhere else, and shown as
/// `<secret>` wherever it does not belong.
#[derive(clap::Args, Debug)]
pub struct Secret {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(clap::Subcommand, Debug)]
pub enum Verb {
    Encrypt(Box<Encrypt>),
    List(List),
    Rotate(Box<Rotate>),
    /// The public key of this machine, which is made if there is none
    Key {
        #[command(flatten)]
        inputs: Inputs,
    },
}

/// Seal a value, from stdin or typed without being shown
#[derive(clap::Args, Debug)]
pub struct Encrypt {
    /// A peel that is to read it
    #[arg(long = "peel", value_name = "ID")]
    pub peels: Vec<String>,
    /// Peels that are to read it, by id: a glob, E@ or L@
    #[arg(long, value_name = "TARGET")]
    pub target: Option<String>,
    /// A group of peels that are to read it
    #[arg(long = "group", value_name = "NAME")]
    pub groups: Vec<String>,
    /// The file that names groups
    #[arg(long = "groups", value_name = "FILE", default_value = GROUPS_FILE)]
    pub groups_file: PathBuf,
    /// A public key, under a name if need be
    #[arg(long = "key", value_name = "[NAME=]KEY", value_parser = keys::typed)]
    pub keys: Vec<(String, PublicKey)>,
    /// The only setting whose value it may be, as in db:password
    #[arg(long, value_name = "NAME")]
    pub setting: Option<String>,
    /// Keep the line end at the end of what is read
    #[arg(long)]
    pub verbatim: bool,
    #[command(flatten)]
    pub connect: Connect,
}

/// Every secret of a settings tree, and who can read it
#[derive(clap::Args, Debug)]
pub struct List {
    /// The settings directory, or a file [default: ./settings, else /srv/zester/settings]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Do not ask the fleet whether the keys are still those of the peels
    #[arg(long)]
    pub offline: bool,
    #[command(flatten)]
    pub connect: Connect,
}

/// Seal secrets anew for the keys that their readers have now
///
/// Somebody must be able to open them: --key-file names a private key that can; or --setting names one secret and its new
/// value is read from stdin. Who could read the old value has read it: a new key alone takes nothing back.
#[derive(clap::Args, Debug)]
pub struct Rotate {
    /// The settings directory, or a file [default: ./settings, else /srv/zester/settings]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// A private key that can open them, such as the secret.key of one of the peels
    #[arg(long, value_name = "FILE", conflicts_with = "setting", required_unless_present = "setting")]
    pub key_file: Option<PathBuf>,
    /// Give this secret a new value, from stdin
    #[arg(long, value_name = "NAME")]
    pub setting: Option<String>,
    /// Seal all of them anew, not only those whose readers have another key now
    #[arg(long)]
    pub all: bool,
    /// The public key of a reader, where it is not the one that the peel published
    #[arg(long = "key", value_name = "NAME=KEY", value_parser = keys::typed)]
    pub keys: Vec<(String, PublicKey)>,
    /// Keep the line end at the end of what is read
    #[arg(long)]
    pub verbatim: bool,
    #[command(flatten)]
    pub connect: Connect,
}

pub fn run(args: Secret, app: &mut App) -> answer::Result {
    let app = &*app;
    match args.verb {
        Verb::Encrypt(args) => encrypt(&args, app),
        Verb::List(args) => list(&args, app),
        Verb::Rotate(args) => rotate(&args, app),
        Verb::Key { inputs } => key(&inputs, app),
    }
}

fn key(inputs: &Inputs, app: &App) -> answer::Result {
    let data_dir = DataDir::open(&app.data_dir(inputs)?)?;
    let had_one = secrets::key(data_dir.root())?.is_some();
    let public = secrets::key_or_new(&data_dir)?.public();
    if !had_one {
        let path = data_dir.path(secrets::KEY_FILE);
        app.output.notice(&format!("there was no key; a new one was made: {}", path.display()));
    }
    // Not beside the key on stdout, where scripts take it from.
    app.output.notice(&format!("its fingerprint, as in sealed values: {}", public.fingerprint()));
    let json = json!({ "public_key": public.to_string(), "fingerprint": public.fingerprint() });
    Ok((Answer::Document { json, text: format!("{public}\n") }, Exit::Good))
}

fn encrypt(args: &Encrypt, app: &App) -> answer::Result {
    let mut names = args.peels.clone();
    for group in &args.groups {
        names.extend(keys::group(&args.groups_file, group)?);
    }
    let mut to = args.keys.clone();
    if !names.is_empty() || args.target.is_some() {
        let published = Published::read(app, &args.connect)?;
        if let Some(target) = &args.target {
            names.extend(published.named_by(target)?);
        }
        for name in &names {
            if !to.iter().any(|(other, _)| other == name) {
                to.push((name.clone(), published.wanted(name)?));
            }
        }
        published.warning().into_iter().for_each(|words| app.output.notice(words));
    }
    if to.is_empty() {
        return Err(Failure::usage(
            "nobody could read it; name peels with --peel, --target, --group or --key",
        ));
    }
    let sealed = Value::read(app, args.verbatim)?.seal(&to, args.setting.as_deref())?;
    let json = json!({
        "secret": sealed.to_string(), "setting": sealed.setting,
        "readers": sealed.recipients.iter().map(|one| reader(one, None)).collect::<Vec<_>>(),
    });
    let key = args.setting.as_deref().and_then(|name| name.rsplit(':').next());
    let begin = key.map_or_else(|| "!secret |\n".to_string(), |key| format!("{key}: !secret |\n"));
    Ok((Answer::Document { json, text: begin + &blocks::lines_of(&sealed, 2) }, Exit::Good))
}

/// What is known of one reader.
fn reader(recipient: &Recipient, published: Option<&Published>) -> Json {
    let mut json = json!({ "name": recipient.name, "fingerprint": recipient.fingerprint });
    if let (Some(map), Some(published)) = (json.as_object_mut(), published) {
        map.insert("key".into(), state_of(recipient, published).into());
    }
    json
}

fn state_of(recipient: &Recipient, published: &Published) -> &'static str {
    match published.key(&recipient.name) {
        Some(key) if key.fingerprint() == recipient.fingerprint => "current",
        Some(_) => "changed",
        None => "unknown",
    }
}

fn settings_path(given: Option<&Path>, app: &App) -> Result<PathBuf, Failure> {
    let configured = given.map(Path::to_path_buf).or_else(|| app.config.settings.clone());
    let default = || SETTINGS_DIRS.iter().map(PathBuf::from).find(|dir| dir.is_dir());
    let none = || Failure::usage("there is no settings directory here; name one");
    configured.or_else(default).ok_or_else(none)
}

fn list(args: &List, app: &App) -> answer::Result {
    let found = blocks::below(&settings_path(args.path.as_deref(), app)?)?;
    let published = match args.offline || found.is_empty() {
        true => None,
        false => match Published::read(app, &args.connect) {
            Ok(published) => Some(published),
            Err(failure) => {
                app.output.notice(&format!("whose keys have changed is not known: {}", failure.error));
                None
            }
        },
    };
    let mut text = String::new();
    let mut documents = Vec::new();
    for block in &found {
        let place = block.place();
        let (told, readers, problem) = match &block.marked.sealed {
            Ok(sealed) => {
                let one = |recipient: &Recipient| match published.as_ref().map(|all| state_of(recipient, all))
                {
                    Some("changed") => format!("{} (has another key now)", recipient.name),
                    Some("unknown") => format!("{} (published no such key)", recipient.name),
                    _ => recipient.name.clone(),
                };
                let readers: Vec<Json> =
                    sealed.recipients.iter().map(|one| reader(one, published.as_ref())).collect();
                let told: Vec<String> = sealed.recipients.iter().map(one).collect();
                (told.join(", "), readers, None)
            }
            Err(why) => (why.to_string(), Vec::new(), Some(why.to_string())),
        };
        match &block.marked.sealed {
            Err(Unsealed::NotUnderstood) => text.push_str(&format!("not understood: {place}\n")),
            _ => text.push_str(&format!("{place}  {}  {told}\n", block.marked.setting)),
        }
        documents.push(json!({
            "file": block.path.display().to_string(), "line": block.marked.line, "setting": block.marked.setting,
            "readers": readers, "error": problem,
        }));
    }
    if found.is_empty() {
        text.push_str("no secret here\n");
    }
    let exit = match found.iter().all(|block| block.marked.sealed.is_ok()) {
        true => Exit::Good,
        false => Exit::Failed,
    };
    Ok((Answer::Document { json: json!({ "secrets": documents }), text }, exit))
}

fn rotate(args: &Rotate, app: &App) -> answer::Result {
    let root = settings_path(args.path.as_deref(), app)?;
    let found = blocks::below(&root)?;
    // Its name is not sure either, so it may be one of those that are meant.
    let unclear = found.iter().filter(|block| !block.is_replaceable());
    let unclear: Vec<String> = unclear.map(Block::place).collect();
    if !unclear.is_empty() {
        let places = unclear.join(", ");
        return Err(Failure::usage(format!(
            "not understood: {places}; write it as a block, `!secret |`; nothing was changed"
        )));
    }
    let is_meant = |block: &&Block| args.setting.as_ref().is_none_or(|name| *name == block.marked.setting);
    let meant: Vec<&Block> = found.iter().filter(is_meant).collect();
    if meant.is_empty() {
        let named = args.setting.as_ref().map_or("a secret".to_string(), |name| format!("a secret `{name}`"));
        return Err(Failure::usage(format!(
            "{} holds no {}",
            root.display(),
            named.trim_start_matches("a ")
        )));
    }
    let given = |name: &str| args.keys.iter().find(|(other, _)| other == name).map(|(_, key)| key);
    let mut readers =
        meant.iter().filter_map(|block| block.marked.sealed.as_ref().ok()).flat_map(|one| &one.recipients);
    // Who gives every key needs no fleet.
    let published = match readers.all(|reader| given(&reader.name).is_some()) {
        true => Published::none(),
        false => Published::read(app, &args.connect)?,
    };
    let opener = args.key_file.as_deref().map(secrets::read_key).transpose()?;
    let typed = args.setting.as_ref().map(|_| Value::read(app, args.verbatim)).transpose()?;
    let mut changes: BTreeMap<&Path, Vec<(&Block, Sealed)>> = BTreeMap::new();
    let mut done = Vec::new();
    for block in meant {
        let place = block.place();
        let fail = |why: String| Failure::usage(format!("{place}: {why}; nothing was changed"));
        let sealed = block.marked.sealed.as_ref().map_err(|why| fail(why.to_string()))?;
        let mut to = Vec::new();
        for recipient in &sealed.recipients {
            let name = &recipient.name;
            let key = given(name).cloned().map_or_else(|| published.wanted(name), Ok);
            to.push((name.clone(), key.map_err(|failure| fail(failure.error.to_string()))?));
        }
        let stale = to.iter().any(|(name, key)| !sealed.is_for(name, key));
        if !stale && !args.all && typed.is_none() {
            continue;
        }
        let setting = sealed.setting.as_deref();
        let again = match (&typed, &opener) {
            (Some(typed), _) => typed.seal(&to, setting)?,
            (None, Some(opener)) => {
                let opened = sealed.open(opener).map_err(|why| fail(why.to_string()))?;
                value::seal(opened.text(), &to, setting)?
            }
            (None, None) => return Err(Failure::usage("give --key-file, or --setting and a new value")),
        };
        done.push(json!({
            "file": block.path.display().to_string(), "line": block.marked.line, "setting": block.marked.setting,
            "readers": again.recipients.iter().map(|one| reader(one, None)).collect::<Vec<_>>(),
        }));
        changes.entry(&block.path).or_default().push((block, again));
    }
    blocks::replace(changes)?;
    if !done.is_empty() && !published.is_none() {
        published.warning().into_iter().for_each(|words| app.output.notice(words));
    }
    let told = |one: &Json| {
        format!("{}:{}  {}  sealed anew\n", text(&one["file"]), one["line"], text(&one["setting"]))
    };
    let mut words: String = done.iter().map(told).collect();
    if done.is_empty() {
        words.push_str("every reader still has the key it was sealed for\n");
    }
    Ok((Answer::Document { json: json!({ "rotated": done }), text: words }, Exit::Good))
}

fn text(json: &Json) -> &str {
    json.as_str().unwrap_or_default()
}
