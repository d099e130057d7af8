//! Hard links on a real file system.

use crate::{Bench, bind};
use serde_json::json;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn a_second_name_comes_and_goes_and_the_file_stays_as_it_is() {
    let bench = Bench::new();
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    let (file, name) = (top.join("file"), top.join("name"));
    std::fs::write(&file, "one").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::write(&name, "one").unwrap();
    std::fs::set_permissions(&name, std::fs::Permissions::from_mode(0o600)).unwrap();
    let inode = |path: &std::path::Path| std::fs::metadata(path).unwrap().ino();
    let params = json!({ "path": name, "target": file, "force": true });
    let (_, record) = bench.apply("file.hardlink", params.clone());
    assert_eq!(inode(&name), inode(&file));
    assert!(bench.check(&*bind("file.hardlink", params)).unwrap().is_none());
    // What is written since through either name stays in the file.
    std::fs::write(&name, "two").unwrap();
    assert!(bench.revert("file.hardlink", &record, false).unwrap().changed);
    assert_ne!(inode(&name), inode(&file));
    assert_eq!(std::fs::read_to_string(&name).unwrap(), "one");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(&name), mode(&file)), (0o600, 0o640));
}
