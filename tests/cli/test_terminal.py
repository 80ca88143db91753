"""Names from files never act on a terminal: as text in tables, titles, notes, errors and JSON."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest
from typer.testing import CliRunner

from momentmix import Mixture
from momentmix.cli import app
from momentmix.cli.console import visible

#: Clears the screen; the same as one character; turns the direction of what follows; a bell.
ACTING = ["\x1b[2J", "\x9b2J", "\u202e", "\x07"]
NAMES = [f"a{mark}b{i}" for i, mark in enumerate(ACTING)]
SEEN = ["a\\x1b[2Jb0", "a\\x9b2Jb1", "a\\u202eb2", "a\\x07b3"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = Mixture([1.0], [[0.0] * 4], [[1.0] * 4], "diag", feature_names=NAMES)
    model.save("model.json")
    X, _ = model.sample(50, 0)
    for name in ("data.csv", *(f"{mark}.csv" for mark in ACTING)):
        text = ",".join(NAMES) + "\n" + "\n".join(",".join(map(str, row)) for row in X) + "\n"
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "a[").mkdir()
    (tmp_path / "a[" / "b].csv").write_text((tmp_path / "data.csv").read_text("utf-8"), "utf-8")
    return tmp_path


def on_a_terminal(*arguments):
    """What a wide terminal gets, output and errors together, without rich's own colours."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 300, 0, 0))
    environment = os.environ | {"TERM": "dumb", "NO_COLOR": "1", "PYTHONUTF8": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "momentmix", *arguments],
        stdout=slave,
        stderr=slave,
        env=environment,
    )
    os.close(slave)
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the end of a terminal
            part = b""
        if not part:
            break
        shown += part
    os.close(master)
    return process.wait(), shown.decode()


def assert_harmless(text):
    assert not [mark for mark in ACTING if mark in text]
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "model.json"],
        ["show", "model.json", "--json"],
        ["fit", "data.csv", "-k", "1"],
        ["sample", "model.json", "-n", "2"],
        ["fit", "data.csv", "-k", "1", "--json"],
        ["fit", "data.csv", "-k", "1", "--columns", "z"],
        ["score", "model.json", "\x1b[2J.csv"],
        ["compare", "model.json", "\x9b2J.csv"],
        ["compare", "model.json", "\u202e.csv", "--json"],
        ["show", "\x07none.json"],
        ["predict", "model.json", "data.csv", "--columns", "\x1b[2J"],
        ["sample", "model.json", "-o", "\x1b[2J.csv"],
        ["moments", "data.csv", "-o", "\x1b[2J.npz"],
    ],
)
def test_nothing_acts(arguments, folder):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code in (0, 1)
    assert_harmless(done.output)


def test_what_is_seen_instead(folder):
    for code, shown in (
        on_a_terminal("show", "model.json"),
        on_a_terminal("sample", "model.json"),
        on_a_terminal("fit", "data.csv", "-k", "1", "--columns", "z"),
    ):
        assert code in (0, 1)
        assert_harmless(shown)
        assert all(seen in shown for seen in SEEN)
    shown = CliRunner().invoke(app, ["show", "model.json", "--json"]).stdout
    assert json.loads(shown)["feature_names"] == NAMES


def test_titles_and_errors_are_no_markup(folder):
    code, shown = on_a_terminal("compare", "model.json", "a[/b].csv")
    assert code == 0
    assert "model.json against a[/b].csv" in shown
    code, shown = on_a_terminal("show", "[red]:warning:[/x].json")
    assert code == 1
    assert "momentmix: [red]:warning:[/x].json: there is no such file" in shown


def test_names_come_through_a_pipe(folder):
    """Line ends in names are quoted in CSV, and stay; every other letter too."""
    names = ["two\nlines", "größe µ 漢字 👍"]
    model = Mixture([1.0], [[0.0, 1.0]], [[1.0, 1.0]], "diag", feature_names=names)
    model.save("names.json")
    done = CliRunner().invoke(app, ["sample", "names.json", "-n", "2"])
    assert done.stdout.startswith('"two\nlines",größe µ 漢字 👍\n')
    shown = CliRunner().invoke(app, ["show", "names.json"]).stdout
    assert shown.splitlines()[0].split("\t")[2::2] == ["two lines", "größe µ 漢字 👍"]


def test_every_character_of_the_kind():
    acting = [*range(32), *range(127, 160), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F),
              *range(0x2066, 0x206A), 0xD800, 0xDFFF]  # fmt: skip
    for code in acting:
        assert visible(chr(code)).isascii()
        assert visible(chr(code)).startswith("\\")
    plain = "".join(chr(code) for code in range(32, 127)) + "äµ漢👍\u200d\u00ad"
    assert visible(plain) == plain
