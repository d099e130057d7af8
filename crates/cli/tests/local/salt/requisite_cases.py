"""Runs the requisite cases of a checkout of Salt against zester.

python3 requisite_cases.py CHECKOUT ZESTER

The cases are functions for pytest that ask a minion and compare what it answers. Here the minion is zester, and pytest is the
few words of it that they use. Prints a JSON map: what became of each case, "same" or what was not as in Salt.

Comments of states are not compared: they are the words of another program.
"""
import contextlib
import importlib.util
import inspect
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import types

CHECKOUT, ZESTER = sys.argv[1:3]
CASES = pathlib.Path(CHECKOUT) / "tests/pytests/functional/modules/state/requisites"


class Comment(str):
    """Equal to any other, and it says that a requisite failed where one did."""

    def __contains__(self, asked):
        return str.__eq__(self, "require_failed") if "requisite failed" in asked else str.__contains__(self, asked)

    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    __hash__ = str.__hash__


class Errors(list):
    """Equal to any other list of errors."""

    def __eq__(self, other):
        return bool(self) == bool(other)


class Anything:
    """What a change consists of is not compared."""

    def __getitem__(self, _):
        return self

    def __eq__(self, other):
        return True


class Changes(dict):
    """What changed: that something did."""

    def __getitem__(self, key):
        return Anything() if self else dict.__getitem__(self, key)

    def __contains__(self, key):
        return bool(self) and key != "Requisites with changes"

    def __eq__(self, other):
        return bool(self) == bool(other)

    def __ne__(self, other):
        return not self == other


class Tags:
    """Asked for a tag of Salt's, `cmd_|-ID_|-NAME_|-run`, finds the state of zester's."""

    def __init__(self, states):
        self.states = states

    def find(self, tag):
        parts = tag.split("_|-")
        for name, one in self.states.items():
            kind, identity = name.split(":", 1)
            if len(parts) != 4:
                if identity == tag:
                    return one
            elif kind == parts[0] + "." + parts[3] and identity in parts[1:3]:
                return one
        raise KeyError(tag)

    def __contains__(self, tag):
        try:
            self.find(tag)
        except KeyError:
            return False
        return True

    def __getitem__(self, tag):
        return self.find(tag)

    def values(self):
        return self.states.values()


class One:
    """What became of one state."""

    def __init__(self, name, told, number, test):
        self.name = name
        self.told = told
        self.failed = bool(told["error"]) or told["skip_reason"] in ("require_failed", "failhard")
        self.result = not self.failed
        if test and told["changed"]:
            self.result = None
        acted = told["changed"] or "touched" in told["details"]
        self.changes = Changes({"changed": True} if acted else {})
        self.comment = Comment(told["error"] or told["skip_reason"])
        self.full_return = {
            "__run_num__": number,
            "__parallel__": True,
            "__state_ran__": not told["skipped"],
            "changes": self.changes,
            "comment": self.comment,
            "duration": told["duration_ms"],
            "result": self.result,
        }
        self.raw = Tags({name: self})

    def __getitem__(self, key):
        return self.full_return[key]

    def __contains__(self, key):
        return key in self.full_return

    def __str__(self):
        why = f" ({self.comment})" if str.__len__(self.comment) else ""
        return f"{self.name}: {self.result}, {'changed' if self.changes else 'no change'}{why}"


class Answer(Tags):
    """What a run told."""

    def __init__(self, document, test):
        self.failed = "error" in document
        self.errors = Errors(error["message"] for error in document.get("errors", []))
        told = sorted(document.get("states", {}).items(), key=lambda item: item[1]["level"])
        super().__init__({name: One(name, one, at, test) for at, (name, one) in enumerate(told)})

    @property
    def raw(self):
        return self

    def find(self, tag):
        if self.failed:
            raise AssertionError(str(self))
        return super().find(tag)

    def only(self):
        if self.failed:
            raise AssertionError(str(self))
        return next(iter(self.states.values()))

    result = property(lambda self: self.only().result)
    changes = property(lambda self: self.only().changes)
    comment = property(lambda self: self.only().comment)

    def __iter__(self):
        return iter(self.states.values())

    def __eq__(self, other):
        return isinstance(other, list) and self.failed

    def __str__(self):
        if self.failed:
            return "refused: " + "; ".join(self.errors)
        return "; ".join(str(one) for one in self)


class Normalized:
    """Compared with what Salt's case expects of every state, and the order of their runs."""

    def __init__(self, answer):
        self.answer = answer

    def __eq__(self, expected):
        wrong = []
        for tag, told in expected.items():
            one = self.answer.find(tag)
            if (one.result, bool(one.changes)) != (told["result"], told["changes"]):
                wrong.append(f"{one}; in Salt {told['result']}, {'changed' if told['changes'] else 'no change'}")
        if len(expected) != len(self.answer.states):
            wrong.append(f"{len(self.answer.states)} states, in Salt {len(expected)}")
        tags = sorted(expected, key=lambda tag: expected[tag]["__run_num__"])
        order = [self.answer.find(tag)["__run_num__"] for tag in tags]
        if order != sorted(order):
            wrong.append("in another order")
        if wrong:
            raise AssertionError("; ".join(wrong))
        return True


class Minion:
    """`state.sls` and its kin, by zester. States that nothing else orders go down the page, as in Salt."""

    def __init__(self, tree, data):
        self.tree, self.data, self.last = tree, data, ""

    def run(self, word, references, test=False):
        words = [ZESTER, word, *references, "--states", self.tree, "--data-dir", self.data]
        done = subprocess.run(
            [str(part) for part in words] + ["--format", "json", "--ordered"],
            capture_output=True,
            text=True,
            env={**os.environ, "NO_COLOR": "1"},
        )
        if not done.stdout.strip():
            raise AssertionError("no answer: " + done.stderr)
        self.last = Answer(json.loads(done.stdout), test)
        return self.last

    def sls(self, mods, test=None, **_):
        return self.run("check" if test else "apply", mods.split(","), test=bool(test))

    apply = sls

    def single(self, fun=None, name=None, **given):
        items = [{"name": name}] + [{key: value} for key, value in given.items()]
        with temp_file("single.sls", json.dumps({"single": {fun: items}}), self.tree):
            return self.run("apply", ["single"])


@contextlib.contextmanager
def temp_file(name, contents, directory):
    path = pathlib.Path(directory) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(contents))
    yield path
    path.unlink()


FIXTURES = {}


def fixture(*args, **_):
    def put(function):
        FIXTURES[function.__name__] = function
        return function

    return put(args[0]) if args and callable(args[0]) else put


class Mark:
    """`pytest.mark`: only parameters and what Salt itself skips are of interest."""

    def __getattr__(self, word):
        def mark(*args, **_):
            def put(function):
                if word == "skip":
                    function.skipped = True
                if word == "parametrize":
                    names = [name.strip() for name in args[0].split(",")] if isinstance(args[0], str) else args[0]
                    rows = [row if len(names) > 1 else [row] for row in args[1]]
                    function.rows = [dict(zip(names, row)) for row in rows]
                return function

            return put(args[0]) if word != "parametrize" and args and callable(args[0]) else put

        return mark


class Stub(types.ModuleType):
    """Salt's own modules: the cases import them, and those that are run do not need them."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(name)

    def __call__(self, *_, **__):
        return False


class Stubs:
    @staticmethod
    def find_spec(name, *_):
        if name.split(".")[0] in ("salt", "saltfactories", "tests"):
            return importlib.util.spec_from_loader(name, Stubs, is_package=True)
        return None

    @staticmethod
    def create_module(spec):
        return Stub(spec.name)

    @staticmethod
    def exec_module(_):
        pass


def prepare():
    pytest = types.ModuleType("pytest")
    pytest.mark, pytest.fixture, pytest.param = Mark(), fixture, lambda *args, **_: args
    pytest.helpers = types.SimpleNamespace(
        temp_file=temp_file,
        shell_test_true=lambda: "test 5 -eq 5",
        shell_test_false=lambda: "test 5 -eq 6",
    )
    package = types.ModuleType("requisites")
    package.__path__, package.normalize_ret = [str(CASES)], Normalized
    sys.modules.update(pytest=pytest, requisites=package)
    sys.meta_path.insert(0, Stubs)


def value_of(name, known, unfinished):
    if name not in known:
        function = FIXTURES[name]
        value = function(**{of: value_of(of, known, unfinished) for of in inspect.signature(function).parameters})
        if inspect.isgenerator(value):
            unfinished.append(value)
            value = next(value)
        known[name] = value
    return known[name]


def judge(function, row, path):
    with tempfile.TemporaryDirectory(prefix="requisite") as scratch:
        scratch, unfinished = pathlib.Path(scratch), []
        tree = scratch / "tree"
        tree.mkdir()
        minion = Minion(tree, scratch / "data")
        known = {"state": minion, "state_tree": tree, "tmp_path": scratch, "loaders": None, **row}
        known["modules"] = types.SimpleNamespace(state=minion)
        # Some ask the module itself.
        function.__globals__["state_mod"] = minion
        try:
            function(**{name: value_of(name, known, unfinished) for name in inspect.signature(function).parameters})
        except Exception as error:  # Whatever a case raises is its verdict.
            trace, line = error.__traceback__, 0
            while trace:
                own = trace.tb_frame.f_code.co_filename.endswith(path.name)
                line = trace.tb_lineno if own else line
                trace = trace.tb_next
            return f"line {line}: {type(error).__name__} {error}; {minion.last}"
        return "same"


def main():
    prepare()
    verdicts = {}
    for path in sorted(CASES.glob("test_*.py")):
        FIXTURES.clear()
        spec = importlib.util.spec_from_file_location("requisites." + path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, function in list(vars(module).items()):
            if not name.startswith("test_") or not callable(function):
                continue
            rows = getattr(function, "rows", [{}])
            for number, row in enumerate(rows):
                case = f"{path.stem}::{name}" + (f"[{number}]" if len(rows) > 1 else "")
                skipped = getattr(function, "skipped", False)
                verdicts[case] = "skipped by Salt" if skipped else judge(function, row, path)
    json.dump(verdicts, sys.stdout, indent=1)


main()
