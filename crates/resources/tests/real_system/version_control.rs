//! The configuration of git.

use crate::{Bench, has_program, is_root, ran};
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

#[test]
fn a_repository_of_somebody_leads_root_to_no_file_of_another() {
    const STRANGER: u32 = 54_321;
    if !has_program("git") || !is_root() {
        skip!("only root can be led elsewhere, with git");
    }
    let bench = Bench::new();
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let (repo, victim) = (top.join("repo"), top.join("victim"));
    assert!(ran(&["git", "init", "--quiet", &repo.display().to_string()]));
    std::fs::write(&victim, "[core]\n").unwrap();
    let config = repo.join(".git/config");
    std::fs::remove_file(&config).unwrap();
    std::os::unix::fs::symlink(&victim, &config).unwrap();
    assert!(ran(&["chown", "-R", "-h", &STRANGER.to_string(), &repo.display().to_string()]));
    let params = json!({ "name": "core.pager", "value": "sh -c id", "repo": repo });
    let fault = bench.check("git.config_set", &params).err().unwrap();
    assert!(fault.message.contains("which is not theirs"), "{fault}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "[core]\n");
}
