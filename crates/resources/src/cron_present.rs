//! `cron.present`, `cron.absent`: a job in the crontab of a user.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::crontab::field::FIELDS;
use crate::crontab::{Crontab, Job, claims_of};
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use std::path::Path;
use zester_host::digest::sha256_hex;
use zester_host::{Fault, HostRead};

/// Words that stand for five fields.
const SPECIAL: [&str; 8] =
    ["@reboot", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
/// What `random` chooses from: the first and the last of each field.
const RANGES: [(u64, u64); 5] = [(0, 59), (0, 23), (1, 28), (1, 12), (0, 6)];

/// A job in the crontab of a user.
#[params(kind = "cron.present", primary = "name", manual = "cron_present.md")]
pub struct Present {
    /// The command.
    name: String,
    /// Whose crontab.
    #[param(default = "root".to_string())]
    user: String,
    /// Minutes, as cron reads them, or `random`.
    #[param(default = "*".to_string())]
    minute: String,
    /// Hours, or `random`.
    #[param(default = "*".to_string())]
    hour: String,
    /// Days of the month, or `random`.
    #[param(default = "*".to_string())]
    daymonth: String,
    /// Months, or `random`.
    #[param(default = "*".to_string())]
    month: String,
    /// Days of the week, or `random`.
    #[param(default = "*".to_string())]
    dayweek: String,
    /// A word in place of all fields, like `@reboot`.
    special: Option<String>,
    /// What is to stand above it.
    comment: Option<String>,
    /// Keeps the job without running it.
    #[param(default)]
    commented: bool,
    /// What it is known by when its command changes. Default: the command.
    identifier: Option<String>,
}

impl Present {
    fn identifier(&self) -> &str {
        self.identifier.as_deref().unwrap_or(&self.name)
    }

    fn fields(&self) -> [&String; 5] {
        [&self.minute, &self.hour, &self.daymonth, &self.month, &self.dayweek]
    }

    /// `random` keeps what is there, and is otherwise the same for this job on this machine every time.
    fn schedule(&self, present: Option<&[String]>, host: &dyn HostRead) -> Result<String, Fault> {
        if let Some(special) = &self.special {
            return Ok(special.clone());
        }
        let mut fields = Vec::new();
        for (at, field) in self.fields().into_iter().enumerate() {
            let is_number = |field: &&String| field.bytes().all(|byte| byte.is_ascii_digit());
            let kept = present
                .filter(|fields| fields.len() == 5)
                .and_then(|fields| fields.get(at))
                .filter(is_number);
            fields.push(match kept {
                _ if field != "random" => field.clone(),
                Some(kept) => kept.clone(),
                None => self.drawn(at, host)?.to_string(),
            });
        }
        Ok(fields.join(" "))
    }

    fn drawn(&self, at: usize, host: &dyn HostRead) -> Result<u64, Fault> {
        let id = Path::new("/etc/machine-id");
        let machine = match host.stat_followed(id)? {
            Some(_) => host.read(id, 4096)?,
            None => Vec::new(),
        };
        let seed = format!("{}/{}/{at}/{}", String::from_utf8_lossy(&machine), self.user, self.identifier());
        let digest = sha256_hex(seed.as_bytes());
        let number = u64::from_str_radix(digest.get(..12).unwrap_or("0"), 16).unwrap_or_default();
        let (first, last) = RANGES[at];
        Ok(first + number % (last - first + 1))
    }
}

impl Resource for Present {
    type State = Crontab;

    fn key(&self) -> String {
        self.user.clone()
    }

    async fn desired(&self, now: &Crontab, cx: &Checking<'_>) -> Result<Want<Crontab>, Fault> {
        let found = now.find(self.identifier(), Some(&self.name));
        let job = Job {
            identifier: self.identifier().to_string(),
            comment: self.comment.clone(),
            schedule: self.schedule(found.as_ref().map(|found| found.fields.as_slice()), cx.host)?,
            command: self.name.clone(),
            commented: self.commented,
        };
        Ok(Want::Be(now.with_job(found.as_ref(), &job)))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = invalid_job(&self.user, self.identifier.as_deref(), &self.name);
        for (known, field) in FIELDS.iter().zip(self.fields()) {
            let parameter = known.name;
            let wrong = if field == "random" { None } else { known.wrong(field) };
            invalid.extend(wrong.map(|why| Invalid::new(parameter, why)));
            if self.special.is_some() && field != "*" {
                invalid.push(Invalid::new(parameter, "`special` says when it runs already; leave one out"));
            }
        }
        if let Some(special) = self.special.as_ref().filter(|special| !SPECIAL.contains(&special.as_str())) {
            let message = format!("`{special}` is none of {}", SPECIAL.join(", "));
            invalid.push(Invalid::new("special", message));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let schedule = (self.fields().map(String::clone), self.special.clone(), self.commented);
        let claim = Claim::new(job_item(self.identifier(), &self.user), "present")
            .with("schedule", Some(schedule))
            .with("command", Some(&self.name));
        claims_of(Claims::of(claim), &self.user)
    }
}

fn job_item(identifier: &str, user: &str) -> ManagedItem {
    ManagedItem::Named("cron job", format!("`{identifier}` of {user}"))
}

fn invalid_job(user: &str, identifier: Option<&str>, command: &str) -> Vec<Invalid> {
    let mut invalid = crate::accounts::odd_names("user", [&user.to_string()]);
    if identifier.is_some_and(|identifier| identifier.trim().is_empty() || identifier.contains('\n')) {
        invalid.push(Invalid::new("identifier", "an identifier is one line, and not empty"));
    }
    if command.contains('\n') || command.trim().is_empty() {
        invalid.push(Invalid::new("name", "a command is one line, and not empty"));
    }
    invalid
}

/// A job that is not in the crontab of a user.
#[params(kind = "cron.absent", primary = "name", manual = "cron_absent.md")]
pub struct Absent {
    /// The command.
    name: String,
    /// Whose crontab.
    #[param(default = "root".to_string())]
    user: String,
    /// What it is known by. Default: the command.
    identifier: Option<String>,
}

impl Absent {
    fn identifier(&self) -> &str {
        self.identifier.as_deref().unwrap_or(&self.name)
    }
}

impl Resource for Absent {
    type State = Crontab;

    fn key(&self) -> String {
        self.user.clone()
    }

    async fn desired(&self, now: &Crontab, _: &Checking<'_>) -> Result<Want<Crontab>, Fault> {
        Ok(match now.find(self.identifier(), Some(&self.name)) {
            Some(found) => Want::Be(now.without_job(&found)),
            None => Want::Same,
        })
    }

    fn validate(&self) -> Vec<Invalid> {
        invalid_job(&self.user, self.identifier.as_deref(), &self.name)
    }

    fn claims(&self) -> Claims {
        let claim = Claim::new(job_item(self.identifier(), &self.user), "absent");
        claims_of(Claims::of(claim), &self.user)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::crontab::fake_crontab::{SPOOL, fake_crontab};
    use crate::laws::{Case, Promise};
    use serde_json::json;
    const JOB: &str = "1 * * * * own\n# Lines below here are managed by Salt, do not edit\n# SALT_CRON_IDENTIFIER:job\n5 * * * * job\n";
    let case = |kind, params, promise, world: &'static str| {
        Case::new(kind, params, promise, move |host| fake_crontab(host, world)).with_books(&[SPOOL])
    };
    vec![
        case("cron.present", json!({ "name": "job" }), Promise::Converges, ""),
        case(
            "cron.present",
            json!({ "name": "job", "special": "@reboot", "comment": "a\nb" }),
            Promise::Converges,
            "1 * * * * own\n",
        ),
        case("cron.present", json!({ "name": "job", "minute": 5 }), Promise::Clean, JOB),
        case("cron.present", json!({ "name": "job", "minute": "random" }), Promise::Clean, JOB),
        case(
            "cron.present",
            json!({ "name": "job", "minute": "random", "hour": "random" }),
            Promise::Converges,
            JOB,
        ),
        case(
            "cron.present",
            json!({ "name": "other", "identifier": "job", "commented": true }),
            Promise::Converges,
            JOB,
        ),
        case("cron.absent", json!({ "name": "job" }), Promise::Converges, JOB),
        case("cron.absent", json!({ "name": "x", "identifier": "job" }), Promise::Converges, JOB),
        case("cron.absent", json!({ "name": "own" }), Promise::Clean, JOB),
        case("cron.absent", json!({ "name": "job" }), Promise::Clean, ""),
    ]
}
