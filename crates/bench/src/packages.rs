//! Packages: many states against one call of the tool, on a repository of tiny packages made for it.

use crate::measure::{Cost, median, median_with};
use crate::report::Report;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Of the packages that are installed here, asked about.
const SATISFIED: usize = 200;
/// To install from the repository.
const NEW: usize = 20;

/// What apt, dpkg and zester can do here is measured; where they cannot, that is told.
#[allow(clippy::print_stdout)] // it is a tool for a terminal
pub fn claims(zester: &Path, scratch: &Path, report: &mut Report) -> Result<(), String> {
    let there = |program: &str| Path::new("/usr/bin").join(program).exists();
    if !there("dpkg-query") {
        println!("skip packages: there is no dpkg here");
        return Ok(());
    }
    let bench = Packages { zester, directory: scratch.join("packages") };
    satisfied(&bench, report)?;
    if !nix::unistd::geteuid().is_root()
        || !["apt-get", "dpkg-deb", "dpkg-scanpackages"].into_iter().all(there)
    {
        println!("skip installing packages: it takes root, apt and dpkg-dev");
        return Ok(());
    }
    bench.publish()?;
    let measured = installed(&bench, report);
    bench.purge();
    measured
}

struct Packages<'a> {
    zester: &'a Path,
    directory: PathBuf,
}

fn wrong(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn satisfied(bench: &Packages<'_>, report: &mut Report) -> Result<(), String> {
    let listed = Command::new("dpkg-query").args(["-W", "-f=${db:Status-Abbrev} ${Package}\\n"]).output();
    let listed = String::from_utf8_lossy(&listed.map_err(wrong)?.stdout).into_owned();
    let mut names: Vec<&str> = listed.lines().filter_map(|line| line.strip_prefix("ii  ")).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(SATISFIED);
    bench.states("satisfied", &names)?;
    let words: Vec<&str> = std::iter::once("-W").chain(names.iter().copied()).collect();
    let bare = median(11, Path::new("dpkg-query"), &words)?;
    let ours = bench.run(11, "apply", "satisfied")?;
    let notes = json!({ "zester_ms": ours.wall_ms, "bare_ms": bare.wall_ms, "packages": names.len() });
    let ratio = ours.wall_ms / bare.wall_ms;
    report.claim("200 x pkg.installed in place / one dpkg-query of all", ratio, "x", 2.0, notes);
    Ok(())
}

fn installed(bench: &Packages<'_>, report: &mut Report) -> Result<(), String> {
    let names: Vec<String> = (0..NEW).map(|number| format!("zester-bench-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    bench.states("new", &names)?;
    let (conf, apt) = (bench.conf(), Path::new("apt-get"));
    let environment = [("APT_CONFIG", conf.as_str()), ("DEBIAN_FRONTEND", "noninteractive")];
    let simulate: Vec<&str> = ["-s", "-y", "install"].into_iter().chain(names.iter().copied()).collect();
    let bare = median_with(5, apt, &simulate, &environment)?;
    let ours = bench.run(5, "check", "new")?;
    let notes = json!({ "zester_ms": ours.wall_ms, "bare_ms": bare.wall_ms });
    let ratio = ours.wall_ms / bare.wall_ms;
    report.claim("dry run of 20 new packages / one apt-get -s", ratio, "x", 1.3, notes);
    let install: Vec<&str> = ["-y", "install"].into_iter().chain(names.iter().copied()).collect();
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        bare.push(median_with(1, apt, &install, &environment)?.wall_ms);
        bench.purge();
        ours.push(bench.run(1, "apply", "new")?.wall_ms);
        bench.purge();
    }
    bare.sort_by(f64::total_cmp);
    ours.sort_by(f64::total_cmp);
    let notes = json!({ "zester_ms": ours[1], "bare_ms": bare[1] });
    report.claim("20 new packages as states / one apt-get install", ours[1] / bare[1], "x", 1.2, notes);
    Ok(())
}

impl Packages<'_> {
    fn at(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn conf(&self) -> String {
        self.at("apt.conf").display().to_string()
    }

    fn states(&self, name: &str, packages: &[&str]) -> Result<(), String> {
        let text: String = packages.iter().map(|name| format!("{name}:\n  pkg.installed: []\n")).collect();
        fs::create_dir_all(self.at("states")).map_err(wrong)?;
        fs::write(self.at("states").join(format!("{name}.zy")), text).map_err(wrong)
    }

    /// A check says by its exit code that something would change.
    fn run(&self, runs: usize, verb: &str, name: &str) -> Result<Cost, String> {
        let (states, data) = (self.at("states"), self.at("data"));
        let zester = self.zester.display();
        let line = format!(
            "'{zester}' {verb} {name} --states '{}' --data-dir '{}' || test $? = 2",
            states.display(),
            data.display()
        );
        let conf = self.conf();
        let mut environment = Vec::new();
        if Path::new(&conf).exists() {
            environment.push(("APT_CONFIG", conf.as_str()));
        }
        median_with(runs, Path::new("sh"), &["-c", &line], &environment)
    }

    /// Builds the packages and a repository of them, and an apt that knows no other.
    fn publish(&self) -> Result<(), String> {
        for name in ["pool", "lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(self.at(name)).map_err(wrong)?;
        }
        for number in 0..NEW {
            let (name, tree) = (format!("zester-bench-{number}"), self.at(&format!("build-{number}")));
            fs::create_dir_all(tree.join("DEBIAN")).map_err(wrong)?;
            let control = format!(
                "Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: bench <b@localhost>\nDescription: bench\n"
            );
            fs::write(tree.join("DEBIAN/control"), control).map_err(wrong)?;
            let file = self.at("pool").join(format!("{name}_1_all.deb"));
            succeed(Command::new("dpkg-deb").args(["--build", "--root-owner-group"]).arg(&tree).arg(file))?;
        }
        let scanned = Command::new("dpkg-scanpackages").arg(".").current_dir(self.at("pool")).output();
        fs::write(self.at("pool/Packages"), scanned.map_err(wrong)?.stdout).map_err(wrong)?;
        let root = self.directory.display();
        fs::write(self.at("sources.list"), format!("deb [trusted=yes] file:{root}/pool ./\n"))
            .map_err(wrong)?;
        let conf = format!(
            "Dir::Etc::sourcelist \"{root}/sources.list\";\nDir::Etc::sourceparts \"/dev/null\";\n\
             Dir::State::lists \"{root}/lists\";\nDir::Cache \"{root}/cache\";\nAPT::Sandbox::User \"root\";\n"
        );
        fs::write(self.at("apt.conf"), conf).map_err(wrong)?;
        succeed(Command::new("apt-get").args(["-q", "update"]).env("APT_CONFIG", self.conf()))
    }

    fn purge(&self) {
        let names = (0..NEW).map(|number| format!("zester-bench-{number}"));
        let _gone = Command::new("dpkg").arg("--purge").args(names).output();
    }
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(wrong)?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
