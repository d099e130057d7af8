//! `pkg.*` that look, and `pkg.refresh_db`: whoever manages packages here is asked.

use super::{Access, CallContext, Function, Takes, maybe, read_only, text};
use serde_json::json;
use std::collections::BTreeMap;
use std::future::Future;
use zester_host::{Fault, Query};
use zester_resources::packages;
use zester_resources::state::Read;

const NAME: &[Takes] = &[text("name")];

pub(super) const TABLE: &[Function] = &[
    read_only(
        "pkg.latest_version",
        NAME,
        "pkg.latest_version NAME: the version that a package could be brought to, or an empty text",
        |place, args| {
            let name = args.text(0, "name")?;
            let newest = ask(place, packages::newest(std::slice::from_ref(&name), read(place)))?;
            Ok(json!(newest.get(&name).cloned().unwrap_or_default()))
        },
    ),
    read_only("pkg.list_pkgs", &[], "pkg.list_pkgs: what is installed, with its versions", |place, _| {
        Ok(json!(ask(place, packages::installed(read(place)))?))
    }),
    read_only(
        "pkg.list_upgrades",
        &[],
        "pkg.list_upgrades: packages that could be newer, with the version that they could have",
        |place, _| Ok(json!(ask(place, packages::upgrades(read(place)))?)),
    ),
    Function {
        name: "pkg.refresh_db",
        access: Access::Command,
        takes: &[],
        doc: "pkg.refresh_db: fetches the lists of packages",
        call: |place, _| {
            let done = place.handle.block_on(packages::refresh(place.host, place.processes, place.cancel));
            done.map(|()| json!(true)).map_err(|fault| fault.to_string())
        },
    },
    read_only(
        "pkg.upgrade_available",
        NAME,
        "pkg.upgrade_available NAME: whether an installed package could be newer",
        |place, args| {
            let name = args.text(0, "name")?;
            Ok(json!(ask(place, packages::upgrades(read(place)))?.contains_key(&name)))
        },
    ),
    read_only(
        "pkg.version",
        &[text("name"), maybe("default")],
        "pkg.version NAME [DEFAULT]: the version of a package that is installed, or an empty text",
        |place, args| {
            let (name, default) = (args.text(0, "name")?, args.optional(1, "default")?);
            let found = ask(place, packages::installed(read(place)))?.remove(&name);
            Ok(json!(found.or(default).unwrap_or_default()))
        },
    ),
];

fn read<'a>(place: &'a CallContext<'_>) -> Read<'a> {
    Read { host: place.host, query: Query::through(place.processes), cancel: place.cancel }
}

fn ask(
    place: &CallContext<'_>,
    question: impl Future<Output = Result<BTreeMap<String, String>, Fault>>,
) -> Result<BTreeMap<String, String>, String> {
    place.handle.block_on(question).map_err(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use crate::functions::try_function::TestHost;
    use serde_json::json;
    use zester_host::process::fake::{Scripted, command_line, exit};

    const STATUS: &str = "Package: a\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.2-3\n\n\
        Package: dpkg\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.21\n\n\
        Package: b\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 2\n";

    #[tokio::test(flavor = "multi_thread")]
    async fn packages_are_looked_up_by_whoever_manages_them() {
        let mut machine =
            TestHost::with(&[("/etc/os-release", "ID=debian\n"), ("/var/lib/dpkg/status", STATUS)]);
        machine.processes = Scripted::new().with(|launch| {
            command_line(launch).starts_with("apt-get --simulate").then(|| {
                Ok(exit(
                    0,
                    "Inst a [1.2-3] (1.4-1 Debian:12 [amd64])\nConf a (1.4-1 Debian:12 [amd64])\n",
                    "",
                ))
            })
        });
        for (function, words, wanted) in [
            ("pkg.version", &["a"][..], json!("1.2-3")),
            ("pkg.version", &["b"], json!("")),
            ("pkg.version", &["b", "none"], json!("none")),
            ("pkg.list_pkgs", &[], json!({ "a": "1.2-3", "dpkg": "1.21" })),
            ("pkg.list_upgrades", &[], json!({ "a": "1.4-1" })),
            ("pkg.latest_version", &["a"], json!("1.4-1")),
            ("pkg.upgrade_available", &["a"], json!(true)),
            ("pkg.upgrade_available", &["dpkg"], json!(false)),
        ] {
            assert_eq!(machine.call(function, words), Ok(wanted), "{function} {words:?}");
        }
        assert!(
            TestHost::with(&[]).call("pkg.version", &["a"]).unwrap_err().contains("cannot be managed here")
        );
    }
}
