//! Trees that were written for Salt (section 11).

use crate::fixture::{asked, files, with_inputs};
use zester_compile::Compiled;
use zester_rule::rule;

/// Kind, id and the names behind its edges, of every state.
fn states(compiled: &Compiled) -> Vec<String> {
    let problems: Vec<&str> = compiled.diagnostics.iter().map(|it| it.message.as_str()).collect();
    assert!(problems.is_empty(), "{problems:?}");
    let states = &compiled.program.states;
    let shown = |at: usize| states[at].name.to_string();
    states
        .iter()
        .map(|state| {
            let edges: Vec<String> = state
                .edges
                .iter()
                .map(|edge| format!("{} {}", edge.kind.as_str(), shown(edge.target)))
                .collect();
            format!("{} [{}]", state.name, edges.join(", "))
        })
        .collect()
}

fn codes(compiled: &Compiled) -> Vec<&'static str> {
    compiled.advice.iter().filter_map(|advice| advice.code).collect()
}

fn messages(compiled: &Compiled) -> Vec<String> {
    compiled.diagnostics.iter().map(|it| it.message.clone()).collect()
}

fn rendered(text: &str) -> Result<String, String> {
    let tree = files(&[("sub/d.yaml", "a: {{ 1 + 1 }}\n"), ("x.sls", "")]);
    with_inputs(&tree, |inputs| {
        zester_compile::render(inputs, "t.sls", text, &serde_json::Map::new())
            .map_err(|(_, found)| found.iter().map(|it| it.message.clone()).collect::<Vec<_>>().join("; "))
    })
}

fn gives(text: &str, wanted: &str) {
    assert_eq!(rendered(text), Ok(wanted.to_string()), "{text}");
}

#[test]
#[rule("S-49")]
fn s49_a_parameter_given_twice_is_the_last_one_and_an_error_in_zy() {
    let text =
        "a:\n  file.managed:\n    - name: /a\n    - content: x\n    - mode: '0600'\n    - mode: '0644'\n";
    let compiled = asked(&[("c.sls", text)], "c");
    assert_eq!(messages(&compiled), Vec::<String>::new());
    let mode =
        compiled.program.states[0].params.iter().filter(|param| param.name == "mode").collect::<Vec<_>>();
    assert_eq!(mode.len(), 1);
    assert_eq!(mode[0].value.as_text(), Some("0644"));
    assert_eq!(codes(&compiled), ["parameter_twice"]);
    assert_eq!(messages(&asked(&[("c.zy", text)], "c")), ["`mode` is given twice"]);
}

#[test]
#[rule("S-49")]
fn s49_a_target_that_several_states_have_means_all_of_them() {
    let text = "a:\n  test.nop: []\n  cmd.run:\n    - name: 'true'\nb1:\n  test.nop: []\nb2:\n  test.nop: []\nc:\n  \
                test.ping:\n    - require:\n      - a\n      - test: b*\n";
    let compiled = asked(&[("c.sls", text)], "c");
    let found = states(&compiled);
    assert_eq!(
        found.last().map(String::as_str),
        Some("test.ping:c [require test.nop:a, require cmd.run:a, require test.nop:b1, require test.nop:b2]")
    );
    let strict = text.replace("      - test: b*\n", "");
    assert!(
        messages(&asked(&[("c.zy", &strict)], "c"))[0]
            .starts_with("dag: state \"test.ping:c\" requires one of")
    );
}

#[test]
#[rule("S-49")]
fn s49_what_is_forgiven_is_told_by_lint_with_both_places() {
    let text = "a:\n  test.nop: []\n  cmd.run:\n    - name: 'true'\nb1:\n  test.nop: []\nb2:\n  test.nop: []\nc:\n  \
                test.ping:\n    - require:\n      - a\n      - test: b*\n      - test: a\n";
    let compiled = asked(&[("c.sls", text)], "c");
    let advice = zester_compile::lint(&compiled);
    let told: Vec<String> = advice.iter().map(|it| crate::fixture::text(&compiled, it)).collect();
    assert_eq!(
        told,
        ["states/c.sls:12:9: `a` means 2 states here: all of them [name one in full: `test.nop:a`] \
          {states/c.sls:2:3 test.nop:a is declared here} {states/c.sls:3:3 cmd.run:a is declared here}"]
    );
    let row = zester_compile::differences::find("id_twice").unwrap();
    assert!(zester_compile::differences::is_forgiven(row.id));
    // A declaration with `names` is called by its one id, and a pattern asks for several.
    let names = "a:\n  test.nop:\n    - names: [x, y]\nb:\n  test.nop:\n    - require: [a, 'test: *']\n";
    assert_eq!(codes(&asked(&[("c.sls", names)], "c")), Vec::<&str>::new());
}

#[test]
#[rule("S-49")]
#[rule("S-53")]
fn s49_a_zy_file_is_strict_about_what_it_adds_to_a_state_of_an_sls_file() {
    let salt = "x:\n  file.managed:\n    - name: /x\n    - source: salt://x.j2\n    - template: jinja\ny:\n  test.nop: \
                []\n  cmd.run:\n    - name: 'true'\n";
    let extended = |what: &str| {
        let ours = format!("include: [a]\nextend:\n  x:\n{what}");
        let files = [("a.sls", salt), ("x.j2", ""), ("c.zy", ours.as_str())];
        let strict = messages(&asked(&files, "c"));
        let files = [("a.sls", salt), ("x.j2", ""), ("c.sls", ours.as_str())];
        assert_eq!(messages(&asked(&files, "c")), Vec::<String>::new(), "{what}");
        strict
    };
    let extra = extended("    file.managed:\n      - port: 80\n");
    assert_eq!(extra, ["unknown parameter `port` of file.managed"]);
    let twice = extended("    file.managed:\n      - mode: '0600'\n      - mode: '0644'\n");
    assert_eq!(twice, ["`mode` is given twice"]);
    let added = extended("    cmd.run:\n      - name: 'true'\n");
    assert_eq!(added, ["extend of unknown state \"cmd.run:x\""]);
    let several = extended("    file.managed:\n      - require: [y]\n");
    assert!(several[0].starts_with("dag: state \"file.managed:x\" requires one of"), "{several:?}");
    // The other way round the file for Salt is read as Salt reads it.
    let ours = "include: [a]\nextend:\n  x:\n    file.managed:\n      - port: 80\n";
    let files = [("a.zy", salt), ("x.j2", ""), ("c.sls", ours)];
    assert_eq!(codes(&asked(&files, "c")), ["context_keys"]);
}

#[test]
#[rule("S-49")]
fn s49_the_function_of_a_target_does_not_count_and_an_id_may_be_named_as_one() {
    let text = "a:\n  test.nop: []\nb:\n  test.ping:\n    - require:\n      - test.succeed_with_changes: a\n      - id: a\n";
    assert_eq!(states(&asked(&[("c.sls", text)], "c"))[1], "test.ping:b [require test.nop:a]");
}

#[test]
#[rule("S-49")]
fn s49_an_extension_may_bring_a_function_that_its_id_did_not_have() {
    let list = [
        ("a.sls", "x:\n  test.nop: []\n"),
        ("c.sls", "include: [a]\nextend:\n  x:\n    cmd.run:\n      - name: 'true'\n"),
    ];
    assert_eq!(states(&asked(&list, "c")), ["test.nop:x []", "cmd.run:x []"]);
}

#[test]
#[rule("S-5")]
fn s5_includes_by_pattern_and_by_environment_and_in_a_circle() {
    let list = [
        ("c.sls", "include:\n  - web.*\n  - base: db\n"),
        ("web/a.sls", "a:\n  test.nop: []\n"),
        ("web/b.sls", "include: [web.a, c]\nb:\n  test.nop: []\n"),
        ("db.sls", "d:\n  test.nop: []\n"),
    ];
    assert_eq!(states(&asked(&list, "c")), ["test.nop:a []", "test.nop:b []", "test.nop:d []"]);
}

#[test]
#[rule("S-49")]
fn s49_requisites_of_a_kind_that_nobody_knows_are_still_read() {
    let text =
        "a:\n  nope.present: []\nb:\n  test.nop:\n    - require:\n      - nope: a\n      - nope: gone\n";
    let compiled = asked(&[("c.sls", text)], "c");
    let found = messages(&compiled);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(
        compiled.diagnostics.iter().filter_map(|it| it.code).collect::<Vec<_>>(),
        ["unknown_kind", "unknown_state"]
    );
    assert!(found[1].contains("requires unknown state"), "{found:?}");
    assert_eq!(compiled.program.states[1].edges.len(), 1);
}

#[test]
#[rule("S-50")]
fn s50_imported_data_is_rendered_with_the_variables_of_its_importer() {
    let list = [
        (
            "c.sls",
            "{% set port = 80 %}{% import_yaml 'd.yaml' as d %}{% import_json 'd.json' as j %}{% import_text 't' as t %}\n{{ d.name }}-{{ j.a }}-{{ t }}:\n  test.nop: []\n",
        ),
        ("d.yaml", "{% if grains.os == 'Debian' %}name: \"n{{ port }}\"\n{% endif %}"),
        ("d.json", "{\"a\": {{ port + 1 }}}"),
        ("t", "{{ pillar.app.name }}"),
    ];
    assert_eq!(states(&asked(&list, "c")), ["test.nop:n80-81-shop []"]);
}

#[test]
#[rule("S-50")]
fn s50_a_mistake_in_imported_data_is_shown_at_its_own_line() {
    let list = [
        ("c.sls", "{% import_yaml 'd.yaml' as d %}\na:\n  test.nop: []\n"),
        ("d.yaml", "{% set x = 1 %}\na: {{ x }}\nb: [1\nc: 2\n"),
    ];
    let compiled = asked(&list, "c");
    let first = &compiled.diagnostics[0];
    let span = first.span.unwrap();
    assert_eq!(compiled.sources.path(span.file), "states/d.yaml", "{first:?}");
    assert!(span.line >= 3, "{first:?}");
    let undefined = [("c.sls", "{% import_yaml 'd.yaml' as d %}"), ("d.yaml", "a: 1\nb: {{ nope }}\n")];
    let compiled = asked(&undefined, "c");
    let span = compiled.diagnostics[0].span.unwrap();
    assert_eq!((compiled.sources.path(span.file), span.line), ("states/d.yaml", 2));
    assert_eq!(messages(&compiled), ["`nope` is undefined"]);
    let circle =
        [("c.sls", "{% import_yaml 'd.yaml' as d %}"), ("d.yaml", "{% import_yaml 'd.yaml' as d %}")];
    assert!(messages(&asked(&circle, "c"))[0].contains("imports inside one another"));
}

#[test]
#[rule("S-51")]
fn s51_words_that_are_not_needed_are_accepted_and_told() {
    for (word, code) in
        [("parallel", "parallel"), ("aggregate", "aggregate"), ("reload_modules", "reload_modules")]
    {
        let text = format!("a:\n  test.nop:\n    - {word}: true\n");
        let compiled = asked(&[("c.sls", &text)], "c");
        assert_eq!(states(&compiled), ["test.nop:a []"], "{word}");
        assert_eq!(codes(&compiled), [code]);
        assert!(zester_compile::differences::find(code).is_some());
        assert_eq!(zester_compile::lint(&compiled).len(), 1, "lint says why");
    }
    let text = "a:\n  test.nop:\n    - retry: {attempts: 3, until: true, interval: 1, splay: 2}\n";
    let compiled = asked(&[("c.sls", text)], "c");
    assert_eq!(states(&compiled), ["test.nop:a []"]);
    assert_eq!(compiled.program.states[0].attributes.retry_splay.as_secs(), 2);
}

#[test]
#[rule("S-52")]
fn s52_the_same_name_with_the_same_parameters_is_one_state() {
    let text = "x:\n  test.nop: []\ny:\n  test.nop: []\na:\n  file.directory:\n    - names: [/d]\n    - mode: '0755'\n    - \
                require: [x]\nb:\n  file.directory:\n    - names: [/d, /e]\n    - mode: '0755'\n    - require: [y]\n";
    let found = states(&asked(&[("c.sls", text)], "c"));
    assert_eq!(found[2], "file.directory:/d [require test.nop:x, require test.nop:y]");
    assert_eq!(found.len(), 4);
    let other = text.replacen("'0755'", "'0700'", 1);
    assert!(messages(&asked(&[("c.sls", &other)], "c"))[0].contains("duplicate state"));
}

#[test]
#[rule("S-53")]
fn s53_keys_beside_context_go_to_the_template() {
    let text = "a:\n  file.managed:\n    - name: /a\n    - source: salt://a.j2\n    - template: jinja\n    - context:\n      \
                port: 80\n      host: web\n";
    let compiled = asked(&[("c.sls", text), ("a.j2", "")], "c");
    assert_eq!(messages(&compiled), Vec::<String>::new());
    let params = &compiled.program.states[0].params;
    let context = params.iter().find(|param| param.name == "context").unwrap();
    assert_eq!(context.value.to_json(), serde_json::json!({"port": 80, "host": "web"}));
    assert_eq!(codes(&compiled), ["context_keys", "context_keys"]);
    assert!(messages(&asked(&[("c.zy", text), ("a.j2", "")], "c"))[0].contains("unknown parameter `port`"));
    let plain = text.replace("    - template: jinja\n", "");
    let stray = asked(&[("c.sls", &plain), ("a.j2", "")], "c");
    assert_eq!(codes(&stray), ["stray_parameter", "stray_parameter"]);
}

#[test]
#[rule("S-49")]
fn s49_a_parameter_that_salt_does_not_know_either_is_passed_over_with_a_warning() {
    let state = |word: &str| format!("a:\n  file.directory:\n    - name: /a\n    - {word}\n");
    let told = |word: &str| {
        let compiled = asked(&[("c.sls", &state(word))], "c");
        (messages(&compiled), codes(&compiled).iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(told("dirmode: 755"), (vec![], vec!["stray_parameter".to_string()]));
    // What is off asks for nothing; what is on would be left undone.
    assert_eq!(told("backupname: False"), (vec![], vec!["needless_parameter".to_string()]));
    assert_eq!(told("backupname: /b").0, ["unknown parameter `backupname` of file.directory"]);
    let strict = asked(&[("c.zy", &state("dirmode: 755"))], "c");
    assert_eq!(messages(&strict), ["unknown parameter `dirmode` of file.directory"]);
    let quiet = "a:\n  cmd.run:\n    - name: x\n    - output_loglevel: quiet\n";
    let quiet = asked(&[("c.sls", quiet)], "c");
    assert_eq!((messages(&quiet), codes(&quiet).len()), (vec![], 1));
}

#[test]
#[rule("S-49")]
fn s49_a_requisite_that_is_given_twice_counts_as_it_is_given_last() {
    let text = "a:\n  test.nop: []\nb:\n  test.nop: []\nc:\n  test.nop:\n    - require: [{test: a}]\n    - require: [{test: b}]\n";
    let compiled = asked(&[("c.sls", text)], "c");
    let c = compiled.program.states.iter().find(|state| state.name.id() == "c").unwrap();
    let targets: Vec<&str> =
        c.edges.iter().map(|edge| compiled.program.states[edge.target].name.id()).collect();
    assert_eq!(targets, ["b"]);
    assert_eq!(codes(&compiled), ["parameter_twice"]);
}

#[test]
#[rule("S-4", "S-49")]
fn s49_of_a_file_and_a_directory_of_one_name_salt_takes_the_file() {
    let tree = [("web.sls", "a:\n  test.nop: []\n"), ("web/init.sls", "b:\n  test.nop: []\n")];
    assert_eq!(states(&asked(&tree, "web")), ["test.nop:a []"]);
}

#[test]
#[rule("S-10", "S-49")]
fn s49_what_formulas_do_to_data_works() {
    gives("{% set d = {'a': 1} %}{% do d.pop('a') if d.a is defined %}{{ d }}", "{}");
    gives("{% set d = {'a': 1} %}{% do d.pop('a') if d.b is defined %}{{ d }}", "{'a': 1}");
    gives("{{ 'a\nb' | indent(width=2) }}", "a\n  b");
    gives("{{ 'a\nb' | indent(2, true) }}", "  a\n  b");
    gives("{% for k, v in {'x': {}}.items() %}{% do v.update({'y': 1}) %}{{ v }}{% endfor %}", "{'y': 1}");
    gives("{% set d = {} %}{% do d | set_dict_key_value('a:b', 1) %}{{ d }}", "{'a': {'b': 1}}");
    gives("{{ {} | append_dict_key_value('a', 1) }}", "{'a': [1]}");
    gives("{{ {'a': [1]} | extend_dict_key_value('a', [2]) }}", "{'a': [1, 2]}");
    gives("{{ {'a': {'b': 1}} | update_dict_key_value('a', {'c': 2}) }}", "{'a': {'b': 1, 'c': 2}}");
    gives("{{ {'a': 1} | to_entries }}", "[{'key': 'a', 'value': 1}]");
    gives("{{ [{'key': 'a', 'value': 1}] | from_entries }}", "{'a': 1}");
    gives("{{ [1, 2] | compare_lists([2, 3]) }}", "{'new': [3], 'old': [1]}");
    gives("{{ ['b', 'A'] | sorted_ignorecase }}", "['A', 'b']");
    gives("{{ 'random' | uuid }}", "3652b285-26ad-588e-a5dc-c2ee65edc804");
    gives("{{ ifelse(false, 1, true, 2, 3) }} {{ ifelse(false, 1, 3) }}", "2 3");
    gives("{% set j = joiner(',') %}{% for x in [1, 2] %}{{ j() }}{{ x }}{% endfor %}", "1,2");
    gives("{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}", "aba");
    gives("{{ 1500000 | filesizeformat }}", "1.5 MB");
    gives("{{ 'one two three' | wordwrap(7) }}", "one two\nthree");
}

#[test]
#[rule("S-54")]
fn s54_the_first_line_chooses_json_and_the_order_of_passes() {
    let json = "#!json\n{\"a\": {\"test.nop\": []}}\n";
    assert_eq!(states(&asked(&[("c.sls", json)], "c")), ["test.nop:a []"]);
    let both = "#!jinja|json\n{\"{{ 'b' }}\": {\"test.nop\": []}}\n";
    assert_eq!(states(&asked(&[("c.sls", both)], "c")), ["test.nop:b []"]);
    let turned = "#!yaml|jinja\n{{ 'c' }}:\n  test.nop: []\n";
    assert_eq!(states(&asked(&[("c.sls", turned)], "c")), ["test.nop:c []"]);
    let py = asked(&[("c.sls", "#!py\ndef run():\n    return {}\n")], "c");
    assert_eq!(messages(&py), ["`#!py` is not run here"]);
    assert_eq!(py.diagnostics[0].code, Some("python_renderer"));
    let gpg = asked(&[("c.sls", "#!yaml|gpg\na:\n  test.nop: []\n")], "c");
    assert_eq!(messages(&gpg), ["the renderer `gpg` has no place here"]);
    for (name, row) in [("nacl", "renderer"), ("mako", "renderer"), ("pyobjects", "renderer")] {
        let compiled = asked(&[("c.sls", &format!("#!{name}\nx\n"))], "c");
        assert_eq!(messages(&compiled), [format!("unknown renderer `{name}`")]);
        assert_eq!(compiled.diagnostics[0].code, Some(row));
        assert!(compiled.diagnostics[0].hint.is_some());
    }
}

#[test]
#[rule("S-55")]
fn s55_a_function_that_does_not_exist_is_undefined() {
    gives(
        "{{ salt['nope.x'] is defined }} {{ salt.nope is defined }} {{ 'nope.x' in salt }}",
        "False False False",
    );
    gives(
        "{{ salt['test.echo'] is defined }} {{ salt.test.echo is defined }} {{ 'test.echo' in salt }}",
        "True True True",
    );
    gives("{{ salt['grains.get'] is callable }} {{ 'x' is callable }}", "True False");
    gives("{% if 'nope.x' in salt %}{{ salt['nope.x']() }}{% else %}none{% endif %}", "none");
    for text in ["{{ salt['test.ecko']('a') }}", "{{ salt.test.ecko('a') }}"] {
        let compiled = asked(&[("c.sls", text)], "c");
        assert_eq!(messages(&compiled), ["unknown function `test.ecko`"], "{text}");
        assert_eq!(compiled.diagnostics[0].code, Some("unknown_function"));
    }
}

#[test]
#[rule("S-49")]
fn s49_values_are_written_as_python_writes_them() {
    gives("{{ True }} {{ None }} {{ 1.0 }} {{ ['a', 'b'] }}", "True None 1.0 ['a', 'b']");
    gives("{{ 'x' ~ None ~ True ~ 1.50 ~ [1, 'a'] }}", "xNoneTrue1.5[1, 'a']");
    gives("{{ (1 + 2) ~ ('a') ~ ('b' ~ 'c') }}", "3abc");
    gives("{{ ['a', None, True] | join(',') }} {{ None | string }}", "a,None,True None");
    gives("a{% if true -%}\n x\n{%- endif -%}\n", "ax\n");
    gives("{{ (1, 2) }} {{ (1,) }} {{ {'a': 1} }}", "(1, 2) (1,) {'a': 1}");
}

#[test]
#[rule("S-49")]
fn s49_filters_take_the_keywords_that_salt_gives_them() {
    gives("{{ {'b': 1, 'a': 2} | json }}", "{\"a\": 2, \"b\": 1}");
    gives("{{ {'b': 1, 'a': 2} | json(sort_keys=False) }}", "{\"b\": 1, \"a\": 2}");
    gives("{{ {'b': 1, 'a': 2} | json(indent=2) }}", "{\n  \"a\": 2,\n  \"b\": 1\n}");
    gives("{{ {'b': 1, 'a': [true, none]} | yaml }}", "{a: [true, null], b: 1}");
    gives("{{ {'b': 1, 'a': [1]} | yaml(False) }}", "a:\n- 1\nb: 1");
    gives(
        "{{ '' | default('z', boolean=True) }} {{ nope | default('d') }} {{ none | default('f') }}",
        "z d None",
    );
    gives("{{ 'aXbX' | replace('X', '-', 1) }} {{ 'aXbX' | replace('X', '-') }}", "a-bX a-b-");
    gives("{{ 'Aa' | regex_replace('a', 'x', ignorecase=True) }}", "xx");
    gives("{{ 'abc' | regex_search('(B)', ignorecase=True) }} {{ 'abc' | regex_match('b') }}", "('b',) None");
    gives("{{ ['B', 'a', 'b', 'a'] | unique }}", "['B', 'a', 'b']");
    gives("{{ 'abc' | sha1 }}", "a9993e364706816aba3e25717850c26c9cd0d89d");
    gives("{{ {'a': 1, 'b': [1]} | dict_to_sls_yaml_params }}", "- a: 1\n- b:\n  - 1");
    gives("{{ '192.168.0.0/30' | network_hosts }}", "['192.168.0.1', '192.168.0.2']");
    gives("{{ ['10.0.0.1', '::1', 'x'] | ipaddr }} {{ '10.0.0.1' | ipv6 }}", "['10.0.0.1', '::1'] None");
    gives("{{ 'foo bar' | method_call('replace', 'o', '0') }}", "f00 bar");
    gives("{{ 'a b&c/d' | urlencode }} {{ {'a': 'b c'} | urlencode }}", "a%20b%26c/d a=b+c");
    gives("{{ 'a' | path_join('b', '/c', 'd') }}", "a/b/c/d");
    gives("{{ {'a': {'b': [1, {'c': 2}]}} | traverse('a:b:1:c') }} {{ {} | traverse('x', 'd') }}", "2 d");
    gives("{{ 'web1' | check_whitelist_blacklist(whitelist='web*') }}", "True");
    gives("{{ [5] | random }} {{ 'x' | center(5) }}|", "5   x  |");
    gives(
        "{% set d = {'get': 1, 'k': 2} %}{% set e = {'k': 2} %}{{ e['get']('k') }} {{ e['items']() | list }}",
        "2 [('k', 2)]",
    );
}

#[test]
#[rule("S-49")]
fn s49_filter_by_knows_patterns_bases_and_empty_merges() {
    let map = "{'default': {'a': 1}, 'Deb*': {'a': 2}, 'x': 3}";
    gives(&format!("{{{{ salt['grains.filter_by']({map}) }}}}"), "{'a': 2}");
    gives(&format!("{{{{ salt['grains.filter_by']({map}, merge='') }}}}"), "{'a': 2}");
    gives(&format!("{{{{ salt['grains.filter_by']({map}, merge=None, base='default') }}}}"), "{'a': 2}");
    gives(
        &format!("{{{{ salt['grains.filter_by']({map}, grain='nope', merge={{'b': 1}}) }}}}"),
        "{'a': 1, 'b': 1}",
    );
    gives("{{ salt['grains.filter_by']({'w?b': 7}, grain='roles') }}", "7");
    gives("{{ salt['grains.filter_by']({'a': 1}, default='z') }}", "None");
}

#[test]
#[rule("S-49")]
fn s49_functions_of_formulas_are_answered() {
    gives(
        "{{ salt['slsutil.serialize']('yaml', {'b': 1, 'a': 2}, default_flow_style=False) }}",
        "a: 2\nb: 1",
    );
    gives("{{ salt['slsutil.merge']({'a': {'x': 1}}, {'a': {'y': 2}}) }}", "{'a': {'x': 1, 'y': 2}}");
    gives("{{ salt['defaults.merge']({'a': [1]}, {'a': [2]}, merge_lists=True) }}", "{'a': [1, 2]}");
    gives("{{ salt['file.dirname']('/a/b') }} {{ salt['file.basename']('/a/b') }}", "/a b");
    gives("{{ salt['cp.list_states']() }} {{ salt['cp.get_file_str']('salt://nope') }}", "['x'] False");
    gives("{{ salt['slsutil.renderer']('sub/d.yaml') }}", "{'a': 2}");
    gives("{{ salt['config.get']('app', {'name': 'd', 'z': 1}, merge='recurse').z }}", "1");
    gives("{{ salt['pillar.get']('app', {'z': 1}, merge=True) }}", "{'z': 1, 'port': 8080, 'name': 'shop'}");
    gives("{% do salt.log.debug('x') %}{{ salt['log.warning']('y') }}", "");
    gives(
        "{{ odict([('b', 1), ('a', 2)]) }} {{ dict([('k', 1)], z=2) }}",
        "{'b': 1, 'a': 2} {'k': 1, 'z': 2}",
    );
}

/// The page is made of the table: `ZESTER_WRITE_DOCS=1` writes it anew.
#[test]
#[rule("S-56")]
fn s56_the_page_for_those_who_come_from_salt_is_made_of_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coming-from-salt.md");
    let found = std::fs::read_to_string(path).unwrap();
    let (before, rest) = found.split_once("| what | in Salt |").unwrap();
    let behind = rest.split_once("\n\n").map_or(String::new(), |(_, behind)| format!("\n{behind}"));
    let wanted = zester_compile::differences::page(before, &behind);
    if std::env::var_os("ZESTER_WRITE_DOCS").is_some() {
        std::fs::write(path, &wanted).unwrap();
    } else {
        assert_eq!(found, wanted, "run this test with ZESTER_WRITE_DOCS=1");
    }
}

/// The kinds that a cell of the page names: what stands in backticks and is `module.function` or `module.*`.
fn kinds_in(cell: &str) -> Vec<&str> {
    let is_word = |part: &str| {
        part == "*" || !part.is_empty() && part.bytes().all(|it| it.is_ascii_lowercase() || it == b'_')
    };
    let is_kind = |text: &&str| {
        text.split_once('.').is_some_and(|(module, function)| is_word(module) && is_word(function))
    };
    cell.split('`').skip(1).step_by(2).filter(is_kind).collect()
}

#[test]
#[rule("S-56")]
fn s56_the_page_says_truly_which_kinds_there_are() {
    let page = include_str!("../../../../docs/coming-from-salt.md");
    let table = page.split_once("| there are |").and_then(|(_, rest)| rest.split_once("\n\n")).unwrap().0;
    let known: Vec<&str> = crate::fixture::catalog().names().collect();
    let has = |named: &str| match named.strip_suffix('*') {
        Some(module) => known.iter().any(|kind| kind.starts_with(module)),
        None => known.contains(&named),
    };
    let mut named = Vec::new();
    for row in table.lines().skip(2) {
        let (there, missing) = row.trim_matches('|').split_once(" |").unwrap_or((row, ""));
        for kind in kinds_in(there) {
            assert!(has(kind), "the page says that there is {kind}");
            named.push(kind);
        }
        // What is to be used instead stands behind a colon.
        for part in missing.split(';') {
            let (gone, instead) = part.split_once(':').unwrap_or((part, ""));
            kinds_in(gone)
                .iter()
                .for_each(|kind| assert!(!has(kind), "the page says that there is no {kind}"));
            kinds_in(instead).iter().for_each(|kind| assert!(has(kind), "the page advises {kind}"));
        }
    }
    for kind in known {
        let module = format!("{}.*", kind.split('.').next().unwrap_or(kind));
        let told = named.iter().any(|name| **name == *kind || **name == *module);
        assert!(told, "{kind} is missing from the table of docs/coming-from-salt.md");
    }
}

#[test]
#[rule("S-49")]
fn s49_a_managed_template_knows_its_source_and_is_named_by_its_path() {
    let tree = files(&[("web/a.j2", "")]);
    with_inputs(&tree, |inputs| {
        let text = "{{ source }} {{ tplfile }} {{ tpldir }} {{ opts.id }} {{ saltenv }}\n{{ nope }}";
        let none = serde_json::Map::new();
        let good = zester_compile::render(inputs, "salt://web/a.j2", text.split('\n').next().unwrap(), &none);
        assert_eq!(good.unwrap(), "salt://web/a.j2 web/a.j2 web web-01 base");
        let (sources, found) =
            zester_compile::render(inputs, "salt://web/a.j2?saltenv=base", text, &none).unwrap_err();
        assert_eq!(sources.place(found[0].span.unwrap()), "states/web/a.j2:2:4");
    });
}

#[test]
#[rule("S-49")]
fn s49_values_that_python_finds_untrue_are_as_good_as_not_given() {
    let text = "a:\n  file.managed:\n    - name: /a\n    - user: ''\n    - template: ''\n    - contents: ''\n    - makedirs: 1\n    - False\n";
    let compiled = asked(&[("c.sls", text)], "c");
    assert_eq!(messages(&compiled), Vec::<String>::new());
    let given: Vec<(&str, String)> = compiled.program.states[0]
        .params
        .iter()
        .map(|param| (param.name.as_str(), param.value.to_json().to_string()))
        .collect();
    assert_eq!(given, [("path", "\"/a\"".into()), ("content", "\"\"".into()), ("makedirs", "true".into())]);
    assert_eq!(codes(&compiled), ["stray_parameter", "needless_parameter", "needless_parameter"]);
    assert!(!messages(&asked(&[("c.zy", text)], "c")).is_empty());
    let none = "a:\n  pkg.installed:\n    - pkgs: []\n";
    assert_eq!(messages(&asked(&[("c.sls", none)], "c")), Vec::<String>::new());
    assert_eq!(messages(&asked(&[("c.zy", none)], "c")), ["`pkgs` of pkg.installed names nothing"]);
    let nobody = asked(&[("c.sls", "a:\n  pkg.installed:\n    - pkgs: [null, x]\n")], "c");
    assert_eq!(nobody.program.states[0].params[0].value.to_json(), serde_json::json!(["x"]));
}

#[test]
#[rule("S-49")]
fn s49_a_guard_without_a_function_asks_nothing_as_in_salt() {
    let text = "a:\n  test.nop:\n    - onlyif:\n      - {}\n      - host: x\n      - 'true'\n";
    let compiled = asked(&[("c.sls", text)], "c");
    assert_eq!(messages(&compiled), Vec::<String>::new());
    assert_eq!(compiled.program.states[0].attributes.onlyif, ["true"]);
    assert_eq!(codes(&compiled), ["stray_parameter", "stray_parameter"]);
    assert!(messages(&asked(&[("c.zy", text)], "c"))[0].contains("takes shell commands, not a map"));
}

#[test]
#[rule("S-49")]
fn s49_macros_see_what_a_call_gives_beyond_their_parameters() {
    gives("{% macro m(a) -%} {{ a }}{{ varargs | join('-') }} {%- endmacro -%}\n {{ m(1, 2, 3) }}", "12-3");
    gives(
        "{% macro m(a, b=[1, 2]) %}{{ a }}{{ b }}{{ kwargs }}{% endmacro %}{{ m(1, b=2, c=3) }}",
        "12{'c': 3}",
    );
    gives(
        "{% macro m() %}{{ varargs | length }}{{ kwargs.x }}{% endmacro %}{{ m(x='y') }}{{ m(0, x='z') }}",
        "0y1z",
    );
    gives("{% macro m(kwargs={}) %}{{ kwargs }}{% endmacro %}{{ m({'a': 1}) }}", "{'a': 1}");
    gives(
        "{% macro m(a) %}{{ caller() }}{{ varargs | length }}{% endmacro %}{% call m(1, 2) %}x{% endcall %}",
        "x1",
    );
}

#[test]
#[rule("S-49")]
fn s49_what_a_state_hands_to_others_counts_however_often_it_is_written() {
    let text = "a:\n  test.nop:\n    - require_in:\n      - b\n    - require_in:\n      - c\nb:\n  test.nop: []\nc:\n  test.nop: []\n";
    let found = states(&asked(&[("c.sls", text)], "c"));
    assert_eq!(found[1..], ["test.nop:b [require test.nop:a]", "test.nop:c [require test.nop:a]"]);
}

#[test]
#[rule("S-10")]
fn s10_nothing_for_a_default_is_one_that_was_given_and_nothing_is_not_iterable() {
    gives(
        "{{ salt['pillar.get']('no:x', None) }} {{ salt['grains.get']('no', default=None) }} {{ salt['pillar.get']('no:x') }}.",
        "None None .",
    );
    gives(
        "{{ none is iterable }} {{ [] is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }}",
        "False True True False",
    );
}
