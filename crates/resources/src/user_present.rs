//! `user.present`: a user of this machine.

use crate::accounts::{self, GroupId, How, Members, Password, UserAccount, UserState};
use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::params::{Absolute, Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::Read;
use zester_host::{Fault, FaultKind};

const NS_PER_DAY: i128 = 86_400 * 1_000_000_000;

const LETS_IN_WITHOUT: &str =
    "an empty hash lets everybody in; `empty_password: true` says so on purpose, `!` locks the password";

/// A user of this machine.
#[params(kind = "user.present", primary = "name", manual = "user_present.md")]
pub struct Present {
    /// The name that they log in with.
    name: String,
    /// Their number. Unset: whichever is free, or as it is.
    uid: Option<u32>,
    /// Their primary group, by name or number. Unset: one of their own, or as it is.
    gid: Option<GroupId>,
    /// `true` makes their primary group the one that has their name.
    #[param(default)]
    gid_from_name: bool,
    /// Whether a new user gets a group of the same name. Unset: as the machine does it.
    usergroup: Option<bool>,
    /// The other groups that they are in. Each must be there.
    #[param(list)]
    groups: Option<Vec<String>>,
    /// Groups that they are in too, where there is such a group.
    #[param(list)]
    optional_groups: Option<Vec<String>>,
    /// `false` leaves them in groups that are not named here. Default: true.
    #[param(default = true)]
    remove_groups: bool,
    /// Their home. Unset: `/home/NAME`, or as it is.
    home: Option<Absolute>,
    /// Makes the home where it is missing. Default: true.
    #[param(default = true)]
    createhome: bool,
    /// Moves what is in the old home when the home changes.
    #[param(default)]
    move_home: bool,
    /// The hash of their password, as `openssl passwd -6` prints it.
    #[param(secret)]
    password: Option<String>,
    /// Lets them in without any password.
    #[param(default)]
    empty_password: bool,
    /// `false` sets the password of a new user only. Default: true.
    #[param(default = true)]
    enforce_password: bool,
    /// Refused: passwords are hashed elsewhere.
    #[param(default)]
    hash_password: bool,
    /// Their shell.
    shell: Option<String>,
    /// Their name in full.
    fullname: Option<String>,
    /// Where they sit.
    roomnumber: Option<String>,
    /// Their number at work.
    workphone: Option<String>,
    /// Their number at home.
    homephone: Option<String>,
    /// Whatever else is to stand in the comment field.
    other: Option<String>,
    /// A new user gets a number of the system's.
    #[param(default)]
    system: bool,
    /// `false` allows a number that somebody else has too. Default: true.
    #[param(default = true)]
    unique: bool,
    /// Leaves a new user out of the log of last logins.
    #[param(default)]
    nologinit: bool,
    /// Allows that the number of an existing user changes; files elsewhere keep the old one.
    #[param(default)]
    allow_uid_change: bool,
    /// Allows that the primary group of an existing user changes; files elsewhere keep the old one.
    #[param(default)]
    allow_gid_change: bool,
    /// The day of the last change of the password, counted from 1970.
    date: Option<i64>,
    /// Days that must pass before the password may be changed again.
    mindays: Option<i64>,
    /// Days after which the password must be changed.
    maxdays: Option<i64>,
    /// Days after which an account is locked whose password is too old.
    inactdays: Option<i64>,
    /// Days before that on which they are warned.
    warndays: Option<i64>,
    /// The day on which the account ends, counted from 1970; -1 for never.
    expire: Option<i64>,
    /// Makes nobody: a user who is not there is an error.
    #[param(default)]
    must_exist: bool,
}

impl Present {
    fn comment(&self) -> [Option<&String>; 5] {
        [
            self.fullname.as_ref(),
            self.roomnumber.as_ref(),
            self.workphone.as_ref(),
            self.homephone.as_ref(),
            self.other.as_ref(),
        ]
    }

    /// In the order of the shadow book.
    fn days(&self) -> [Option<i64>; 6] {
        [self.date, self.mindays, self.maxdays, self.warndays, self.inactdays, self.expire]
    }

    fn wanted_gid(&self, cx: &Checking<'_>) -> Result<Option<u32>, Fault> {
        match &self.gid {
            Some(gid) => gid.number(cx.host).map(Some),
            None if self.gid_from_name => accounts::group(cx.host, &self.name).map(|group| Some(group.gid)),
            None => Ok(None),
        }
    }

    fn wanted_groups(&self, now: &Members, cx: &Checking<'_>) -> Result<Members, Fault> {
        if self.groups.is_none() && self.optional_groups.is_none() {
            return Ok(now.clone());
        }
        let mut wanted = if self.remove_groups { Members::default() } else { now.clone() };
        for name in self.groups.iter().flatten() {
            wanted.insert(accounts::group(cx.host, name)?.name);
        }
        for name in self.optional_groups.iter().flatten() {
            wanted.extend(cx.host.group(name)?.map(|group| group.name));
        }
        Ok(wanted)
    }

    fn wanted_password(&self, cx: &Checking<'_>) -> Result<Option<Password>, Fault> {
        if self.empty_password {
            return Ok(Some(Password::wanted(Vec::new().into())));
        }
        let Some(hash) = &self.password else { return Ok(None) };
        let hash = cx.files.reveal(hash.clone().into_bytes())?;
        // A secret may turn out to be empty, or a line that holds nothing.
        if hash.bytes().trim_ascii().is_empty() {
            let message = format!("the `password` of `{}` is empty", self.name);
            return Err(Fault::new(FaultKind::Unsupported, message).hint(LETS_IN_WITHOUT));
        }
        Ok(Some(Password::wanted(hash)))
    }

    /// What is said, over what is there.
    fn over(&self, mut to: UserAccount, is_new: bool, cx: &Checking<'_>) -> Result<UserAccount, Fault> {
        to.uid = self.uid.or(to.uid);
        to.gid = self.wanted_gid(cx)?.or(to.gid);
        to.groups = self.wanted_groups(&to.groups, cx)?;
        // What is the primary group is not among the others.
        if let Some(name) = self.groups.iter().flatten().find(|name| is_group(cx, name, to.gid)) {
            to.groups.remove(name);
        }
        to.home = self.home.as_ref().map(|home| home.display().to_string()).or(to.home);
        to.shell = self.shell.clone().or(to.shell);
        for (part, said) in to.comment.iter_mut().zip(self.comment()) {
            part.clone_from(said.unwrap_or(&part.clone()));
        }
        if self.createhome {
            to.has_home = true;
        }
        if let Some(password) = self.wanted_password(cx)?
            && (is_new || self.enforce_password)
            && !to.password.as_ref().is_some_and(|present| present.is(&password))
        {
            to.password = Some(password);
            to.days[0] = i64::try_from(cx.host.now_ns() / NS_PER_DAY).ok();
        }
        for (day, said) in to.days.iter_mut().zip(self.days()) {
            *day = said.or(*day);
        }
        Ok(to)
    }

    fn refuse_what_is_not_allowed(&self, now: &UserAccount, to: &UserAccount) -> Result<(), Fault> {
        for (word, differs, allowed) in [
            ("uid", now.uid != to.uid, self.allow_uid_change),
            ("gid", now.gid != to.gid, self.allow_gid_change),
        ] {
            if differs && !allowed {
                let number = |account: &UserAccount| if word == "uid" { account.uid } else { account.gid };
                let (old, new) = (number(now).unwrap_or_default(), number(to).unwrap_or_default());
                let message = format!("the {word} of `{}` is {old} and is to be {new}", self.name);
                let hint =
                    format!("`allow_{word}_change: true` changes it; files elsewhere keep the old number");
                return Err(Fault::new(FaultKind::Unsupported, message).hint(hint));
            }
        }
        Ok(())
    }
}

fn is_group(cx: &Checking<'_>, name: &str, gid: Option<u32>) -> bool {
    matches!(cx.host.group(name), Ok(Some(group)) if Some(group.gid) == gid)
}

impl Resource for Present {
    type State = UserState;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &UserState, cx: &Checking<'_>) -> Result<Want<UserState>, Fault> {
        let (account, is_new) = match now {
            UserState::Absent if self.must_exist => return Err(accounts::nobody(&self.name)),
            UserState::Absent => {
                let expected = match self.uid {
                    Some(uid) => uid,
                    None => UserState::next_uid(&Read::of_check(cx), self.system)?,
                };
                (UserAccount { expected, ..UserAccount::new() }, true)
            }
            UserState::Present(now) => (now.as_ref().clone(), false),
        };
        let to = UserState::Present(Box::new(self.over(account, is_new, cx)?));
        if let (UserState::Present(now), UserState::Present(to)) = (now, &to) {
            self.refuse_what_is_not_allowed(now, to)?;
            if now.elsewhere
                && crate::state::as_json::<UserState>(&UserState::Present(now.clone()))
                    != crate::state::as_json(&UserState::Present(to.clone()))
            {
                let message = format!(
                    "the user `{}` is not in /etc/passwd: the name service has it from elsewhere",
                    self.name
                );
                return Err(Fault::new(FaultKind::Unsupported, message).hint("change it where it comes from"));
            }
        }
        Ok(Want::Be(to))
    }

    fn how(&self) -> How {
        How {
            system: self.system,
            non_unique: !self.unique,
            user_group: self.usergroup,
            no_log_init: self.nologinit,
            move_home: self.move_home,
            ..How::of_state()
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = accounts::odd_names("name", [&self.name]);
        invalid.extend(accounts::odd_names("groups", self.groups.iter().flatten()));
        invalid.extend(accounts::odd_names("optional_groups", self.optional_groups.iter().flatten()));
        for (parameter, text) in [
            ("fullname", &self.fullname),
            ("roomnumber", &self.roomnumber),
            ("workphone", &self.workphone),
            ("homephone", &self.homephone),
            ("other", &self.other),
            ("shell", &self.shell),
            ("password", &self.password),
        ] {
            invalid.extend(accounts::odd_field(parameter, text.as_deref()));
            let parts = parameter != "other" && parameter != "shell" && parameter != "password";
            if parts && text.as_ref().is_some_and(|text| text.contains(',')) {
                invalid.push(Invalid::new(parameter, "a comma ends this part of the comment field"));
            }
        }
        if self.password.as_ref().is_some_and(|hash| hash.trim().is_empty()) {
            let mut refused = Invalid::new("password", "there is no hash in it");
            refused.hint = Some(LETS_IN_WITHOUT.into());
            invalid.push(refused);
        }
        if self.empty_password && self.password.is_some() {
            invalid.push(Invalid::new("empty_password", "there is a `password` as well; leave one out"));
        }
        if self.hash_password {
            let mut refused = Invalid::new("hash_password", "passwords are not hashed here");
            refused.hint = Some("give the hash itself: `openssl passwd -6` prints one".into());
            invalid.push(refused);
        }
        if self.gid_from_name && self.gid.is_some() {
            invalid.push(Invalid::new("gid_from_name", "there is a `gid` as well; leave one out"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let groups = self.groups.as_ref().map(|groups| Members::of(groups.iter().cloned()).0);
        let claim = Claim::new(ManagedItem::User(self.name.clone()), "present")
            .with("uid", self.uid)
            .with("gid", self.gid.as_ref())
            .with("home", self.home.as_ref().map(|home| home.0.clone()))
            .with("shell", self.shell.as_ref())
            .with("groups", groups)
            .with("password", self.password.as_ref())
            .with("fullname", self.fullname.as_ref());
        let mut claims = Claims::of(claim);
        if let Some(GroupId::Name(name)) = &self.gid {
            claims = claims.accounts(None, Some(name));
        }
        if self.gid_from_name {
            claims = claims.accounts(None, Some(&self.name));
        }
        for name in self.groups.iter().chain(&self.optional_groups).flatten() {
            claims = claims.accounts(None, Some(name));
        }
        claims.makes_user = self.home.is_none().then(|| self.name.clone());
        claims.holds(self.home.as_deref())
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::accounts::fake_books::{BOOKS, WEB, fake_books};
    use crate::laws::{Case, Promise};
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("user.present", params, promise, move |host| fake_books(host, world)).with_books(BOOKS)
    };
    vec![
        case(json!({ "name": "new" }), Promise::Converges, ""),
        case(json!({ "name": "new", "createhome": false, "system": true }), Promise::Converges, ""),
        case(
            json!({ "name": "new", "uid": 1500, "gid": "staff", "groups": ["wheel"], "home": "/srv/new", "shell": "/bin/bash",
                "fullname": "New One", "roomnumber": "7", "password": "$6$x$y", "maxdays": 90, "expire": 20000 }),
            Promise::Converges,
            "",
        ),
        case(
            json!({ "name": "new", "usergroup": false, "createhome": false, "optional_groups": ["wheel", "none"] }),
            Promise::Converges,
            "",
        ),
        case(json!({ "name": "new", "groups": "none" }), Promise::Fails, ""),
        case(json!({ "name": "web" }), Promise::Clean, WEB),
        case(json!({ "name": "web", "shell": "/bin/zsh", "other": "x" }), Promise::Converges, WEB),
        case(json!({ "name": "web", "password": "$6$a$b", "mindays": 3 }), Promise::Converges, WEB),
        case(json!({ "name": "web", "empty_password": true }), Promise::Converges, WEB),
        case(json!({ "name": "web", "password": "$6$a$b", "enforce_password": false }), Promise::Clean, WEB),
        case(json!({ "name": "web", "groups": ["wheel"] }), Promise::Converges, WEB),
        case(json!({ "name": "web", "groups": ["wheel"], "remove_groups": false }), Promise::Converges, WEB),
        case(json!({ "name": "web", "uid": 1700 }), Promise::Fails, WEB),
        case(json!({ "name": "web", "uid": 1700, "allow_uid_change": true }), Promise::Converges, WEB),
        case(json!({ "name": "web", "gid": "wheel", "allow_gid_change": true }), Promise::Converges, WEB),
        case(json!({ "name": "web", "home": "/srv/web" }), Promise::Converges, WEB),
        case(json!({ "name": "directory", "shell": "/bin/zsh" }), Promise::Fails, ""),
        case(json!({ "name": "directory", "createhome": false }), Promise::Clean, ""),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::fake_books::fake_books;
    use crate::bound::Bound;
    use crate::context::StateFileSource;
    use crate::laws::{FewFiles, bind_json};
    use serde_json::{Value as Json, json};
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;
    use zester_host::overlay::Overlay;
    use zester_host::{HostRead, Processes, Query};
    use zester_model::outcome::Details;
    use zester_rule::rule;

    fn bound(kind: &str, params: Json) -> Box<dyn Bound> {
        bind_json(kind, &params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"))
    }

    /// Checks, and lets later checks see what would be.
    async fn would(
        kind: &str,
        params: Json,
        overlay: &Overlay,
        processes: &dyn Processes,
    ) -> Result<String, Fault> {
        let bound = bound(kind, params);
        let cancel = CancellationToken::new();
        let query = Query::through(processes);
        let cx =
            Checking { host: overlay, query, files: &FewFiles, forced: None, dry_run: true, cancel: &cancel };
        let Some(drift) = bound.check(&cx).await? else { return Ok(String::new()) };
        bound.predict(&drift, overlay)?;
        Ok(bound.explain(&drift, false).diff)
    }

    #[tokio::test]
    #[rule("S-30")]
    async fn s30_a_group_and_a_user_that_would_be_made_count_as_there() {
        let machine = Arc::new(Overlay::empty());
        let processes = fake_books(&machine, "");
        let overlay = Overlay::over(machine);
        let user = json!({ "name": "new", "gid": "team", "groups": ["wheel"] });
        let early = would("user.present", user.clone(), &overlay, &*processes).await.unwrap_err();
        assert_eq!(early.message, "there is no group `team`");
        would("group.present", json!({ "name": "team", "gid": 1234 }), &overlay, &*processes).await.unwrap();
        let told = would("user.present", user, &overlay, &*processes).await.unwrap();
        assert!(told.contains("the user new: gid: none → 1234"), "{told}");
        let made = overlay.user("new").unwrap().unwrap();
        assert_eq!((made.uid, made.gid), (1000, 1234));
        let owned = json!({ "path": "/home/new/x", "user": "new" });
        assert!(would("file.managed", owned, &overlay, &*processes).await.is_ok(), "the home would be there");
        let members = json!({ "name": "team", "addusers": "new" });
        let told = would("group.present", members, &overlay, &*processes).await.unwrap();
        assert_eq!(told, "the group team: members: none → new\n");
        would("user.absent", json!({ "name": "new" }), &overlay, &*processes).await.unwrap();
        assert_eq!(overlay.user("new").unwrap(), None);
    }

    /// Programs that somebody else is quicker than.
    struct Beaten {
        programs: Arc<dyn Processes>,
        other: zester_host::Launch,
    }

    impl Processes for Beaten {
        fn run<'a>(
            &'a self,
            launch: &'a zester_host::Launch,
            live: Option<zester_host::OutputSink>,
            cancel: &'a CancellationToken,
        ) -> zester_host::BoxFuture<'a, Result<zester_host::Exit, Fault>> {
            Box::pin(async move {
                self.programs.run(&self.other, None, cancel).await?;
                self.programs.run(launch, live, cancel).await
            })
        }
    }

    /// Lets somebody else make the account before it is applied, or while it is (`late`), and reverts what that left.
    async fn beaten(kind: &str, other: &[&str], late: bool) -> (Fault, Arc<Overlay>) {
        let machine = Arc::new(Overlay::empty());
        let programs: Arc<dyn Processes> = fake_books(&machine, "");
        let bound = bound(kind, json!({ "name": "new" }));
        let cancel = CancellationToken::new();
        let query = Query::through(&*programs);
        let cx = Checking {
            host: &*machine,
            query,
            files: &FewFiles,
            forced: None,
            dry_run: false,
            cancel: &cancel,
        };
        let drift = bound.check(&cx).await.unwrap().unwrap();
        let other = zester_host::Launch::argv(other.iter().copied());
        if !late {
            programs.run(&other, None, &cancel).await.unwrap();
        }
        let beaten = Beaten { programs: Arc::clone(&programs), other };
        let applying = crate::context::Applying::new(&*machine, &beaten, &cancel);
        let fault = bound.apply(&drift, &applying).await.unwrap_err();
        assert_eq!(fault.touched, fault.undo.is_some(), "{fault}");
        if let Some(record) = fault.undo.as_deref() {
            let (blobs, left) = (crate::laws::MemoryBlobStore::default(), Default::default());
            let cx = crate::context::Reverting {
                host: &*machine,
                processes: &*programs,
                blobs: &blobs,
                cancel: &cancel,
                force: false,
                left: &left,
            };
            assert!(!crate::revert(bound.kind(), record, &cx).await.unwrap().changed);
        }
        (fault, machine)
    }

    #[tokio::test]
    #[rule("S-31", "S-43")]
    async fn s31_a_user_or_group_that_somebody_made_meanwhile_stays() {
        for late in [false, true] {
            let (fault, machine) = beaten("user.present", &["useradd", "-m", "new"], late).await;
            assert!(fault.message.contains("new"), "{fault}");
            assert!(machine.user("new").unwrap().is_some(), "the user of somebody else was removed");
            let (_, machine) = beaten("group.present", &["groupadd", "new"], late).await;
            assert!(machine.group("new").unwrap().is_some(), "the group of somebody else was removed");
        }
    }

    #[tokio::test]
    #[rule("S-30")]
    async fn s30_apply_tells_what_check_told() {
        for (kind, params) in [
            ("user.present", json!({ "name": "new", "fullname": "New" })),
            ("group.present", json!({ "name": "new" })),
        ] {
            let machine = Arc::new(Overlay::empty());
            let processes = fake_books(&machine, "");
            let bound = bound(kind, params);
            let cancel = CancellationToken::new();
            let query = Query::through(&*processes);
            let cx = Checking {
                host: &*machine,
                query,
                files: &FewFiles,
                forced: None,
                dry_run: false,
                cancel: &cancel,
            };
            let drift = bound.check(&cx).await.unwrap().unwrap();
            let told = bound.explain(&drift, false);
            let applying = crate::context::Applying::new(&*machine, &*processes, &cancel);
            let change = bound.apply(&drift, &applying).await.unwrap();
            assert_eq!((change.diff, change.details), (told.diff, told.details));
        }
    }

    #[test]
    #[rule("S-57", "S-58")]
    fn s57_one_user_has_one_wish_and_waits_for_its_groups() {
        let claims = |params: Json| bound("user.present", params).claims();
        let one = claims(json!({ "name": "web", "uid": 7, "groups": ["a", "b"], "gid": "team" }));
        let same = claims(json!({ "name": "web", "groups": ["b", "a"], "home": "/srv" }));
        let other = claims(json!({ "name": "web", "uid": 8 }));
        assert_eq!(one.owned[0].disagrees(&same.owned[0]), None);
        assert_eq!(one.owned[0].disagrees(&other.owned[0]), Some("uid"));
        let absent = bound("user.absent", json!({ "name": "web" })).claims();
        assert_eq!(one.owned[0].disagrees(&absent.owned[0]), Some("is"));
        for group in ["team", "a", "b"] {
            assert!(one.accounts.contains(&ManagedItem::Group(group.into())), "{group}");
        }
    }

    #[test]
    #[rule("D-15")]
    fn d15_only_the_password_of_a_user_may_be_a_secret() {
        use crate::params::Params;
        assert_eq!(Present::SECRETS, ["password"]);
        let refused =
            bind_json("user.present", &json!({ "name": "web", "password": "x", "hash_password": true }));
        let told = &refused.err().unwrap()[0];
        assert_eq!(told.message, "`hash_password` of user.present: passwords are not hashed here");
        assert!(told.hint.as_ref().unwrap().contains("openssl passwd -6"));
    }

    #[test]
    fn an_empty_password_is_refused_because_it_would_let_everybody_in() {
        for empty in ["", " "] {
            let refused = bind_json("user.present", &json!({ "name": "web", "password": empty }));
            let told = refused.err().unwrap().remove(0);
            assert_eq!(told.message, "`password` of user.present: there is no hash in it");
            assert!(told.hint.unwrap().contains("`empty_password: true`"));
        }
    }

    struct EmptySecrets;

    impl StateFileSource for EmptySecrets {
        fn read(&self, uri: &str) -> Result<Vec<u8>, Fault> {
            FewFiles.read(uri)
        }
        fn render(&self, name: &str, text: &str, context: &Details) -> Result<String, Fault> {
            FewFiles.render(name, text, context)
        }
        fn setting(&self, _: &str) -> Option<Json> {
            None
        }
        fn reveal(&self, _: Vec<u8>) -> Result<zester_secret::Revealed, Fault> {
            Ok(b"\n".to_vec().into())
        }
    }

    #[tokio::test]
    async fn a_secret_that_is_empty_is_no_password_either() {
        let machine = Arc::new(Overlay::empty());
        let processes = fake_books(&machine, "");
        let overlay = Overlay::over(machine);
        let cancel = CancellationToken::new();
        let query = Query::through(&*processes);
        let cx = Checking {
            host: &overlay,
            query,
            files: &EmptySecrets,
            forced: None,
            dry_run: true,
            cancel: &cancel,
        };
        let user = bound("user.present", json!({ "name": "new", "password": "SECRET" }));
        let fault = user.check(&cx).await.err().unwrap();
        assert_eq!(fault.message, "the `password` of `new` is empty");
        assert!(fault.hint.unwrap().contains("`empty_password: true`"));
    }
}
