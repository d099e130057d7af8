//! A user of the machine's own books.

use super::entries::{self, next_number};
use super::{Members, Password};
use crate::claims::ManagedItem;
use crate::context::Explanation;
use crate::state::{Read, State, Step, Write, slot};
use crate::tree;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::{Fault, FaultKind, FileKind, HostRead, HostWrite, Launch, Owner, User};
use zester_model::limits::FILE_BYTES_MAX;

/// What a home gets that is made for somebody who has none.
const HOME_MODE: u32 = 0o755;
/// What new homes are furnished with.
const SKELETON: &str = "/etc/skel";
/// The parts of the comment field, as parameters call them.
pub(crate) const COMMENT_PARTS: [&str; 5] = ["fullname", "roomnumber", "workphone", "homephone", "other"];
/// The fields of the shadow book in its order, and the option of `chage` that sets each.
pub(crate) const SHADOW_DAYS: [(&str, &str); 6] = [
    ("date", "-d"),
    ("mindays", "-m"),
    ("maxdays", "-M"),
    ("warndays", "-W"),
    ("inactdays", "-I"),
    ("expire", "-E"),
];

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UserState {
    Absent,
    Present(Box<UserAccount>),
}

/// What the books say of a user. What a user to be made does not say (`None`) is for `useradd` to choose.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct UserAccount {
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) home: Option<String>,
    pub(crate) shell: Option<String>,
    /// By [`COMMENT_PARTS`].
    pub(crate) comment: [String; 5],
    /// Besides the primary one.
    pub(crate) groups: Members,
    pub(crate) password: Option<Password>,
    /// By [`SHADOW_DAYS`]; none where the shadow book has no line.
    pub(crate) days: [Option<i64>; 6],
    /// The home is there.
    pub(crate) has_home: bool,
    /// The number of the group of the same name, which comes and goes with its user.
    pub(crate) own_group: Option<u32>,
    /// Only the name service knows it.
    #[serde(skip)]
    pub(crate) elsewhere: bool,
    /// What its number would be: for whoever looks it up in a dry run, and for a revert, which must know whom a run that was
    /// cut made.
    #[serde(default)]
    pub(crate) expected: u32,
}

/// How a user is made, changed or removed.
#[derive(Copy, Clone)]
pub(crate) struct How {
    pub(crate) system: bool,
    /// The number may be somebody else's too.
    pub(crate) non_unique: bool,
    /// A new user gets a group of its own name: yes, no, or as the machine does it.
    pub(crate) user_group: Option<bool>,
    pub(crate) no_log_init: bool,
    pub(crate) move_home: bool,
    /// The home goes with its user.
    pub(crate) purge: bool,
    /// Also somebody who is logged in.
    pub(crate) force: bool,
    /// A home goes with its user that holds nothing but what it was furnished with: the way of a revert.
    pub(crate) tidy_home: bool,
}

impl Default for How {
    fn default() -> How {
        How {
            system: false,
            non_unique: true,
            user_group: None,
            no_log_init: false,
            move_home: false,
            purge: false,
            force: false,
            tidy_home: true,
        }
    }
}

impl How {
    /// Of a state that somebody wrote, which leaves homes alone.
    pub(crate) fn of_state() -> How {
        How { tidy_home: false, non_unique: false, ..How::default() }
    }
}

impl UserState {
    /// The number that a new user would get.
    pub(crate) fn next_uid(cx: &Read<'_>, system: bool) -> Result<u32, Fault> {
        let book = cx.text(entries::PASSWD)?.unwrap_or_default();
        let numbers = book.lines().filter_map(|line| line.split(':').nth(2)?.parse().ok());
        Ok(next_number(numbers, system))
    }
}

impl UserAccount {
    /// A new user, of whom nothing is said yet.
    pub(crate) fn new() -> UserAccount {
        UserAccount::default()
    }

    fn of_books(name: &str, entry: entries::PasswdEntry, cx: &Read<'_>) -> Result<UserAccount, Fault> {
        let mut parts = entry.gecos.splitn(COMMENT_PARTS.len(), ',').map(str::to_string);
        let comment = std::array::from_fn(|_| parts.next().unwrap_or_default());
        let groups = entries::groups(cx)?;
        let own_group = groups.iter().find(|group| group.name == name).map(|group| group.gid);
        let of = groups
            .iter()
            .filter(|group| group.gid != entry.gid && group.members.iter().any(|member| member == name));
        let shadow = entries::shadow(cx, name)?;
        Ok(UserAccount {
            uid: Some(entry.uid),
            gid: Some(entry.gid),
            has_home: is_directory(cx.host, &entry.home)?,
            home: Some(entry.home),
            shell: Some(entry.shell),
            comment,
            groups: Members::of(of.map(|group| group.name.clone())),
            password: shadow.as_ref().map(|shadow| Password::present(&shadow.password)),
            days: shadow.map_or([None; 6], |shadow| shadow.days.map(Some)),
            own_group,
            elsewhere: false,
            expected: entry.uid,
        })
    }

    fn gecos(&self) -> String {
        self.comment.join(",").trim_end_matches(',').to_string()
    }

    /// The same hash, however it is known.
    fn same_password(&self, other: &UserAccount) -> bool {
        match (&self.password, &other.password) {
            (Some(one), Some(other)) => one.is(other),
            (None, None) => true,
            _ => false,
        }
    }

    /// As it is to stand in a record: what a state set is known by its digest.
    fn sealed(mut self) -> UserAccount {
        self.password = self.password.map(|password| password.sealed());
        self
    }
}

fn is_directory(host: &dyn HostRead, path: &str) -> Result<bool, Fault> {
    if !path.starts_with('/') {
        return Ok(false);
    }
    let real = tree::behind_links(host, &tree::resolve_again(host, Path::new(path))?)?;
    Ok(host.stat(&real)?.is_some_and(|meta| meta.kind == FileKind::Directory))
}

impl State for UserState {
    type Key = String;
    type How = How;

    fn item(name: &String) -> ManagedItem {
        ManagedItem::User(name.clone())
    }

    async fn current(name: &String, cx: &Read<'_>) -> Result<UserState, Fault> {
        if let Some(entry) = entries::passwd(cx, name)? {
            return Ok(UserState::Present(Box::new(UserAccount::of_books(name, entry, cx)?)));
        }
        Ok(match cx.host.user(name)? {
            None => UserState::Absent,
            Some(user) => UserState::Present(Box::new(UserAccount {
                uid: Some(user.uid),
                gid: Some(user.gid),
                home: Some(user.home.display().to_string()),
                has_home: is_directory(cx.host, &user.home.display().to_string())?,
                elsewhere: true,
                expected: user.uid,
                ..UserAccount::default()
            })),
        })
    }

    async fn enforce(step: &Step<'_, UserState>, cx: &Write<'_, UserState>) -> Result<(), Fault> {
        let name = step.key.as_str();
        let _turn = super::CHANGES.lock().await;
        match (step.from, step.to) {
            (UserState::Absent, UserState::Present(to)) => {
                if let UserState::Present(_) = UserState::current(step.key, &cx.read()).await? {
                    return Err(super::made_meanwhile(&UserState::item(step.key)));
                }
                // From here on a record says no more than what is done, so that a revert knows whom it may remove.
                let reached = |account: &UserAccount| {
                    cx.reached(UserState::Present(Box::new(account.clone().sealed())));
                };
                reached(&UserAccount { password: None, days: [None; 6], ..to.as_ref().clone() });
                if let Err(fault) = add(name, to, step.how, cx).await {
                    if super::is_taken(&fault) {
                        cx.reached(UserState::Absent);
                    }
                    return Err(fault);
                }
                let mut made = match UserState::current(step.key, &cx.read()).await? {
                    UserState::Present(made) => *made,
                    UserState::Absent => return Err(vanished(name)),
                };
                reached(&made);
                set_password(name, &made, to, cx).await?;
                made.password = to.password.clone().or(made.password);
                reached(&made);
                set_days(name, &made, to, cx).await?;
                for (day, wanted) in made.days.iter_mut().zip(to.days) {
                    *day = wanted.or(*day);
                }
                reached(&made);
                Ok(())
            }
            (UserState::Present(from), UserState::Absent) => remove(name, from, step.how, cx).await,
            (UserState::Present(from), UserState::Present(to)) => {
                modify(name, from, to, step.how, cx).await?;
                set_password(name, from, to, cx).await?;
                set_days(name, from, to, cx).await?;
                set_home(from, to, cx)
            }
            (UserState::Absent, UserState::Absent) => Ok(()),
        }
    }

    fn describe(step: &Step<'_, UserState>, done: bool) -> Explanation {
        describe(step, done)
    }

    fn predict(name: &String, to: &UserState, overlay: &Overlay) -> Result<(), Fault> {
        match to {
            UserState::Absent => overlay.predict_no_user(name),
            UserState::Present(account) => {
                let uid = account.uid.unwrap_or(account.expected);
                let home = account.home.clone().unwrap_or_else(|| format!("/home/{name}"));
                let home = PathBuf::from(home);
                let gid = account.gid.unwrap_or(uid);
                if account.has_home && overlay.stat(&home)?.is_none() {
                    // A parent that is not there is for `useradd` to complain about.
                    let _made = overlay.make_directory(&home, HOME_MODE, Owner { uid, gid });
                }
                overlay.predict_user(User { name: name.clone(), uid, gid, home });
            }
        }
        overlay.predict_state(slot::<UserState>(name), Arc::new(to.clone()));
        Ok(())
    }

    /// What was made and not finished; what holds a password that the record knows by its digest. Whoever has another number
    /// is somebody else, and who has another password, other groups or another name was changed since (S-31).
    fn is_between(&self, before: &UserState, after: &UserState) -> bool {
        let said = |wanted: Option<&String>, now: Option<&String>| wanted.is_none() || wanted == now;
        match (before, self, after) {
            (UserState::Absent, UserState::Present(now), UserState::Present(after)) => {
                now.uid == Some(after.uid.unwrap_or(after.expected))
                    && (after.gid.is_none() || after.gid == now.gid)
                    && said(after.home.as_ref(), now.home.as_ref())
                    && said(after.shell.as_ref(), now.shell.as_ref())
                    && after.comment == now.comment
                    && after.groups == now.groups
                    && (after.same_password(now) || now.password.as_ref().is_none_or(Password::is_unset))
                    && after.days.iter().zip(now.days).all(|(after, now)| after.is_none() || *after == now)
            }
            (UserState::Present(before), UserState::Present(now), UserState::Present(after)) => {
                let either = |is: &dyn Fn(&UserAccount) -> bool| is(before) || is(after);
                either(&|of| of.uid == now.uid)
                    && either(&|of| of.gid == now.gid)
                    && either(&|of| of.home == now.home)
                    && either(&|of| of.shell == now.shell)
                    && either(&|of| of.comment == now.comment)
                    && either(&|of| of.groups == now.groups)
                    && either(&|of| of.same_password(now))
                    && (0..SHADOW_DAYS.len()).all(|at| either(&|of| of.days[at] == now.days[at]))
            }
            _ => false,
        }
    }
}

fn vanished(name: &str) -> Fault {
    Fault::new(FaultKind::CommandFailed, format!("useradd succeeded, and there is no user `{name}`"))
        .touched()
}

async fn add(name: &str, to: &UserAccount, how: &How, cx: &Write<'_, UserState>) -> Result<(), Fault> {
    let groups = entries::groups(&cx.read())?;
    // Somebody who comes back finds the group of its own name gone with it.
    if let Some(gid) =
        to.own_group.filter(|gid| !groups.iter().any(|group| group.name == name || group.gid == *gid))
    {
        cx.run(&["groupadd", "-g", &gid.to_string(), name]).await?;
    }
    let mut words: Vec<String> = vec!["useradd".into()];
    let mut option = |letter: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [letter.to_string(), value]));
    };
    option("-u", to.uid.map(|uid| uid.to_string()));
    option("-g", to.gid.map(|gid| gid.to_string()));
    option("-G", (!to.groups.is_empty()).then(|| to.groups.with_commas()));
    option("-d", to.home.clone());
    option("-s", to.shell.clone());
    option("-c", Some(to.gecos()).filter(|gecos| !gecos.is_empty()));
    let is_own = groups.iter().any(|group| group.name == name);
    let flags = [
        (how.non_unique && to.uid.is_some(), "-o"),
        (how.system, "-r"),
        (how.no_log_init, "-l"),
        (how.user_group == Some(true) && to.gid.is_none() && !is_own, "-U"),
        (how.user_group == Some(false) && to.gid.is_none(), "-N"),
        (to.has_home, "-m"),
        (!to.has_home, "-M"),
    ];
    words.extend(flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag.to_string()));
    words.push(name.to_string());
    cx.launch(Launch::argv(words)).await.map(drop)
}

async fn modify(
    name: &str,
    from: &UserAccount,
    to: &UserAccount,
    how: &How,
    cx: &Write<'_, UserState>,
) -> Result<(), Fault> {
    let mut words: Vec<String> = vec!["usermod".into()];
    let mut option = |letter: &str, differs: bool, value: Option<String>| {
        let value = value.filter(|_| differs);
        words.extend(value.into_iter().flat_map(|value| [letter.to_string(), value]));
    };
    option("-u", from.uid != to.uid, to.uid.map(|uid| uid.to_string()));
    option("-g", from.gid != to.gid, to.gid.map(|gid| gid.to_string()));
    option("-d", from.home != to.home, to.home.clone());
    option("-s", from.shell != to.shell, to.shell.clone());
    option("-c", from.comment != to.comment, Some(to.gecos()));
    option("-G", from.groups != to.groups, Some(to.groups.with_commas()));
    if words.len() == 1 {
        return Ok(());
    }
    if how.non_unique && from.uid != to.uid {
        words.push("-o".into());
    }
    let mut moves = how.move_home && from.home != to.home;
    if let (true, Some(old), Some(new)) = (how.tidy_home && from.home != to.home, &to.home, &from.home) {
        // What was moved goes back.
        moves = !is_directory(cx.host, old)? && is_directory(cx.host, new)?;
    }
    if moves {
        words.push("-m".into());
    }
    words.push(name.to_string());
    cx.launch(Launch::argv(words)).await?;
    match &from.home {
        Some(home) if how.tidy_home && from.home != to.home => remove_unused_home(cx.host, Path::new(home)),
        _ => Ok(()),
    }
}

async fn set_password(
    name: &str,
    from: &UserAccount,
    to: &UserAccount,
    cx: &Write<'_, UserState>,
) -> Result<(), Fault> {
    let Some(password) = &to.password else { return Ok(()) };
    if from.same_password(to) {
        return Ok(());
    }
    let mut launch = Launch::argv(["chpasswd", "-e"]);
    launch.stdin = Some(password.line(name)?);
    cx.launch(launch).await.map(drop)
}

/// After the password, which sets the day of its last change.
async fn set_days(
    name: &str,
    from: &UserAccount,
    to: &UserAccount,
    cx: &Write<'_, UserState>,
) -> Result<(), Fault> {
    let mut words: Vec<String> = vec!["chage".into()];
    for (at, (field, option)) in SHADOW_DAYS.iter().enumerate() {
        let follows = *field == "date" && !from.same_password(to);
        if let Some(days) = to.days[at].filter(|days| Some(*days) != from.days[at] || follows) {
            words.extend([(*option).to_string(), days.to_string()]);
        }
    }
    if words.len() == 1 {
        return Ok(());
    }
    words.push(name.to_string());
    cx.launch(Launch::argv(words)).await.map(drop)
}

/// A home that is missing is made, and taken away again while it is empty.
fn set_home(from: &UserAccount, to: &UserAccount, cx: &Write<'_, UserState>) -> Result<(), Fault> {
    let Some(home) = &to.home else { return Ok(()) };
    let there = is_directory(cx.host, home)?;
    let path = tree::resolve_again(cx.host, Path::new(home))?;
    match (there, to.has_home) {
        (false, true) => {
            let (Some(uid), Some(gid)) = (to.uid, to.gid) else { return Ok(()) };
            cx.host.make_directory(&path, HOME_MODE, Owner { uid, gid })
        }
        (true, false) if from.has_home && cx.host.list(&path)?.is_empty() => cx.host.remove_directory(&path),
        _ => Ok(()),
    }
}

async fn remove(name: &str, from: &UserAccount, how: &How, cx: &Write<'_, UserState>) -> Result<(), Fault> {
    let mut words = vec!["userdel"];
    words.extend(how.force.then_some("-f"));
    words.extend(how.purge.then_some("-r"));
    words.push(name);
    cx.run(&words).await?;
    match &from.home {
        Some(home) if how.tidy_home && from.has_home => remove_unused_home(cx.host, Path::new(home)),
        _ => Ok(()),
    }
}

/// Removes a home that holds nothing but what it was furnished with.
fn remove_unused_home(host: &dyn HostWrite, home: &Path) -> Result<(), Fault> {
    let home = tree::resolve_again(host, home)?;
    if host.stat(&home)?.is_none_or(|meta| meta.kind != FileKind::Directory) {
        return Ok(());
    }
    let names = host.list(&home)?;
    for name in &names {
        let (own, furnished) = (home.join(name), Path::new(SKELETON).join(name));
        let is_file =
            |path: &Path| Ok::<_, Fault>(host.stat(path)?.is_some_and(|meta| meta.kind == FileKind::File));
        if !is_file(&own)?
            || !is_file(&furnished)?
            || host.read(&own, FILE_BYTES_MAX)? != host.read(&furnished, FILE_BYTES_MAX)?
        {
            return Ok(());
        }
    }
    names.iter().try_for_each(|name| host.remove_file(&home.join(name)))?;
    host.remove_directory(&home)
}

fn describe(step: &Step<'_, UserState>, _done: bool) -> Explanation {
    let (name, how, mut told) = (step.key, step.how, Explanation::default());
    let mut tell = |field: &str, old: String, new: String| {
        told.diff.push_str(&format!("the user {name}: {field}: {old} → {new}\n"));
        told.details.insert(field.to_string(), json!({ "old": old, "new": new }));
    };
    let number = |number: Option<u32>| number.map_or("none".to_string(), |number| number.to_string());
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_string());
    match (step.from, step.to) {
        (UserState::Absent, UserState::Present(to)) => {
            tell("account", "absent".into(), "present".into());
            let new = UserAccount::new();
            tell_fields(&new, to, &mut tell, number, text);
        }
        (UserState::Present(from), UserState::Absent) => {
            tell("account", "present".into(), "absent".into());
            if how.purge
                && let Some(home) = from.home.as_ref().filter(|_| from.has_home)
            {
                told.diff
                    .push_str(&format!("no revert can bring back {home}: it goes with all that is in it\n"));
                told.details.insert("unrestorable".into(), vec![home.clone()].into());
            }
        }
        (UserState::Present(from), UserState::Present(to)) => {
            tell_fields(from, to, &mut tell, number, text);
            if from.uid != to.uid || from.gid != to.gid {
                told.diff.push_str("files outside the home keep the old number\n");
            }
        }
        (UserState::Absent, UserState::Absent) => {}
    }
    told
}

fn tell_fields(
    from: &UserAccount,
    to: &UserAccount,
    tell: &mut dyn FnMut(&str, String, String),
    number: impl Fn(Option<u32>) -> String,
    text: impl Fn(&Option<String>) -> String,
) {
    if from.uid != to.uid {
        tell("uid", number(from.uid), number(to.uid));
    }
    if from.gid != to.gid {
        tell("gid", number(from.gid), number(to.gid));
    }
    if from.home != to.home {
        tell("home", text(&from.home), text(&to.home));
    }
    if from.shell != to.shell {
        tell("shell", text(&from.shell), text(&to.shell));
    }
    for (at, part) in COMMENT_PARTS.iter().enumerate() {
        if from.comment[at] != to.comment[at] {
            let said = |text: &String| if text.is_empty() { "none".to_string() } else { text.clone() };
            tell(part, said(&from.comment[at]), said(&to.comment[at]));
        }
    }
    if from.groups != to.groups {
        tell("groups", from.groups.words(), to.groups.words());
    }
    if to.password.is_some() && !from.same_password(to) {
        // Neither what it was nor what it will be.
        tell("password", "***".into(), "***".into());
    }
    for (at, (field, _)) in SHADOW_DAYS.iter().enumerate() {
        let day =
            |day: Option<i64>| day.filter(|day| *day >= 0).map_or("none".to_string(), |day| day.to_string());
        if from.days[at] != to.days[at] && to.days[at].is_some() {
            tell(field, day(from.days[at]), day(to.days[at]));
        }
    }
    if from.has_home != to.has_home {
        let there = |is: bool| if is { "there" } else { "not there" }.to_string();
        tell("home directory", there(from.has_home), there(to.has_home));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-31")]
    fn s31_a_user_of_somebody_else_or_changed_since_is_not_ours_to_remove() {
        let there = |uid, password: &str, groups: &[&str]| {
            UserState::Present(Box::new(UserAccount {
                uid,
                password: Some(Password::present(password)),
                groups: Members::of(groups.iter().map(ToString::to_string)),
                ..UserAccount::new()
            }))
        };
        let now = there(Some(1000), "$6$a$b", &["staff"]);
        let is_ours = |after: UserState| now.is_between(&UserState::Absent, &after);
        assert!(is_ours(there(Some(1000), "$6$a$b", &["staff"])));
        assert!(!is_ours(there(None, "$6$a$b", &["staff"])), "nobody knows whose number that is");
        assert!(!is_ours(there(Some(1000), "$6$a$c", &["staff"])), "another password since");
        assert!(!is_ours(there(Some(1000), "$6$a$b", &[])), "another group since");
        let unfinished = there(Some(1000), "!", &["staff"]);
        assert!(unfinished.is_between(&UserState::Absent, &now), "the password was still to come");
    }
}
