//! The pictures of `zester graph`: self-contained, escaped, coloured by a run.

use crate::scratch::Scratch;

#[test]
fn svg_and_html_show_every_state_and_escape_what_users_wrote() {
    let scratch = Scratch::with(
        "'<b>&\"x':\n  test.succeed_with_changes: []\nfails:\n  test.fail_without_changes: [{require: [{test.succeed_with_changes: '<b>&\"x'}]}]\n",
    );
    let run = scratch.zester(&["apply", "c", "--format", "json"]).stdout;
    scratch.write("run.json", &run);
    for format in ["svg", "html"] {
        let picture = scratch.zester(&["graph", "c", "--format", format, "--run", "@T@/run.json"]).stdout;
        assert!(picture.contains("&lt;b&gt;&amp;"), "{format}");
        assert!(!picture.contains("<b>&\""), "{format}");
        assert!(picture.contains("fails") && picture.contains("require"), "{format}");
        assert!(
            !picture.contains("http://")
                || picture.replace("http://www.w3.org/", "").find("http://").is_none(),
            "{format} is self-contained"
        );
        assert!(!picture.contains("https://"), "{format} is self-contained");
    }
    let wrong = scratch.zester(&["graph", "c", "--run", "@T@/states/c.zy"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("--format json"), "{}", wrong.stderr);
}
