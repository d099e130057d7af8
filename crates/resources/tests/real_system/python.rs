//! Python packages, in an environment of the test's own and from wheels that it makes.

use crate::{Bench, has_program, ran};
use serde_json::json;
use std::path::Path;
use zester_testkit::skip;

/// Makes a wheel out of nothing but its metadata: `NAME VERSION [NEEDS]` behind the directory.
const WHEEL: &str = r#"
import sys, zipfile
where, name, version, *needs = sys.argv[1:]
info = f"{name}-{version}.dist-info"
files = {
    f"{name}.py": f"version = '{version}'\n",
    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(f"Requires-Dist: {need}\n" for need in needs),
    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(f"{where}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    for path, text in files.items():
        wheel.writestr(path, text)
"#;

fn installed(environment: &Path) -> String {
    let pip = environment.join("bin/pip");
    let output =
        std::process::Command::new(pip).args(["freeze", "--disable-pip-version-check"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn packages_of_a_virtual_environment_come_change_and_go() {
    let python = ["/usr/bin/python3", "python3"]
        .into_iter()
        .find(|python| ran(&[python, "-c", "import venv, ensurepip"]));
    let Some(python) = python.filter(|_| has_program("python3")) else {
        skip!("there is no python3 that can make a virtual environment (python3-venv)");
    };
    let bench = Bench::new();
    let temp = tempfile::tempdir().unwrap();
    let (environment, wheels) = (temp.path().join("env"), temp.path().join("wheels"));
    std::fs::create_dir(&wheels).unwrap();
    let (env, links) = (environment.display().to_string(), wheels.display().to_string());
    assert!(ran(&[python, "-m", "venv", &env]), "the environment");
    for wheel in [&["zesta", "1.0"][..], &["zesta", "1.5"], &["zestb", "2.0", "zesta>=1.0"]] {
        assert!(ran(&[&[python, "-c", WHEEL, &links], wheel].concat()), "{wheel:?}");
    }
    let params = |mut params: serde_json::Value| {
        params["bin_env"] = json!(environment);
        params["no_index"] = json!(true);
        params["find_links"] = json!(wheels);
        params
    };
    let before = installed(&environment);
    let old = bench.apply("pip.installed", &params(json!({ "name": "zesta==1.0" })));
    assert_eq!(installed(&environment), format!("{before}zesta==1.0\n"));
    let newer = bench.apply("pip.installed", &params(json!({ "name": "Zesta", "upgrade": true })));
    assert!(newer.change.diff.contains("zesta: 1.0 → 1.5"), "{}", newer.change.diff);
    assert!(bench.revert(&newer).changed);
    assert_eq!(installed(&environment), format!("{before}zesta==1.0\n"), "the former version");
    assert!(bench.revert(&old).changed);
    assert_eq!(installed(&environment), before);

    let both = bench.apply("pip.installed", &params(json!({ "name": "x", "pkgs": ["zestb"] })));
    assert!(installed(&environment).contains("zesta==1.5\nzestb==2.0"), "what it needs came along");
    // Drift by hand.
    let pip = environment.join("bin/pip").display().to_string();
    assert!(ran(&[&pip, "uninstall", "--yes", "zestb"]));
    assert_eq!(
        bench.drift("pip.installed", &params(json!({ "name": "x", "pkgs": ["zestb"] }))).unwrap(),
        "zestb: none → newest\n"
    );
    bench.apply("pip.installed", &params(json!({ "name": "x", "pkgs": ["zestb"] })));
    let gone = bench.apply("pip.removed", &json!({ "name": "zestb", "bin_env": environment }));
    assert!(gone.change.diff.contains("zestb: 2.0 → none"));
    assert!(ran(&[&pip, "install", "--no-index", "--find-links", &links, "zestb"]));
    assert!(bench.revert(&both).changed);
    assert_eq!(installed(&environment), before, "with what came along");
}
