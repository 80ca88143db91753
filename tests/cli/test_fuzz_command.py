"""Command lines nobody would type: an answer, or an error of one line, and never a traceback."""

import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from typer.testing import CliRunner

from fuzzing import CSV, MIXTURE, ROWS, TENSORS, fuzz
from momentmix import Mixture
from momentmix.cli import app

FOLDER = tempfile.TemporaryDirectory(prefix="momentmix-fuzz-")
WORK = Path(FOLDER.name)


def _work_folder():
    MIXTURE.save(WORK / "model.json")
    Mixture([1.0], [[0.0, 0.0]], [[0.0, 1e-320]], "diag").save(WORK / "flat.json")
    MIXTURE.named(["\x1b[31m", "[/b]"]).save(WORK / "odd.json")
    (WORK / "data.csv").write_text(CSV)
    (WORK / "bom.csv").write_bytes(b"\xef\xbb\xbf\n")
    (WORK / "\x1b[2Jname.csv").write_text(CSV)
    np.save(WORK / "data.npy", ROWS)
    np.save(WORK / "same.npy", np.ones((5, 2)))
    np.save(WORK / "huge.npy", ROWS * 1e300)
    (WORK / "a[").mkdir()
    np.save(WORK / "a[" / "b].npy", ROWS)
    TENSORS.save(WORK / "m.npz")
    (WORK / "folder.json").mkdir()


_work_folder()
INPUTS = [
    *sorted(os.listdir(WORK)),
    *("a[/b].npy", "nothing.csv", "-", "", ".", "a" * 300 + ".csv"),
]
OUTPUTS = [
    f"out{i}{e}" for i, e in enumerate([".json", ".html", ".csv", ".npy", ".parquet", ".npz"])
]
OUTPUTS += ["folder.json", "no/out.json", "out", "", "b" * 250 + ".csv", "/dev/full", "\x1b.csv"]
NASTY = [
    *(
        "",
        "0",
        "-1",
        "1",
        "2",
        "3",
        "1.5",
        "99999999999999999999",
        "1" * 5000,
        "nan",
        "inf",
        "auto",
    ),
    *(
        "1e400",
        "-",
        "--",
        "'",
        "\x1b[31m",
        "[/b]",
        "a,b",
        "b",
        "0,1",
        '"',
        "a,a",
        "\u202e",
        "\ud800",
    ),
]
OPTIONS = {
    "fit": {
        "-k": ["1", "2", "3", "auto"],
        "-o": OUTPUTS,
        "--report": OUTPUTS,
        "--covariance": ["full", "tied", "diag", "spherical", "tied-diag", "tied-spherical"],
        "--order": ["3", "5", "10000000"],
        "--columns": ["a,b", "a", "0,1"],
        "--prior": ["auto", "none", "cv", "3"],
        "--goal": ["density", "clusters"],
        "--missing": ["keep", "drop", "error"],
        "--errors": ["b", "a=b", "*b", "0=1"],
        "--seed": ["3"],
        "--json": None,
    },
    "predict": {"-o": OUTPUTS, "--proba": None, "--columns": ["a,b", "b,a"], "--json": None},
    "score": {"-o": OUTPUTS, "--columns": ["a,b"], "--errors": ["a,b", "a=b"], "--json": None},
    "impute": {"-o": OUTPUTS, "--draws": ["2"], "--seed": ["1"], "--errors": ["a,b", "0=1"]},
    "sample": {"-n": ["5", "10000000000000"], "-o": OUTPUTS, "--labels": None, "--seed": ["1"]},
    "moments": {
        "-o": OUTPUTS,
        "--order": ["2", "4", "10000000"],
        "--columns": ["a", "0"],
        "--missing": ["pairwise", "error"],
    },
    "compare": {"--order": ["2", "20", "21", "10000000"], "--columns": ["a"], "--json": None},
    "show": {"--json": None},
}


@st.composite
def command_lines(draw):
    command = draw(st.sampled_from(sorted(OPTIONS)))
    known = OPTIONS[command]
    words = [command]
    if command in ("predict", "score", "impute", "sample", "show"):
        words.append(draw(st.sampled_from(["model.json"] * 3 + INPUTS)))
    if command not in ("sample", "show"):
        words += draw(st.lists(st.sampled_from(["data.csv"] * 3 + INPUTS), min_size=1, max_size=2))
    if command == "fit":
        words += ["-k", draw(st.sampled_from(known["-k"] * 3 + NASTY))]
    if command == "moments":
        words += ["-o", draw(st.sampled_from(["out5.npz"] * 3 + OUTPUTS))]
    for option in draw(st.lists(st.sampled_from(sorted(known)), max_size=3)):
        words.append(option)
        if known[option] is not None:
            words.append(draw(st.sampled_from(known[option] * 2 + NASTY)))
    return words


def acting(text):
    """Characters that a terminal would take for commands."""
    return [
        c
        for c in text
        if (ord(c) < 32 and c not in "\n\t\r") or 127 <= ord(c) < 160 or c == "\u202e"
    ]


@fuzz(command_lines(), 60)
def test_command_lines(words):
    before = os.getcwd()
    os.chdir(WORK)
    try:
        warnings.simplefilter("default")  # pytest's own, which sees to it that they are set back
        done = CliRunner().invoke(app, words, input=CSV)
    finally:
        os.chdir(before)
    assert done.exit_code in (0, 1, 2), (words, done.output, done.exception)
    assert "Traceback" not in done.output
    assert not acting(done.output), (words, done.output)
    if done.exit_code == 1:
        assert done.stderr.splitlines()[-1].startswith("momentmix: "), done.stderr
        assert "internal error" not in done.stderr
