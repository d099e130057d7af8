//! `file.*` that look: what a path is, whose it is, what it holds.

use super::{Arguments, CallContext, Function, by_name, maybe, read_only, text, told, value};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use zester_host::files::{Meta, Special};
use zester_host::{FaultKind, FileKind};
use zester_model::limits;

/// Paths that one search finds at most.
const FOUND_MAX: usize = 100_000;
/// Largest file whose digest is asked for.
const HASHED_BYTES_MAX: u64 = limits::FILE_BYTES_MAX;

const PATH: &[super::Takes] = &[text("path")];
const PATH_OR_LINK: &[super::Takes] = &[text("path"), value("follow_symlinks")];

pub(super) const TABLE: &[Function] = &[
    told("file.basename", PATH, "file.basename PATH: the last part of a path", |_, args| {
        let path = args.text(0, "path")?;
        Ok(json!(Path::new(&path).file_name().map(|name| name.to_string_lossy()).unwrap_or_default()))
    }),
    read_only(
        "file.check_hash",
        &[text("path"), text("file_hash")],
        "file.check_hash PATH HASH: whether a file has a digest (`sha256=…`, or its digits)",
        |place, args| {
            let hash = args.text(1, "file_hash")?;
            let (form, digits) = hash.split_once(['=', ':']).unwrap_or(("", &hash));
            let form = if form.is_empty() { form_of(digits)? } else { form };
            Ok(json!(digest(place, &args.text(0, "path")?, form)? == digits.to_ascii_lowercase()))
        },
    ),
    told("file.dirname", PATH, "file.dirname PATH: a path without its last part", |_, args| {
        let path = args.text(0, "path")?;
        Ok(json!(Path::new(&path).parent().map(|parent| parent.to_string_lossy()).unwrap_or_default()))
    }),
    read_only(
        "file.find",
        &[
            text("path"),
            by_name("name", true),
            by_name("iname", true),
            by_name("type", true),
            by_name("maxdepth", false),
            by_name("mindepth", false),
        ],
        "file.find PATH: what lies below a directory; name= and iname= take globs, type= letters of fdlbcps, and maxdepth=, mindepth=",
        find,
    ),
    read_only(
        "file.get_gid",
        PATH_OR_LINK,
        "file.get_gid PATH [FOLLOW]: the number of its group",
        |place, args| Ok(json!(meta(place, args)?.gid)),
    ),
    read_only("file.get_group", PATH_OR_LINK, "file.get_group PATH [FOLLOW]: its group", |place, args| {
        Ok(json!(name_of(place, "/etc/group", meta(place, args)?.gid)?))
    }),
    read_only(
        "file.get_hash",
        &[text("path"), maybe("form")],
        "file.get_hash PATH [FORM]: the digest of a file; FORM is sha256 unless it is said",
        |place, args| {
            let form = args.optional(1, "form")?.unwrap_or_else(|| "sha256".to_string());
            Ok(json!(digest(place, &args.text(0, "path")?, &form)?))
        },
    ),
    read_only(
        "file.get_mode",
        PATH_OR_LINK,
        "file.get_mode PATH [FOLLOW]: its mode, like `0644`",
        |place, args| Ok(json!(format!("{:04o}", meta(place, args)?.mode))),
    ),
    read_only(
        "file.get_uid",
        PATH_OR_LINK,
        "file.get_uid PATH [FOLLOW]: the number of its owner",
        |place, args| Ok(json!(meta(place, args)?.uid)),
    ),
    read_only("file.get_user", PATH_OR_LINK, "file.get_user PATH [FOLLOW]: its owner", |place, args| {
        Ok(json!(name_of(place, "/etc/passwd", meta(place, args)?.uid)?))
    }),
    read_only(
        "file.grep",
        &[text("path"), text("pattern")],
        "file.grep PATH PATTERN: the lines of a file in which a pattern is found",
        |place, args| Ok(json!(lines(place, args)?)),
    ),
    read_only("file.is_blkdev", PATH, "file.is_blkdev PATH: whether it is a block device", |place, args| {
        is(place, args, |kind| matches!(kind, FileKind::Special(Special::Block { .. })))
    }),
    read_only(
        "file.is_chrdev",
        PATH,
        "file.is_chrdev PATH: whether it is a character device",
        |place, args| is(place, args, |kind| matches!(kind, FileKind::Special(Special::Character { .. }))),
    ),
    read_only("file.is_fifo", PATH, "file.is_fifo PATH: whether it is a pipe", |place, args| {
        is(place, args, |kind| matches!(kind, FileKind::Special(Special::Pipe)))
    }),
    read_only("file.is_link", PATH, "file.is_link PATH: whether it is a symbolic link", |place, args| {
        is(place, args, |kind| kind == FileKind::Link)
    }),
    read_only("file.readlink", PATH, "file.readlink PATH: what a symbolic link points at", |place, args| {
        let target = place.host.read_link(Path::new(&args.text(0, "path")?));
        Ok(json!(target.map_err(|fault| fault.to_string())?.display().to_string()))
    }),
    read_only(
        "file.search",
        &[text("path"), text("pattern")],
        "file.search PATH PATTERN: whether a pattern is found in a file",
        |place, args| Ok(json!(!lines(place, args)?.is_empty())),
    ),
    read_only(
        "file.stats",
        &[text("path"), maybe("hash_type"), value("follow_symlinks")],
        "file.stats PATH [HASH] [FOLLOW]: what is to be known about a path; with HASH also its digest",
        stats,
    ),
];

fn meta(place: &CallContext<'_>, args: &Arguments) -> Result<Meta, String> {
    look(place, &args.text(0, "path")?, args.flag(1, "follow_symlinks", true)?)
}

fn look(place: &CallContext<'_>, path: &str, follow: bool) -> Result<Meta, String> {
    let found = match follow {
        true => place.host.stat_followed(Path::new(path)),
        false => place.host.stat(Path::new(path)),
    };
    found.map_err(|fault| fault.to_string())?.ok_or_else(|| format!("there is nothing at {path}"))
}

fn is(place: &CallContext<'_>, args: &Arguments, fits: fn(FileKind) -> bool) -> Result<Json, String> {
    let found = place.host.stat(Path::new(&args.text(0, "path")?)).map_err(|fault| fault.to_string())?;
    Ok(json!(found.is_some_and(|meta| fits(meta.kind))))
}

/// The name that a number has in a file like `/etc/passwd`; the number itself where it has none.
pub(super) fn name_of(place: &CallContext<'_>, file: &str, id: u32) -> Result<String, String> {
    let text = super::asked::read(place, file)?.unwrap_or_default();
    let number = id.to_string();
    let named = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1) == Some(&number)).then(|| name.to_string())
    });
    Ok(named.unwrap_or(number))
}

/// By how many digits it has.
fn form_of(digits: &str) -> Result<&'static str, String> {
    let forms = [(32, "md5"), (40, "sha1"), (56, "sha224"), (64, "sha256"), (96, "sha384"), (128, "sha512")];
    let found = forms.iter().find(|(length, _)| *length == digits.len());
    found.map(|(_, form)| *form).ok_or_else(|| format!("`{digits}` is the digest of no known algorithm"))
}

fn digest(place: &CallContext<'_>, path: &str, form: &str) -> Result<String, String> {
    let content = place.host.read(Path::new(path), HASHED_BYTES_MAX).map_err(|fault| fault.to_string())?;
    zester_resources::digest_of(form, &content).ok_or_else(|| {
        format!("`{form}` is no digest; there are sha512, sha384, sha256, sha224, sha1 and md5")
    })
}

fn lines(place: &CallContext<'_>, args: &Arguments) -> Result<Vec<String>, String> {
    let path = args.text(0, "path")?;
    let text = super::asked::read(place, &path)?.ok_or_else(|| format!("there is no file {path}"))?;
    let found = zester_resources::lines_found(&args.text(1, "pattern")?, &text)?;
    Ok(found.into_iter().map(str::to_string).collect())
}

fn sort(kind: FileKind) -> (&'static str, char) {
    match kind {
        FileKind::File => ("file", 'f'),
        FileKind::Directory => ("dir", 'd'),
        FileKind::Link => ("link", 'l'),
        FileKind::Special(Special::Pipe) => ("pipe", 'p'),
        FileKind::Special(Special::Socket) => ("socket", 's'),
        FileKind::Special(Special::Block { .. }) => ("block", 'b'),
        FileKind::Special(Special::Character { .. }) => ("char", 'c'),
    }
}

fn stats(place: &CallContext<'_>, args: &Arguments) -> Result<Json, String> {
    let path = args.text(0, "path")?;
    let meta = look(place, &path, args.flag(2, "follow_symlinks", true)?)?;
    let seconds = |nanos: i128| nanos as f64 / 1e9;
    let mut told = json!({
        "type": sort(meta.kind).0,
        "mode": format!("{:04o}", meta.mode),
        "user": name_of(place, "/etc/passwd", meta.uid)?,
        "uid": meta.uid,
        "group": name_of(place, "/etc/group", meta.gid)?,
        "gid": meta.gid,
        "size": meta.size,
        "mtime": seconds(meta.mtime_ns),
        "atime": seconds(meta.atime_ns),
        "target": path,
    });
    if meta.kind == FileKind::Link {
        let target = place.host.read_link(Path::new(&path)).map_err(|fault| fault.to_string())?;
        told["target"] = json!(target.display().to_string());
    }
    if let Some(form) = args.optional(1, "hash_type")?
        && meta.kind == FileKind::File
    {
        told["sum"] = json!(digest(place, &path, &form)?);
    }
    Ok(told)
}

/// Below a directory, links not followed. What cannot be read is an error: it would look like nothing.
fn find(place: &CallContext<'_>, args: &Arguments) -> Result<Json, String> {
    let glob = |name: &str, any_case: bool| match args.named.get(name).and_then(Json::as_str) {
        None => Ok(None),
        Some(pattern) => {
            let built = globset::GlobBuilder::new(pattern).case_insensitive(any_case).build();
            built.map(|glob| Some(glob.compile_matcher())).map_err(|error| format!("`{name}`: {error}"))
        }
    };
    let (name, iname) = (glob("name", false)?, glob("iname", true)?);
    let sorts = args.named.get("type").and_then(Json::as_str).map(str::to_string);
    if let Some(odd) = sorts.iter().flat_map(|sorts| sorts.chars()).find(|sort| !"fdlbcps".contains(*sort)) {
        return Err(format!("`type`: `{odd}` is none of f, d, l, b, c, p, s"));
    }
    let depth = |name: &str| match args.named.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(given) => given.as_u64().map(Some).ok_or_else(|| format!("`{name}` must be a number")),
    };
    let (most, least) = (depth("maxdepth")?.unwrap_or(u64::MAX), depth("mindepth")?.unwrap_or(0));
    let top = PathBuf::from(args.text(0, "path")?);
    let mut found = Vec::new();
    let mut rest = vec![(top, 0u64)];
    while let Some((path, level)) = rest.pop() {
        let fault = |fault: zester_host::Fault| fault.to_string();
        let meta = match place.host.stat(&path).map_err(fault)? {
            Some(meta) => meta,
            None if level == 0 => return Err(format!("there is nothing at {}", path.display())),
            // It was there when its directory was listed, and is gone since.
            None => continue,
        };
        let own = path.file_name().unwrap_or(path.as_os_str());
        let fits = [&name, &iname].into_iter().flatten().all(|glob| glob.is_match(Path::new(own)));
        let of_sort = sorts.as_ref().is_none_or(|sorts| sorts.contains(sort(meta.kind).1));
        if fits && of_sort && level >= least {
            found.push(path.display().to_string());
        }
        if found.len() > FOUND_MAX {
            return Err(format!(
                "more than {FOUND_MAX} paths; search below another directory, or for a name"
            ));
        }
        if meta.kind == FileKind::Directory && level < most {
            let names = match place.host.list(&path) {
                Err(gone) if gone.kind == FaultKind::NotFound && level > 0 => continue,
                listed => listed.map_err(fault)?,
            };
            rest.extend(names.iter().map(|name| (path.join(name), level + 1)));
        }
    }
    found.sort_unstable();
    Ok(json!(found))
}

#[cfg(test)]
mod tests {
    use crate::functions::try_function::TestHost;
    use serde_json::json;

    #[tokio::test(flavor = "multi_thread")]
    async fn files_are_looked_at_in_the_words_of_salt() {
        let machine = TestHost::with(&[
            ("/etc/passwd", "root:x:0:0::/root:/bin/sh\n"),
            ("/etc/group", "root:x:0:\n"),
            ("/srv/a.txt", "one\ntwo 2\n"),
            ("/srv/sub/B.TXT", "three\n"),
        ]);
        machine.link("/srv/link", "a.txt");
        for (function, words, wanted) in [
            ("file.get_mode", &["/srv/a.txt"][..], json!("0644")),
            ("file.get_user", &["/srv/a.txt"], json!("root")),
            ("file.get_gid", &["/srv/a.txt"], json!(0)),
            ("file.is_link", &["/srv/link"], json!(true)),
            ("file.is_link", &["/srv/a.txt"], json!(false)),
            ("file.readlink", &["/srv/link"], json!("a.txt")),
            ("file.grep", &["/srv/a.txt", "^t.*[0-9]$"], json!(["two 2"])),
            ("file.search", &["/srv/a.txt", "nothing"], json!(false)),
            ("file.basename", &["/srv/a.txt"], json!("a.txt")),
            ("file.dirname", &["/srv/a.txt"], json!("/srv")),
            ("file.get_hash", &["/srv/sub/B.TXT", "md5"], json!("febe6995bad457991331348f7b9c85fa")),
            ("file.check_hash", &["/srv/sub/B.TXT", "md5=febe6995bad457991331348f7b9c85fa"], json!(true)),
            ("file.find", &["/srv", "iname=*.txt"], json!(["/srv/a.txt", "/srv/sub/B.TXT"])),
            ("file.find", &["/srv", "type=dl", "mindepth=1"], json!(["/srv/link", "/srv/sub"])),
            ("file.find", &["/srv", "name=*.TXT", "maxdepth=1"], json!([])),
        ] {
            assert_eq!(machine.call(function, words), Ok(wanted), "{function} {words:?}");
        }
        let told = machine.call("file.stats", &["/srv/a.txt", "sha1"]).unwrap();
        assert_eq!(
            (&told["type"], &told["size"], &told["user"]),
            (&json!("file"), &json!(10), &json!("root"))
        );
        assert_eq!(told["sum"].as_str().map(str::len), Some(40));
        let link = machine.call("file.stats", &["/srv/link", "follow_symlinks=false"]).unwrap();
        assert_eq!((&link["type"], &link["target"]), (&json!("link"), &json!("a.txt")));
        for (function, words, wanted) in [
            ("file.get_mode", &["/none"][..], "there is nothing at /none"),
            ("file.find", &["/srv", "type=x"], "`type`: `x` is none of f, d, l, b, c, p, s"),
            (
                "file.get_hash",
                &["/srv/a.txt", "crc"],
                "`crc` is no digest; there are sha512, sha384, sha256, sha224, sha1 and md5",
            ),
        ] {
            assert_eq!(machine.call(function, words), Err(wanted.to_string()));
        }
    }
}
