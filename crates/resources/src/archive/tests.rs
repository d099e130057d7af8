use super::*;
use std::io::Write;

/// A tar of these: `name` and content, a directory where the name ends with `/`, a link where the content begins with `->`.
pub(crate) fn tar_of(things: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in things {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o4755);
        // Names that the builder would refuse are what is tried.
        let raw = header.as_gnu_mut().unwrap();
        raw.name[..name.len()].copy_from_slice(name.as_bytes());
        let mut body: &[u8] = b"";
        if name.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
        } else if let Some(target) = content.strip_prefix("->") {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_link_name_literal(target).unwrap();
        } else if let Some(target) = content.strip_prefix("=>") {
            header.set_entry_type(tar::EntryType::Link);
            header.set_link_name_literal(target).unwrap();
        } else if *content == "pipe" {
            header.set_entry_type(tar::EntryType::Fifo);
        } else {
            body = content.as_bytes();
        }
        header.set_size(body.len() as u64);
        header.set_cksum();
        builder.append(&header, body).unwrap();
    }
    builder.into_inner().unwrap()
}

fn zip_of(things: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in things {
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .unix_permissions(0o750);
        zip.start_file(*name, options).unwrap();
        zip.write_all(content.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn names(archive: &[u8], strip: usize) -> Result<Vec<String>, String> {
    let found = entries(archive, Unpack { strip, content: true })?;
    Ok(found.into_iter().map(|entry| entry.path.display().to_string()).collect())
}

#[test]
fn an_archive_is_its_entries_with_the_directories_above_them() {
    let things =
        [("app/bin/run", "#!"), ("app/lib/", ""), ("./app/l", "->bin/run"), ("app/same", "=>app/bin/run")];
    let tar = tar_of(&things);
    let all = ["app", "app/bin", "app/bin/run", "app/l", "app/lib", "app/same"];
    assert_eq!(names(&tar, 0).unwrap(), all);
    assert_eq!(names(&gzip(&tar), 0).unwrap(), all);
    assert_eq!(names(&tar, 1).unwrap(), ["bin", "bin/run", "l", "lib", "same"]);
    let found = entries(&tar, Unpack { strip: 0, content: true }).unwrap();
    assert_eq!(found[2].body, Body::File(b"#!"[..].into()));
    assert_eq!(found[2].mode, Some(0o755), "no right to act as another");
    assert_eq!(found[3].body, Body::Link("bin/run".into()));
    assert_eq!(found[5].body, found[2].body);
    let bare = entries(&tar, Unpack { strip: 0, content: false }).unwrap();
    assert_eq!(bare[2].body, Body::File([][..].into()));
    let zip = zip_of(&[("app/a", "text"), ("app/b", "text")]);
    assert_eq!(names(&zip, 0).unwrap(), ["app", "app/a", "app/b"]);
    assert_eq!(entries(&zip, Unpack { strip: 0, content: true }).unwrap()[1].mode, Some(0o750));
}

#[test]
fn nothing_leads_out_of_the_directory() {
    for name in ["../evil", "/etc/passwd", "a/../../evil"] {
        for archive in [tar_of(&[(name, "x")]), zip_of(&[(name, "x")])] {
            let said = names(&archive, 0);
            assert!(
                said.as_ref().is_err_and(|said| said.contains("leads out of the directory")),
                "{name}: {said:?}"
            );
        }
    }
    let through = tar_of(&[("d", "->/etc"), ("d/passwd", "x")]);
    assert!(names(&through, 0).unwrap_err().contains("both as a directory and as something else"));
    assert!(names(&tar_of(&[("p", "pipe")]), 0).unwrap_err().contains("a device or a pipe"));
    assert!(names(&tar_of(&[("h", "=>/etc/shadow")]), 0).unwrap_err().contains("leads out"));
    assert!(names(&tar_of(&[("h", "=>none")]), 0).unwrap_err().contains("a link to nothing in it"));
}

#[test]
fn what_unpacks_to_far_too_much_is_refused() {
    let bomb = gzip(&tar_of(&[("zeros", &"0".repeat(40_000_000))]));
    assert!(bomb.len() < 60_000, "{}", bomb.len());
    for content in [true, false] {
        let said = entries(&bomb, Unpack { strip: 0, content }).unwrap_err();
        assert!(said.contains("unpacks to more than"), "{said}");
    }
}

#[test]
fn what_is_no_archive_is_said() {
    for junk in [&b"<html>not found</html>"[..], b"", b"PK\x03\x04 junk", b"\x1f\x8b junk", b"BZh junk"] {
        let said = names(junk, 0).unwrap_err();
        assert!(said.starts_with("it is"), "{said}");
    }
}
