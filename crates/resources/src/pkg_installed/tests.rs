use crate::context::{Applying, Change, Checking, Reverting};
use crate::laws::{Case, FewFiles, MemoryBlobStore, Promise, bind_json};
use crate::pkg::fake_apt::fake_apt;
use crate::pkg::real_apt::dpkg_turn;
use serde_json::{Value as Json, json};
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_host::files::PredictedPackage;
use zester_host::overlay::Overlay;
use zester_host::process::Runner;
use zester_host::process::fake::{Scripted, exit};
use zester_host::real::Real;
use zester_host::{
    BoxFuture, Exit, Fault, FaultKind, HostRead, HostWrite, Launch, NewFile, OutputSink, Processes, Query,
};
use zester_rule::rule;

pub(crate) fn cases() -> Vec<Case> {
    let case = |params, promise, world: &'static str| {
        Case::new("pkg.installed", params, promise, move |host| fake_apt(host, world))
    };
    vec![
        case(json!({ "name": "hello" }), Promise::Converges, ""),
        case(json!({ "name": "hello" }), Promise::Converges, "libhello 1"),
        case(json!({ "name": "hello" }), Promise::Clean, "hello 2.9 libhello 1"),
        case(json!({ "name": "x", "pkgs": ["hello", "sl"] }), Promise::Converges, "sl 5"),
        case(json!({ "name": "x", "pkgs": [{ "hello": "2.9" }, "sl"] }), Promise::Converges, ""),
        case(json!({ "name": "hello", "version": "2.1*" }), Promise::Clean, "hello 2.10 libhello 1"),
        case(json!({ "name": "libhello:i386" }), Promise::Converges, "libhello 1"),
        case(json!({ "name": "libhello" }), Promise::Converges, "libhello:i386 1"),
        case(json!({ "name": "libhello:amd64" }), Promise::Clean, "libhello 1"),
        case(json!({ "name": "no-such" }), Promise::Fails, ""),
        case(json!({ "name": "hello", "version": ">=2.10" }), Promise::Converges, "hello 2.9 libhello 1"),
        case(json!({ "name": "hello", "version": "<2.10" }), Promise::Converges, ""),
        case(json!({ "name": "hello", "version": ">=3" }), Promise::Fails, ""),
        case(
            json!({ "name": "hello", "version": "2.9", "allow_updates": true }),
            Promise::Clean,
            "hello 2.10 libhello 1",
        ),
        case(json!({ "name": "sl", "hold": true }), Promise::Converges, "sl 5"),
        case(json!({ "name": "sl", "hold": false }), Promise::Converges, "sl 5 !sl held"),
        case(json!({ "name": "hello", "only_upgrade": true }), Promise::Clean, ""),
        Case::new("pkg.latest", json!({ "name": "hello" }), Promise::Converges, |host| {
            fake_apt(host, "hello 2.9 libhello 1")
        }),
        Case::new("pkg.latest", json!({ "name": "hello" }), Promise::Converges, |host| fake_apt(host, "")),
        Case::new("pkg.latest", json!({ "name": "hello" }), Promise::Clean, |host| {
            fake_apt(host, "hello 2.10 libhello 1")
        }),
        Case::new("pkg.latest", json!({ "name": "hello", "only_upgrade": true }), Promise::Clean, |host| {
            fake_apt(host, "")
        }),
    ]
}

struct Bench<'a> {
    host: &'a dyn HostWrite,
    processes: &'a dyn Processes,
    cancel: CancellationToken,
}

impl Bench<'_> {
    async fn apply(&self, params: Json) -> Result<Option<(Change, Json)>, Fault> {
        let bound =
            bind_json("pkg.installed", &params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
        let cx = Checking {
            host: self.host,
            query: Query::through(self.processes),
            files: &FewFiles,
            forced: None,
            dry_run: false,
            cancel: &self.cancel,
        };
        let Some(drift) = bound.check(&cx).await? else { return Ok(None) };
        let cx = Applying::new(self.host, self.processes, &self.cancel);
        let change = bound.apply(&drift, &cx).await?;
        let record = change.undo.clone().unwrap_or_default();
        Ok(Some((change, record)))
    }

    async fn revert(&self, record: &Json) -> Result<Change, Fault> {
        let blobs = MemoryBlobStore::default();
        let cx = Reverting {
            host: self.host,
            processes: self.processes,
            blobs: &blobs,
            cancel: &self.cancel,
            force: false,
            left: &Default::default(),
        };
        crate::revert("pkg.installed", record, &cx).await
    }
}

#[tokio::test]
#[rule("S-31")]
async fn s31_a_package_that_was_there_before_is_never_removed() {
    let host = Arc::new(Overlay::empty());
    let processes = fake_apt(&host, "libhello 1");
    let bench = Bench { host: &*host, processes: &*processes, cancel: CancellationToken::new() };
    let (change, record) = bench.apply(json!({ "name": "hello" })).await.unwrap().unwrap();
    assert_eq!(change.diff, "hello: new, 2.10\n");
    bench.revert(&record).await.unwrap();
    let installed_packages =
        String::from_utf8(host.read("/var/lib/dpkg/status".as_ref(), 10_000).unwrap()).unwrap();
    assert!(
        installed_packages.contains("Package: libhello") && !installed_packages.contains("Package: hello"),
        "{installed_packages}"
    );
}

#[tokio::test]
#[rule("S-31")]
async fn s31_a_package_of_another_architecture_is_a_change_and_is_reverted_alone() {
    let host = Arc::new(Overlay::empty());
    let processes = fake_apt(&host, "libhello 1");
    let bench = Bench { host: &*host, processes: &*processes, cancel: CancellationToken::new() };
    let (change, record) = bench.apply(json!({ "name": "libhello:i386" })).await.unwrap().unwrap();
    assert_eq!((change.changed, change.diff.as_str()), (true, "libhello:i386: new, 1\n"));
    assert!(bench.apply(json!({ "name": "libhello:i386" })).await.unwrap().is_none());
    assert!(bench.revert(&record).await.unwrap().changed);
    let installed_packages =
        String::from_utf8(host.read("/var/lib/dpkg/status".as_ref(), 10_000).unwrap()).unwrap();
    assert!(
        installed_packages.contains("Package: libhello") && !installed_packages.contains("i386"),
        "{installed_packages}"
    );
}

#[tokio::test]
async fn a_package_that_only_another_architecture_has_goes_by_its_plain_name() {
    let host = machine_with(&[("wine32", "i386", "8"), ("dpkg", "amd64", "1")]);
    let processes = Scripted::new().on("apt-get --simulate", exit(0, "Reading package lists...\n", ""));
    let cancel = CancellationToken::new();
    let bound = bind_json("pkg.installed", &json!({ "name": "wine32" })).ok().unwrap();
    assert!(bound.check(&looked(&processes, &host, &cancel)).await.unwrap().is_none());
}

#[tokio::test]
#[rule("S-31")]
async fn s31_what_others_need_since_is_not_removed() {
    let host = Arc::new(Overlay::empty());
    let processes = fake_apt(&host, "");
    let bench = Bench { host: &*host, processes: &*processes, cancel: CancellationToken::new() };
    let record = json!({ "asked": [], "moves": { "libhello": { "old": null, "new": "1" } } });
    bench.apply(json!({ "name": "hello" })).await.unwrap().unwrap();
    let fault = bench.revert(&record).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::ChangedSince);
    assert_eq!(fault.message, "removing libhello would also remove hello");
}

/// Apt, whose transactions end differently than they should: after a cancel, or half-way.
struct Ending<'a>(&'a dyn Processes, End);

type End = fn(Exit) -> Exit;

impl Processes for Ending<'_> {
    fn run<'b>(
        &'b self,
        launch: &'b Launch,
        live: Option<OutputSink>,
        cancel: &'b CancellationToken,
    ) -> BoxFuture<'b, Result<Exit, Fault>> {
        Box::pin(async move {
            let exit = self.0.run(launch, live, cancel).await?;
            Ok(if launch.uninterruptible { (self.1)(exit) } else { exit })
        })
    }
}

#[tokio::test]
#[rule("S-43")]
async fn s43_a_transaction_that_did_something_and_failed_is_recorded_as_it_was() {
    let canceled: End = |exit| Exit { canceled: true, ..exit };
    let failed: End = |exit| Exit { code: Some(100), ..exit };
    for (end, kind, uninterruptible) in
        [(canceled, FaultKind::Canceled, Some(&json!(true))), (failed, FaultKind::CommandFailed, None)]
    {
        let host = Arc::new(Overlay::empty());
        let apt = fake_apt(&host, "libhello 1");
        let bench = Bench { host: &*host, processes: &Ending(&*apt, end), cancel: CancellationToken::new() };
        let fault = bench.apply(json!({ "name": "hello" })).await.unwrap_err();
        assert_eq!((fault.kind, fault.touched), (kind, true));
        assert_eq!(fault.details.get("uninterruptible"), uninterruptible);
        let moves = fault.undo.unwrap()["moves"].clone();
        assert_eq!(moves, json!({ "hello": { "old": null, "new": "2.10" } }));
    }
}

#[tokio::test]
#[rule("S-43")]
async fn s43_an_apt_that_refuses_has_touched_nothing() {
    let host = Arc::new(Overlay::empty());
    let processes = fake_apt(&host, "");
    let bench = Bench { host: &*host, processes: &*processes, cancel: CancellationToken::new() };
    let fault = bench.apply(json!({ "name": "no-such" })).await.unwrap_err();
    assert!(!fault.touched && fault.undo.is_none());
}

#[tokio::test]
#[rule("S-32")]
async fn s32_an_interrupted_dpkg_is_repaired_first() {
    let host = Arc::new(Overlay::empty());
    let processes = fake_apt(&host, "");
    let half = NewFile { content: b"", mode: 0o644, owner: host.me() };
    host.put_file("/var/lib/dpkg/updates/0001".as_ref(), &half).unwrap();
    let bench = Bench { host: &*host, processes: &*processes, cancel: CancellationToken::new() };
    bench.apply(json!({ "name": "hello" })).await.unwrap().unwrap();
    assert!(host.list("/var/lib/dpkg/updates".as_ref()).unwrap().is_empty());
}

#[tokio::test]
#[rule("S-49")]
async fn s49_a_list_of_no_packages_is_nothing_to_do_and_latest_is_the_newest() {
    let host = Arc::new(Overlay::empty());
    let processes = fake_apt(&host, "hello 2.9 libhello 1");
    let bench = Bench { host: &*host, processes: &*processes, cancel: CancellationToken::new() };
    assert!(bench.apply(json!({ "name": "x", "pkgs": [] })).await.unwrap().is_none());
    assert!(bench.apply(json!({ "name": "hello" })).await.unwrap().is_none());
    let newest = bench.apply(json!({ "name": "hello", "version": "latest" })).await.unwrap().unwrap();
    assert!(newest.0.diff.contains("2.10"), "{}", newest.0.diff);
}

#[test]
#[rule("S-3")]
fn s3_names_that_could_be_options_are_refused() {
    for params in [json!({ "name": "--purge" }), json!({ "name": "a b" })] {
        assert!(bind_json("pkg.installed", &params).is_err(), "{params}");
    }
    let some = json!({ "name": "x", "pkgs": [{ "a": "latest" }, { "b": "1" }] });
    assert!(bind_json("pkg.installed", &some).err().unwrap()[0].message.contains("newest"));
}

fn looked<'a>(
    processes: &'a dyn Processes,
    host: &'a dyn HostRead,
    cancel: &'a CancellationToken,
) -> Checking<'a> {
    let query = Query::through(processes);
    Checking { host, query, files: &FewFiles, forced: None, dry_run: true, cancel }
}

/// A machine whose dpkg knows these: name, architecture, version.
fn machine_with(packages: &[(&str, &str, &str)]) -> Overlay {
    let host = Overlay::empty();
    for directory in ["/var", "/var/lib", "/var/lib/dpkg"] {
        host.make_directory(directory.as_ref(), 0o755, host.me()).unwrap();
    }
    write_book(&host, packages);
    host
}

fn write_book(host: &Overlay, packages: &[(&str, &str, &str)]) {
    let paragraph = |(name, architecture, version): &(&str, &str, &str)| {
        let status = "Status: install ok installed";
        format!("Package: {name}\n{status}\nArchitecture: {architecture}\nVersion: {version}\n\n")
    };
    let text: String = packages.iter().map(paragraph).collect();
    let file = NewFile { content: text.as_bytes(), mode: 0o644, owner: host.me() };
    host.put_file("/var/lib/dpkg/status".as_ref(), &file).unwrap();
}

/// What apt-get 2.6.1 printed on a Debian 12.
const RECORDED: [(&str, &str, &str, FaultKind, &str); 4] = [
    (
        "pkg.installed",
        "Reading package lists...\nBuilding dependency tree...\nReading state information...\n",
        "E: Unable to locate package nosuch\n",
        FaultKind::NotFound,
        "apt refuses: Unable to locate package nosuch",
    ),
    (
        "pkg.installed",
        "Reading package lists...\nPackage hello is a virtual package provided by:\n  hello-traditional 2.10-6\n\n",
        "E: Version '9.9' for 'hello' was not found\n",
        FaultKind::NotFound,
        "apt refuses: Version '9.9' for 'hello' was not found",
    ),
    (
        "pkg.removed",
        "Some packages could not be installed. This may mean that you have\nrequested an impossible situation\n\
         The following packages have unmet dependencies:\n apt : Depends: adduser but it is not going to be installed\n",
        "E: Error, pkgProblemResolver::Resolve generated breaks, this may be caused by held packages.\n",
        FaultKind::CommandFailed,
        "apt refuses: Error, pkgProblemResolver::Resolve generated breaks, this may be caused by held packages",
    ),
    (
        "pkg.removed",
        "The following packages were automatically installed and are no longer required:\n  bzip2 fakeroot\n\
         Use 'apt autoremove' to remove them.\nThe following packages will be REMOVED:\n  build-essential dpkg-dev git\n  perl perl-base\n\
         WARNING: The following essential packages will be removed.\n\
         This should NOT be done unless you know exactly what you are doing!\n  perl-base\n\
         0 upgraded, 0 newly installed, 5 to remove and 74 not upgraded.\n",
        "E: Essential packages were removed and -y was used without --allow-remove-essential.\n",
        FaultKind::CommandFailed,
        "apt refuses: Essential packages were removed and -y was used without --allow-remove-essential; it would remove \
         build-essential, dpkg-dev, git, perl, perl-base",
    ),
];

#[tokio::test]
#[rule("S-30")]
async fn s30_what_apt_refuses_fails_in_the_dry_run_in_apts_own_words() {
    let host = machine_with(&[]);
    let lists = "/var/lib/apt/lists/deb_main_binary-amd64_Packages.lz4";
    for directory in ["/var/lib/apt", "/var/lib/apt/lists"] {
        host.make_directory(directory.as_ref(), 0o755, host.me()).unwrap();
    }
    host.put_file(lists.as_ref(), &NewFile { content: b"", mode: 0o644, owner: host.me() }).unwrap();
    let cancel = CancellationToken::new();
    for (kind, stdout, stderr, expected, words) in RECORDED {
        let installed: &[_] = if kind == "pkg.removed" { &[("x", "all", "1")] } else { &[] };
        write_book(&host, installed);
        let processes = Scripted::new().on("apt-get --simulate", exit(100, stdout, stderr));
        let bound = bind_json(kind, &json!({ "name": "x" })).ok().unwrap();
        let fault = bound.check(&looked(&processes, &host, &cancel)).await.err().expect(words);
        assert_eq!((fault.kind, fault.message.as_str()), (expected, words));
    }
    // Lists that are going to be fetched first may know it.
    write_book(&host, &[]);
    let processes =
        Scripted::new().on("apt-get --simulate", exit(100, "", "E: Unable to locate package x\n"));
    let bound = bind_json("pkg.installed", &json!({ "name": "x", "refresh": true })).ok().unwrap();
    assert!(bound.check(&looked(&processes, &host, &cancel)).await.unwrap().is_some());
    host.remove_file(lists.as_ref()).unwrap();
    let bound = bind_json("pkg.installed", &json!({ "name": "x" })).ok().unwrap();
    assert!(bound.check(&looked(&processes, &host, &cancel)).await.unwrap().is_some());
}

#[tokio::test]
async fn what_an_installation_would_remove_is_named() {
    let host = machine_with(&[]);
    let plan = "Remv exim4 [4.96-15]\nInst postfix (3.7.11 Debian:12/stable [amd64])\nConf postfix (3.7.11 Debian [amd64])\n";
    let processes = Scripted::new().on("apt-get --simulate", exit(0, plan, ""));
    let cancel = CancellationToken::new();
    let bound = bind_json("pkg.installed", &json!({ "name": "postfix" })).ok().unwrap();
    let drift = bound.check(&looked(&processes, &host, &cancel)).await.unwrap().unwrap();
    let explained = bound.explain(&drift, false);
    assert_eq!(explained.diff, "exim4: 4.96-15 → removed\npostfix: new, 3.7.11\n");
    assert_eq!(explained.details["removed"], json!(["exim4"]));
    bound.predict(&drift, &host).unwrap();
    assert_eq!(host.predicted_package("exim4"), Some(PredictedPackage::Removed));
    assert_eq!(host.predicted_package("postfix"), Some(PredictedPackage::Installed(None)));
}

#[tokio::test]
#[rule("S-44")]
async fn s44_what_new_package_lists_would_bring_is_unknown() {
    let host = machine_with(&[]);
    let cancel = CancellationToken::new();
    let plan = exit(0, "Inst hello (2.10 Debian:12/stable [amd64])\n", "");
    let refused = exit(100, "", "E: Unable to locate package hello\n");
    for (refresh, answer, unknown) in [
        (json!(true), &plan, true),
        (json!(true), &refused, true),
        // There are no lists at all: they are fetched first.
        (json!(null), &refused, true),
        (json!(null), &plan, false),
        (json!(false), &plan, false),
    ] {
        let processes = Scripted::new().on("apt-get --simulate", answer.clone());
        let params = json!({ "name": "hello", "refresh": refresh });
        let bound = bind_json("pkg.installed", &params).ok().unwrap();
        let drift = bound.check(&looked(&processes, &host, &cancel)).await.unwrap().unwrap();
        let told = bound.explain(&drift, false);
        assert_eq!(told.details.contains_key("unknown"), unknown, "{params}");
        assert_eq!(
            told.diff.starts_with("would change; known only after new package lists were fetched"),
            unknown
        );
        // An apply knows once it has acted.
        let cx = Checking { dry_run: false, ..looked(&processes, &host, &cancel) };
        let drift = bound.check(&cx).await.unwrap().unwrap();
        assert!(!bound.explain(&drift, true).details.contains_key("unknown"), "{params}");
    }
}

fn has_lists() -> bool {
    let lists = std::fs::read_dir("/var/lib/apt/lists").into_iter().flatten().flatten();
    lists.into_iter().any(|file| file.file_name().to_string_lossy().contains("_Packages"))
}

/// On the real tool, which is only asked.
#[tokio::test]
#[rule("S-30")]
async fn s30_the_real_apt_refuses_in_the_dry_run() {
    let host = Real::new();
    if !Path::new("/usr/bin/apt-get").exists() || !has_lists() {
        zester_testkit::skip!("needs apt and its package lists");
    }
    let _turn = dpkg_turn();
    let (runner, cancel) = (Runner::new(), CancellationToken::new());
    for (kind, params, kinds, words) in [
        (
            "pkg.installed",
            json!({ "name": "no-such-package-at-all" }),
            FaultKind::NotFound,
            "no-such-package-at-all",
        ),
        ("pkg.installed", json!({ "name": "perl-base", "version": "0.0.9" }), FaultKind::NotFound, "0.0.9"),
        ("pkg.removed", json!({ "name": "libc6" }), FaultKind::CommandFailed, "apt refuses"),
        ("pkg.removed", json!({ "name": "perl-base" }), FaultKind::CommandFailed, "it would remove "),
    ] {
        let bound = bind_json(kind, &params).ok().unwrap();
        let fault = bound.check(&looked(&runner, &host, &cancel)).await.err().expect(words);
        assert_eq!(fault.kind, kinds, "{fault}");
        assert!(fault.message.contains(words), "{fault}");
    }
}

/// The one test that lets the real tool act. `hello` is tiny and needs nothing but libc.
#[tokio::test]
#[rule("S-31")]
async fn s31_the_real_apt_installs_is_clean_and_reverts() {
    if Real::new().me().uid != 0 || !Path::new("/usr/bin/apt-get").exists() {
        zester_testkit::skip!("needs root and apt");
    }
    if Path::new("/usr/bin/hello").exists() {
        zester_testkit::skip!("the package hello is installed here and must stay");
    }
    let _turn = dpkg_turn();
    let (host, runner) = (Real::new(), Runner::new());
    let bench = Bench { host: &host, processes: &runner, cancel: CancellationToken::new() };
    let (change, record) = match bench.apply(json!({ "name": "hello" })).await {
        Ok(applied) => applied.expect("hello is missing"),
        Err(fault) if fault.message.contains("fetch") || fault.message.contains("locate") => {
            zester_testkit::skip!("no package mirror can be reached: {fault}")
        }
        Err(fault) => panic!("{fault}"),
    };
    assert!(change.changed && change.diff.contains("hello: new, 2."), "{}", change.diff);
    assert!(Path::new("/usr/bin/hello").exists());
    assert!(bench.apply(json!({ "name": "hello" })).await.unwrap().is_none());
    assert!(bench.revert(&record).await.unwrap().changed);
    assert!(!Path::new("/usr/bin/hello").exists());
    assert!(!bench.revert(&record).await.unwrap().changed);
}
