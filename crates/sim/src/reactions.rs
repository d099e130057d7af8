//! What simulated masters react to: events of peels and operators, the rules for them, and those who send them (R-1 … R-13).
//!
//! Two versions of the rules do the same under the same names, at other places of the file: whichever a master has, what must
//! come of an event is known.

use crate::Mutation;
use crate::dice::Dice;
use crate::node::Environment;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use zester_link::Link;
use zester_master::Reacting;
use zester_model::diagnostic::Diagnostic;
use zester_model::node::Node;
use zester_model::source::{FileId, Span};
use zester_publish::{About, Fence, Publisher, Tree, TreePath, file_of};
use zester_reactor::{Cause, EventContext, Guards, ReactionTemplate, RuleCompiler};
use zester_wire::{
    BadName, Event, EventSubject, FactsRecord, Key, MasterId, MessageId, Origin, PeelId, Published, Subject,
    Tag, VERSION,
};

/// How long a sender tries to get its event stored: less than the stream remembers its id.
const SENDER_PATIENCE: Duration = Duration::from_secs(60);
const SENDER_PAUSE: Duration = Duration::from_secs(1);
/// How long a job of a reaction may take.
pub const REACTION_TIMEOUT: Duration = Duration::from_secs(60);
/// The tag of the events that a rule sends, as they are stored.
pub const SENT_TAG: &str = "reaction/next";
pub const SENDING_RULE: &str = "reactor.chain";

/// What must come of an event of this tag: the rules whose block `do` starts a job.
pub fn rule_of(origin: &Origin, tag: &str) -> Option<&'static str> {
    match (origin, tag) {
        (Origin::Master, SENT_TAG) => Some("reactor.next"),
        (Origin::Peel(_) | Origin::Admin, "work") => Some("reactor.work"),
        (Origin::Peel(_) | Origin::Admin, "chain") => Some(SENDING_RULE),
        _ => None,
    }
}

/// Who sends an event.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    Peel(usize),
    Operator,
}

/// What is wrong with an event, so that no rule must hear of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Its payload says another tag than its subject.
    OtherTag,
    /// It came out of too many reactions.
    TooDeep,
}

#[derive(Clone, Debug)]
pub struct EventPlan {
    pub sender: Sender,
    pub tag: &'static str,
    /// Unique among the events of its sender, and of nobody else.
    pub id: String,
    /// What the reaction is for: a target expression.
    pub target: String,
    pub flaw: Option<Flaw>,
    /// Somebody sends something else before, under the id that the event of its reaction will have.
    pub forged: bool,
}

impl EventPlan {
    pub fn new(sender: Sender, tag: &'static str, id: &str) -> EventPlan {
        EventPlan { sender, tag, id: id.into(), target: "*".into(), flaw: None, forged: false }
    }

    pub fn by_dice(number: usize, before: Option<&EventPlan>, peels: usize, dice: &Dice) -> EventPlan {
        let peel = |dice: &Dice| dice.roll(peels as u64) as usize;
        let sender = if dice.happens(700) { Sender::Peel(peel(dice)) } else { Sender::Operator };
        let tag = if dice.happens(600) { "work" } else { "chain" };
        // Another sender may use the same id: what it means is another event.
        let again = before.filter(|before| before.sender != sender && dice.happens(300));
        let id = again.map_or_else(|| format!("e{number}"), |before| before.id.clone());
        let flaw = match dice.roll(10) {
            0 => Some(Flaw::OtherTag),
            1 => Some(Flaw::TooDeep),
            _ => None,
        };
        EventPlan {
            target: if dice.happens(500) { "*".into() } else { format!("p{}", peel(dice)) },
            flaw,
            forged: tag == "chain" && dice.happens(250),
            ..EventPlan::new(sender, tag, &id)
        }
    }

    fn origin(&self) -> Result<Origin, BadName> {
        Ok(match self.sender {
            Sender::Peel(number) => Origin::Peel(PeelId::parse(&format!("p{number}"))?),
            Sender::Operator => Origin::Admin,
        })
    }

    fn subject(&self) -> Result<EventSubject, BadName> {
        let tag = Tag::parse(self.tag)?;
        Ok(match self.origin()? {
            Origin::Peel(peel) => EventSubject::Send { peel, tag },
            Origin::Master | Origin::Admin => EventSubject::Admin { tag },
        })
    }

    fn event(&self, link: &Link) -> Result<Event, BadName> {
        let mut data = Map::new();
        data.insert("target".into(), json!(self.target));
        Ok(Event {
            id: self.id.clone(),
            tag: Tag::parse(if self.flaw == Some(Flaw::OtherTag) { "other" } else { self.tag })?,
            data,
            ts: link.now(),
            v: VERSION,
            origin: String::new(),
            depth: if self.flaw == Some(Flaw::TooDeep) { Guards::default().max_chain_depth } else { 0 },
        })
    }
}

/// Sends an event, and before it what was forged. Tries again under the same id.
pub async fn send(link: Link, plan: EventPlan, number: usize) -> Result<(), BadName> {
    let (origin, subject) = (plan.origin()?, plan.subject()?);
    if plan.forged {
        let cause = Cause { origin: &origin, event_id: &plan.id, rule: SENDING_RULE, block: "send" };
        let tag = Tag::parse("junk")?;
        let peel = PeelId::parse("p0")?;
        let junk = Event { id: format!("junk-{number}"), tag: tag.clone(), ..plan.event(&link)? };
        let subject = Subject::Event(EventSubject::Send { peel, tag });
        store(&link, &subject, &MessageId::parse(&cause.event())?, &junk).await;
    }
    let event = plan.event(&link)?;
    store(&link, &Subject::Event(subject), &MessageId::parse(&format!("sent-{number}"))?, &event).await;
    Ok(())
}

async fn store(link: &Link, subject: &Subject, id: &MessageId, event: &Event) {
    let end = Instant::now() + SENDER_PATIENCE;
    while link.publish_stored(subject, id, event).await.is_err() && Instant::now() < end {
        sleep(SENDER_PAUSE).await;
    }
}

type Files = BTreeMap<TreePath, Vec<u8>>;

fn files_of(version: u64) -> Result<Files, zester_publish::BadPath> {
    let mut rules = vec![
        json!({ "*/work": ["reactor.work"] }),
        json!({ "*/chain": [SENDING_RULE] }),
        json!({ format!("_master/{SENT_TAG}"): ["reactor.next"] }),
    ];
    // The same rules at other places, so that a place means nothing beyond its version.
    rules.rotate_left((version % 3) as usize);
    let mut files = vec![("top.zy".to_string(), json!({ "reactor": rules }).to_string())];
    for name in ["work", "chain", "next"] {
        files.push((format!("{name}.zy"), json!({ "file": name, "version": version }).to_string()));
    }
    files.into_iter().map(|(path, text)| Ok((TreePath::parse(&path)?, text.into_bytes()))).collect()
}

struct Always;

impl Fence for Always {
    fn holds(&self) -> bool {
        true
    }
}

/// Publishes a version of the rules, over a link that loses nothing.
pub async fn publish(link: &Link, version: u64) -> Result<(), Box<dyn std::error::Error>> {
    let files = files_of(version)?;
    let tree =
        Tree { files: files.iter().map(|(path, bytes)| (path.clone(), file_of(bytes, 0o644))).collect() };
    let about = About {
        master: MasterId::new("judge", "boot")?,
        user: "sim".into(),
        source: String::new(),
        commit: String::new(),
        allow_empty: false,
        uploaded: true,
    };
    let publisher = Publisher { link, published: Published::Reactor, fence: &Always };
    // A server that is away, or stands still, keeps the rules that it has.
    let _unpublished = publisher.publish(&tree, &files, &about).await;
    Ok(())
}

/// The facts of all peels, as if they had been there before: a reaction finds everybody it means.
pub async fn seed_facts(link: &Link, peels: usize) -> Result<(), Box<dyn std::error::Error>> {
    for number in 0..peels {
        let peel = PeelId::parse(&format!("p{number}"))?;
        let facts = FactsRecord {
            v: VERSION,
            peel: peel.clone(),
            ts: link.now(),
            hash: "seed".into(),
            facts: Map::new(),
        };
        link.put(&Key::Facts(peel), &facts).await?;
    }
    Ok(())
}

/// How a master of this simulation reacts.
pub fn reacting(environment: &Environment, boot: &str) -> Reacting {
    let compiler = SimulatedCompiler {
        mutation: environment.mutation,
        dice: Arc::new(Dice::new(environment.seed, &format!("rules {boot}"))),
    };
    match environment.reacts {
        true => Reacting { compiler: Some(Arc::new(compiler)), ..Reacting::default() },
        false => Reacting::default(),
    }
}

/// Reads JSON, and knows the files by their names.
struct SimulatedCompiler {
    mutation: Mutation,
    dice: Arc<Dice>,
}

struct Template {
    file: String,
    version: Value,
    mutation: Mutation,
    dice: Arc<Dice>,
}

fn node(value: &Value) -> Node {
    Node::from_json(Span::new(FileId(0), 1, 1, 1), value)
}

fn parse(path: &str, text: &str) -> Result<Value, Vec<String>> {
    serde_json::from_str(text).map_err(|error| vec![format!("{path}: {error}")])
}

impl RuleCompiler for SimulatedCompiler {
    fn yaml(&self, path: &str, text: &str) -> Result<Node, Vec<String>> {
        Ok(node(&parse(path, text)?))
    }

    fn template(
        &self,
        path: &str,
        text: &str,
        _: &BTreeMap<String, String>,
    ) -> Result<Arc<dyn ReactionTemplate>, Vec<String>> {
        let value = parse(path, text)?;
        let file = value["file"].as_str().unwrap_or_default().to_string();
        let (mutation, dice) = (self.mutation, self.dice.clone());
        Ok(Arc::new(Template { file, version: value["version"].clone(), mutation, dice }))
    }

    fn explain(&self, path: &str, _: &str, found: &[Diagnostic]) -> Vec<String> {
        found.iter().map(|one| format!("{path}: {}", one.message)).collect()
    }

    /// One thread is all there is: chance must not come in by a second one.
    fn is_quick(&self) -> bool {
        true
    }
}

impl ReactionTemplate for Template {
    fn render(&self, context: &EventContext) -> Result<Node, Vec<String>> {
        let event = &context.event;
        // As if the id of its job had a random part.
        let block = match self.mutation {
            Mutation::RandomReaction | Mutation::RandomReactionRuns => format!("do-{}", self.dice.next()),
            _ => "do".to_string(),
        };
        let mut blocks = Map::new();
        if self.file == "chain" {
            let data = json!({
                "parent": event["id"], "parent_origin": event["origin"], "target": event["data"]["target"],
            });
            blocks.insert("send".into(), json!({ "event.send": { "tag": "next", "data": data } }));
        }
        let target = event["data"]["target"].as_str().unwrap_or("*");
        let work = json!({
            "target": target, "function": "work.do", "timeout": format!("{}s", REACTION_TIMEOUT.as_secs()),
            "args": { "version": self.version },
        });
        blocks.insert(block, json!({ "dispatch.module": work }));
        Ok(node(&Value::Object(blocks)))
    }
}
