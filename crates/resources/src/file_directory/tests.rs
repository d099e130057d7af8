use crate::file_managed::Bench;
use serde_json::json;
use zester_host::{FaultKind, Owner};
use zester_rule::rule;

#[tokio::test]
#[rule("S-31")]
async fn s31_a_path_that_is_gone_keeps_nothing_else_from_coming_back() {
    let bench = Bench::of(
        "file.directory",
        "d /t 0755\nf /t/a 0644 a\nd /t/b 0755\nf /t/b/c 0644 c\nd /t/d 0755\nf /t/e 0644 e",
    );
    let params = json!({ "path": "/t", "user": "web", "recurse": ["user"] });
    let (_, record) = bench.apply(params).await;
    let uid = |path: &str| bench.host.stat(path.as_ref()).unwrap().map(|meta| meta.uid);
    for gone in ["/t/b/c", "/t/e"] {
        bench.host.remove_file(gone.as_ref()).unwrap();
    }
    for gone in ["/t/b", "/t/d"] {
        bench.host.remove_directory(gone.as_ref()).unwrap();
    }
    bench.host.make_directory("/t/e".as_ref(), 0o700, Owner { uid: 0, gid: 0 }).unwrap();
    for _ in 0..2 {
        let fault = bench.revert(&record, false).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::ChangedSince);
        assert!(fault.message.contains("4 of 6 paths could not be restored"), "{fault}");
        assert!(fault.message.contains("/t/b/c is gone"), "{fault}");
        assert_eq!(fault.hint.as_deref(), Some("`--force` gives it up"));
        assert_eq!(fault.details["unrestored"], json!(["/t/e", "/t/d", "/t/b/c", "/t/b"]));
        assert_eq!((uid("/t"), uid("/t/a"), uid("/t/b"), uid("/t/d")), (Some(7), Some(7), None, None));
    }
    assert!(bench.revert(&record, true).await.unwrap());
    assert_eq!((uid("/t/b"), uid("/t/e")), (None, Some(0)), "what is gone or another is given up");
}

#[tokio::test]
#[rule("S-31")]
async fn s31_a_tree_gets_its_modes_back_where_its_directory_is_now() {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    fs::create_dir_all(top.join("app/t/sub")).unwrap();
    for path in ["app/t", "app/t/sub"] {
        fs::set_permissions(top.join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let bench = Bench::on("file.directory", std::sync::Arc::new(zester_host::real::Real::new()));
    let (_, record) =
        bench.apply(json!({ "path": top.join("app/t"), "mode": "0700", "recurse": ["mode"] })).await;
    fs::rename(top.join("app"), top.join("moved")).unwrap();
    symlink("moved", top.join("app")).unwrap();
    assert!(bench.revert(&record, false).await.unwrap());
    let mode = |path: &str| fs::metadata(top.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("moved/t"), mode("moved/t/sub")), (0o755, 0o755));
}
