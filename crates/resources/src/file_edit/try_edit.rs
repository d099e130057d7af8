//! One edit of one text, for the tests of the kinds.

use crate::file_managed::Bench;
use crate::laws::bind_json;
use serde_json::{Value as Json, json};
use std::path::Path;
use zester_host::NewFile;

pub(crate) fn bench(kind: &'static str, old: Option<&str>) -> Bench {
    let bench = Bench::of(kind, "");
    if let Some(old) = old {
        put(&bench, old);
    }
    bench
}

pub(crate) fn put(bench: &Bench, text: &str) {
    let file = NewFile { content: text.as_bytes(), mode: 0o640, owner: bench.host.me() };
    bench.host.put_file(Path::new("/f"), &file).unwrap();
}

/// What is in the file; `None` where there is none.
pub(crate) fn text_of(bench: &Bench) -> Option<String> {
    let path = Path::new("/f");
    bench.host.stat(path).unwrap()?;
    Some(String::from_utf8(bench.host.read(path, 1 << 20).unwrap()).unwrap())
}

fn at_f(mut params: Json) -> Json {
    params["path"] = json!("/f");
    params
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// What an edit makes of `/f`; `None` where it leaves it alone. What it made it leaves alone, too.
pub(crate) fn edited(kind: &'static str, params: Json, old: Option<&str>) -> Option<String> {
    let (bench, params) = (bench(kind, old), at_f(params));
    let bound = bind_json(kind, &params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
    block_on(async {
        bench.check(&*bound).await.unwrap()?;
        bench.apply(params.clone()).await;
        let text = text_of(&bench);
        assert!(bench.check(&*bound).await.unwrap().is_none(), "{params}: not clean after {text:?}");
        text
    })
}

/// Why it is refused: by its parameters, or by what is there.
pub(crate) fn refused(kind: &'static str, params: Json, old: Option<&str>) -> String {
    let (bench, params) = (bench(kind, old), at_f(params));
    match bind_json(kind, &params) {
        Err(diagnostics) => diagnostics.iter().map(|diagnostic| diagnostic.message.clone() + "\n").collect(),
        Ok(bound) => {
            let checked = block_on(bench.check(&*bound));
            checked.err().unwrap_or_else(|| panic!("{params} is accepted")).to_string()
        }
    }
}
