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
