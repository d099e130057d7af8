//! The configuration of git.

use crate::{Bench, has_program, ran};
use serde_json::json;
use zester_testkit::skip;

#[test]
fn the_configuration_of_a_repository_is_set_and_taken_back() {
    if !has_program("git") {
        skip!("there is no git here");
    }
    let bench = Bench::new();
    let temp = tempfile::tempdir().unwrap();
    let repo = temp.path().join("repo");
    let path = repo.display().to_string();
    assert!(ran(&["git", "init", "--quiet", &path]));
    let config = || std::fs::read_to_string(repo.join(".git/config")).unwrap();
    let before = config();
    let name = json!({ "name": "user.name", "value": "Ann \"B\" Cee; # d", "repo": repo });
    let set = bench.apply("git.config_set", &name);
    let several = json!({ "name": "remote.my origin.fetch", "multivar": ["+a:b", "+c:d"], "repo": repo });
    let both = bench.apply("git.config_set", &several);
    // Drift by hand.
    assert!(ran(&["git", "-C", &path, "config", "user.name", "somebody"]));
    assert!(bench.drift("git.config_set", &name).unwrap().contains("values: somebody → Ann \"B\" Cee; # d"));
    bench.apply("git.config_set", &name);
    let one = json!({ "name": "remote.my origin.fetch", "value_regex": "^\\+a", "repo": repo });
    let gone = bench.apply("git.config_unset", &one);
    assert!(!config().contains("+a:b") && config().contains("+c:d"));
    for applied in [gone, both, set] {
        assert!(bench.revert(&applied).changed);
    }
    // Git leaves the head of a section without anything in it, or not, by its version.
    let lines = |text: String| {
        text.lines().filter(|line| !line.starts_with('[')).map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(lines(config()), lines(before));
}
