//! Users and groups.

use crate::{Bench, Finally, has_program, is_root, ran};
use serde_json::json;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use zester_rule::rule;
use zester_testkit::skip;

const USER: &str = "zester-test-user";
const GROUP: &str = "zester-test-group";

fn entry(book: &str, name: &str) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(book).unwrap();
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    Some(line.split(':').map(str::to_string).collect())
}

fn clean_up() {
    ran(&["userdel", "-f", "-r", USER]);
    ran(&["groupdel", GROUP]);
    ran(&["groupdel", USER]);
}

#[test]
#[rule("S-31", "S-45")]
fn a_user_and_a_group_are_made_changed_and_taken_back() {
    if !is_root() || !has_program("useradd") {
        skip!("only root can make users, with useradd");
    }
    let bench = Bench::new();
    clean_up();
    let _clean = Finally(clean_up);

    let group = bench.apply("group.present", &json!({ "name": GROUP, "gid": 48_123 }));
    assert_eq!(entry("/etc/group", GROUP).unwrap()[2], "48123");

    let home = format!("/home/{USER}");
    let params = json!({
        "name": USER, "uid": 48_321, "groups": [GROUP], "shell": "/bin/bash", "fullname": "Test User", "roomnumber": "7",
        "password": "$6$abcdefgh$0123456789", "maxdays": 90, "home": home,
    });
    let made = bench.apply("user.present", &params);
    assert!(!made.change.diff.contains("$6$"), "{}", made.change.diff);
    let passwd = entry("/etc/passwd", USER).unwrap();
    assert_eq!(
        (passwd[2].as_str(), passwd[4].as_str(), passwd[6].as_str()),
        ("48321", "Test User,7", "/bin/bash")
    );
    let shadow = entry("/etc/shadow", USER).unwrap();
    assert_eq!((shadow[1].as_str(), shadow[4].as_str()), ("$6$abcdefgh$0123456789", "90"));
    assert_eq!(entry("/etc/group", GROUP).unwrap()[3], USER);
    assert_eq!(std::fs::metadata(&home).unwrap().uid(), 48_321);

    // Drift by hand: the check shows exactly it.
    assert!(ran(&["usermod", "-s", "/bin/sh", "-G", "", USER]));
    let drift = bench.drift("user.present", &params).unwrap();
    assert_eq!(
        drift,
        format!("the user {USER}: shell: /bin/sh → /bin/bash\nthe user {USER}: groups: none → {GROUP}\n")
    );
    let mended = bench.apply("user.present", &params);
    bench.revert(&mended);
    assert_eq!(entry("/etc/passwd", USER).unwrap()[6], "/bin/sh");
    bench.apply("user.present", &params);

    let changed = json!({ "name": USER, "password": "$6$other$hash", "empty_password": false, "expire": 25_000, "uid": 48_322,
        "allow_uid_change": true });
    let before = (entry("/etc/passwd", USER), entry("/etc/shadow", USER));
    let change = bench.apply("user.present", &changed);
    assert_eq!(entry("/etc/shadow", USER).unwrap()[1], "$6$other$hash");
    assert!(bench.revert(&change).changed);
    assert_eq!((entry("/etc/passwd", USER), entry("/etc/shadow", USER)), before);

    let empty = bench.apply("user.present", &json!({ "name": USER, "empty_password": true }));
    assert_eq!(entry("/etc/shadow", USER).unwrap()[1], "");
    bench.revert(&empty);
    assert_eq!((entry("/etc/passwd", USER), entry("/etc/shadow", USER)), before);

    // Gone and back, with all fields.
    let gone = bench.apply("user.absent", &json!({ "name": USER }));
    assert_eq!(entry("/etc/passwd", USER), None);
    assert!(Path::new(&home).exists());
    bench.revert(&gone);
    assert_eq!((entry("/etc/passwd", USER), entry("/etc/shadow", USER)), before);
    assert_eq!(entry("/etc/group", GROUP).unwrap()[3], USER);

    let members = bench.apply("group.present", &json!({ "name": GROUP, "members": ["root"] }));
    assert_eq!(entry("/etc/group", GROUP).unwrap()[3], "root");
    bench.revert(&members);
    assert_eq!(entry("/etc/group", GROUP).unwrap()[3], USER);

    // What was made is unmade, the home that nobody used with it.
    ran(&["userdel", "-r", USER]);
    let made = bench.apply("user.present", &json!({ "name": USER, "home": home }));
    assert!(Path::new(&home).join(".profile").exists());
    assert!(bench.revert(&made).changed);
    assert_eq!(entry("/etc/passwd", USER), None);
    assert!(!Path::new(&home).exists(), "an unused home stays");
    let made = bench.apply("user.present", &json!({ "name": USER, "home": home }));
    std::fs::write(Path::new(&home).join("letter"), "dear all").unwrap();
    bench.revert(&made);
    assert!(Path::new(&home).join("letter").exists(), "what somebody wrote is gone");
    std::fs::remove_dir_all(&home).unwrap();

    bench.revert(&group);
    assert_eq!(entry("/etc/group", GROUP), None);
}

/// The home is the one of the account database, and what is made there belongs to the user and to its own group.
#[test]
#[rule("S-58")]
fn keys_of_a_user_are_where_the_account_database_says_and_belong_to_it() {
    const NAME: &str = "zester-test-keys";
    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBk0Jr6kTrV0a7bYw9bTn0kq1Gq5mD0Wb6dYp4mCw3oD";
    if !is_root() || !has_program("useradd") {
        skip!("only root can make users, with useradd");
    }
    let bench = Bench::new();
    let clean_up = || {
        ran(&["userdel", "-f", NAME]);
        ran(&["groupdel", NAME]);
    };
    clean_up();
    let _clean = Finally(clean_up);
    let temp = tempfile::tempdir().unwrap();
    let home = temp.path().canonicalize().unwrap().join("elsewhere");
    let path = home.display().to_string();
    assert!(ran(&["useradd", "--user-group", "--create-home", "--home-dir", &path, NAME]));
    let owner = std::fs::metadata(&home).map(|meta| (meta.uid(), meta.gid())).unwrap();
    assert_ne!(owner.1, 0);
    let key = bench.apply("ssh_auth.present", &json!({ "name": KEY, "user": NAME }));
    let known = bench.apply(
        "ssh_known_hosts.present",
        &json!({ "name": "example.com", "user": NAME, "enc": "ssh-ed25519", "key": KEY.split(' ').nth(1) }),
    );
    for (name, mode) in [(".ssh", 0o700), (".ssh/authorized_keys", 0o600), (".ssh/known_hosts", 0o644)] {
        let meta = std::fs::metadata(home.join(name)).unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (owner.0, owner.1, mode), "{name}");
    }
    for applied in [known, key] {
        assert!(bench.revert(&applied).changed);
    }
    assert!(!home.join(".ssh").exists());

    // A link that the user left there leads root nowhere.
    let target = temp.path().join("authorized_keys");
    std::fs::write(&target, "").unwrap();
    std::fs::create_dir(home.join(".ssh")).unwrap();
    let link = home.join(".ssh/authorized_keys");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(owner.0), Some(owner.1)).unwrap();
    let fault = bench.check("ssh_auth.present", &json!({ "name": KEY, "user": NAME })).err().unwrap();
    assert!(fault.message.contains("which is not theirs"), "{fault}");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "");
}
