"""Runs one `#!py` file: what it needs comes over a socket, what it asks and answers goes the same way, a line each."""
import json
import socket
import sys
import traceback

wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
wire.connect(sys.argv[1])
lines = wire.makefile("r", encoding="utf-8", newline="\n")


def plain(value):
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if hasattr(value, "items"):
        return dict(value.items())
    return str(value)


def say(message):
    wire.sendall((json.dumps(message, default=plain) + "\n").encode("utf-8"))


class Functions:
    """`__salt__`."""

    def __init__(self, names):
        self.names = names

    def __contains__(self, name):
        return name in self.names

    def __iter__(self):
        return iter(sorted(self.names))

    def get(self, name, default=None):
        return self[name] if name in self.names else default

    def __getitem__(self, name):
        if name not in self.names:
            raise KeyError(name)

        def call(*bare, **named):
            say({"call": name, "bare": bare, "named": named})
            answer = json.loads(lines.readline())
            if "failed" in answer:
                raise RuntimeError(answer["failed"])
            return answer["answer"]

        return call


def main():
    program = json.loads(lines.readline())
    known = {"__name__": "zester_py", "__file__": program["shown"]}
    functions = Functions(set(program["names"]))
    for name, value in (
        ("salt", functions),
        ("grains", program["facts"]),
        ("pillar", program["settings"]),
        ("opts", {"id": program["id"], "saltenv": program["variables"]["saltenv"], "test": False}),
        ("env", program["variables"]["saltenv"]),
        ("sls", program["variables"]["sls"]),
    ):
        known["__%s__" % name] = known[name] = value
    known.update((name, value) for name, value in program["variables"].items() if name not in known)
    try:
        code = compile(program["text"], program["shown"], "exec")
        exec(code, known)
        if "run" not in known:
            raise NameError("there is no function run() in it")
        say({"answer": known["run"]()})
    except BaseException as problem:
        at = getattr(problem, "lineno", None)
        for frame in traceback.extract_tb(problem.__traceback__):
            if frame.filename == program["shown"]:
                at = frame.lineno
        what = "%s: %s" % (type(problem).__name__, getattr(problem, "msg", None) or problem)
        say({"failed": what, "line": at})
    lines.readline()


main()
