"""Files that are written, whole or not at all, and what is found before the work."""

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from momentmix import Mixture
from momentmix.cli import app

MODEL = Mixture([1.0], [[0.0, 1.0]], [[1.0, 2.0]], "diag", feature_names=["a", "b"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    MODEL.save("model.json")
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,5\n2,2\n4,4\n")
    return tmp_path


def python(code, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        **options,
    )


def momentmix(*arguments, **options):
    code = "import sys; from momentmix.cli import main; sys.argv[0] = 'momentmix'; main()"
    return python(code, *arguments, **options)


def shell(line, given=None, **environment):
    """A line for the shell, in which patterns are left to the command."""
    script = f'set -f; momentmix() {{ "{sys.executable}" -m momentmix "$@"; }}; {line}'
    with open(given or os.devnull) as stream:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", script],
            stdin=stream,
            capture_output=True,
            text=True,
            errors="replace",
            env=os.environ | environment,
        )


def test_permissions_and_links_stay(folder):
    (folder / "far").mkdir()
    (folder / "far" / "real.json").write_text("old")
    os.chmod("far/real.json", 0o600)
    os.symlink("far/real.json", "link.json")
    MODEL.save("link.json")
    assert os.path.islink("link.json")
    assert stat.S_IMODE(os.stat("far/real.json").st_mode) == 0o600
    assert Mixture.load("far/real.json").n_features == 2
    os.symlink("far/new.json", "dangling.json")
    MODEL.save("dangling.json")
    assert Mixture.load("far/new.json").n_features == 2
    assert stat.S_IMODE(os.stat("far/new.json").st_mode) == 0o666 & ~_umask()
    assert sorted(os.listdir("far")) == ["new.json", "real.json"]


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


KILLED = """
import sys, time
from momentmix.files.writing import written_whole
with written_whole(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    time.sleep(600)
"""


def test_what_a_killed_writer_leaves_is_removed_by_the_next(folder):
    """And nothing of a writer that still runs, nor of another file."""
    writers = [
        subprocess.Popen([sys.executable, "-c", KILLED, "m.json"], stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    for writer in writers:
        writer.stdout.readline()
    writers[0].send_signal(signal.SIGKILL)
    writers[0].communicate()
    (folder / "other.json.part").write_text("mine")
    assert len(list(folder.glob("m.json.*.part"))) == 2
    MODEL.save("m.json")
    assert [str(writers[1].pid) in part.name for part in folder.glob("m.json.*.part")] == [True]
    writers[1].kill()
    writers[1].communicate()
    MODEL.save("m.json")
    assert list(folder.glob("*.part")) == [folder / "other.json.part"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "data.csv", "-k", "1", "-o", "{}.json"],
        ["fit", "data.csv", "-k", "1", "--report", "{}.html"],
        ["predict", "model.json", "data.csv", "-o", "{}.csv"],
        ["score", "model.json", "data.csv", "-o", "{}.npy"],
        ["sample", "model.json", "-o", "{}.parquet"],
        ["moments", "data.csv", "-o", "{}.npz"],
    ],
)
def test_outputs_that_cannot_be_are_found_before_the_work(arguments, folder):
    """Before any input is read: here there is none that could be."""
    arguments = [word.format("out") for word in arguments]
    out = Path(arguments[-1])
    os.remove("data.csv")
    os.remove("model.json")
    out.mkdir()
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert done.stderr == f"momentmix: {out} is a folder; give the name of a file in it\n"
    out.rmdir()
    os.mkfifo(out)
    done = CliRunner().invoke(app, arguments)
    assert done.stderr == f"momentmix: {out} is neither a file nor a folder\n"
    assert os.listdir() == [str(out)]


AS_NOBODY = """
import os, sys
from momentmix.files.writing import check_writable
if os.getuid() == 0:  # to whom nothing is read-only
    os.setuid(65534)
try:
    check_writable(sys.argv[1])
except OSError as error:
    print(error)
"""


def test_what_is_read_only_is_found_before_the_work():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "m.json"
        file.write_text("kept")
        file.chmod(0o444)
        os.chmod(folder, 0o777)
        assert python(AS_NOBODY, file).stdout == f"{file} is read-only\n"
        new = Path(folder) / "new.json"
        assert python(AS_NOBODY, new).stdout == ""
        os.chmod(folder, 0o555)
        done = python(AS_NOBODY, new)
        assert done.stdout.endswith(f"Permission denied: '{new}'\n")
        os.chmod(folder, 0o755)
        assert os.listdir(folder) == ["m.json"]


def test_a_checkpoint_that_cannot_be_written_is_found_before_the_work(folder):
    os.mkdir("m.npz.checkpoint")
    done = CliRunner().invoke(app, ["moments", "data.csv", "-o", "m.npz"])
    assert done.exit_code == 1
    assert "m.npz.checkpoint is a folder" in done.stderr


LITTLE_DISK = """
import resource, sys
from momentmix.cli import main
import pyarrow.parquet
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
sys.argv[0] = "momentmix"
main()
"""


@pytest.mark.parametrize("ending", ["csv", "npy", "parquet", "arrow"])
def test_a_full_disk_is_said_with_the_name_of_the_file(ending, folder):
    done = python(LITTLE_DISK, "sample", "model.json", "-n", 5000, "-o", f"out.{ending}")
    assert done.returncode == 1
    assert f"File too large: 'out.{ending}'\n" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert sorted(os.listdir()) == ["data.csv", "model.json"]


def test_a_full_disk_at_a_checkpoint(folder):
    np.save("wide.npy", np.random.default_rng(0).normal(size=(100, 10)))
    done = python(LITTLE_DISK, "moments", "wide.npy", "-o", "m.npz")
    assert done.returncode == 1
    assert "File too large: 'm.npz" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize(
    "arguments",
    [
        ["show", "model.json"],
        ["show", "model.json", "--json"],
        ["sample", "model.json", "-n", "3000"],
        ["moments", "data.csv", "-o", "m.npz"],
    ],
)
def test_a_full_standard_output(arguments, folder):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "momentmix", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 1
    message = "momentmix: [Errno 28] No space left on device: 'standard output'\n"
    assert done.stderr == message


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_help_that_cannot_be_written(folder):
    done = shell("momentmix --help >/dev/full")
    assert done.returncode == 1
    assert done.stderr == "momentmix: [Errno 28] No space left on device\n"


# Outputs that are inputs.


@pytest.fixture
def inputs(folder):
    """The table of the folder and its model under other names, and tables in a folder."""
    for name in ("data", "model"):
        source = "data.csv" if name == "data" else "model.json"
        for ending in ("csv", "json", "html", "npz", "png"):
            if not os.path.exists(f"{name}.{ending}"):
                os.link(source, f"{name}.{ending}")
            os.symlink(f"{name}.{ending}", f"{name}-link.{ending}")
    (folder / "parts" / "within").mkdir(parents=True)
    for name in ("part-0.csv", "part-1.csv", "within/part-2.csv"):
        (folder / "parts" / name).write_text((folder / "data.csv").read_text())
    os.symlink("parts", "linked")
    return folder


def everything(folder):
    return {p: (p.stat().st_ino, p.read_bytes()) for p in folder.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    "line",
    [
        "predict model.json data.csv -o data.csv",
        "predict model.json ./data.csv -o parts/../data.csv",
        "predict model.json data.csv -o data-link.csv",
        "predict model.json data-link.csv -o data.csv",
        "predict model.json data.csv --proba --json -o data.csv",
        "predict model.json data.csv -o model.csv",
        "predict model.json data.json -o data.csv",
        "score model.json data.csv -o data.csv",
        "score model.json data.csv -o model-link.csv",
        "impute model.json data.csv -o data.csv",
        "sample model.json -o model.csv",
        "sample model.json --like data.csv -o data-link.csv",
        "fit data.json -k 1 -o data.json",
        "fit data.csv -k 1 -o data-link.json",
        "fit data.csv -k 1 --report data.html",
        "select data.csv -k 1 --save data.json",
        "select data.csv -k 1 --picture data-link.png",
        "moments data.csv -o data.npz",
        "fit parts -k 1 -o data.json data.csv",
        "predict model.json parts -o parts/labels.csv",
        "predict model.json parts -o linked/labels.csv",
        "predict model.json linked -o parts/within/labels.parquet",
        "predict model.json parts/*.csv -o parts/labels.csv",
        "predict model.json linked/*.csv -o parts/labels.csv",
        "predict model.json par*/*.csv -o parts/labels.csv",
        "predict model.json parts/**/*.csv -o parts/within/labels.csv",
        "predict model.json parts/** -o parts/within/labels.npy",
        "predict model.json part[s] -o parts/within/labels.csv",
        "predict model.json parts/part-*.csv -o parts/part-1.csv",
        "predict model.json 'duckdb:SELECT * FROM \"data.json\"' -o data.csv",
        "predict model.json \"duckdb:FROM 'parts/*.csv'\" -o parts/part-1.csv",
        "predict model.json \"duckdb:FROM 'parts/*.csv'\" -o parts/new.csv",
    ],
)
def test_no_output_is_an_input(line, inputs):
    """By whatever name, link or pattern; nor a table that would be read with the others then."""
    before = everything(inputs)
    done = CliRunner().invoke(app, shlex.split(line))
    assert done.exit_code == 1
    assert "this file is read" in done.stderr or "would be one of the tables" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert everything(inputs) == before


def test_no_checkpoint_is_an_input(inputs):
    os.link("data.csv", "m.npz.checkpoint")
    done = CliRunner().invoke(app, ["moments", "data.csv", "-o", "m.npz"])
    assert "m.npz.checkpoint: this file is read (data.csv)" in done.stderr


def test_standard_streams_are_files_too(inputs):
    before = everything(inputs)
    done = shell("momentmix predict model.json data.csv >>data.csv")
    assert done.stderr == (
        "momentmix: standard output: this file is read (data.csv); write to another one\n"
    )
    done = shell("momentmix predict model.json - -o data.csv <data-link.csv")
    assert done.stderr == "momentmix: data.csv: this file is read (-); write to another one\n"
    for line in (
        "show model.json >>model.json",
        "compare model.json data.csv >>data.csv",
        "fit data.csv -k 1 -o new.json >>data-link.csv",
        "moments data.csv -o m.npz >>data.csv",
    ):
        done = shell(f"momentmix {line}")
        assert "standard output: this file is read" in done.stderr, line
    assert everything(inputs) == before


@pytest.mark.parametrize(
    "line",
    [
        "fit parts -k 1 -o parts/model.json",
        "predict model.json parts/part-*.csv -o parts/labels.csv",
        "predict model.json parts -o parts/_labels.csv",
        "predict model.json 'parts/part-?.csv' -o parts/within/part-3.csv",
        "predict model.json data.csv -o old.csv",
    ],
)
def test_other_files_beside_the_inputs_are_written(line, inputs):
    (inputs / "old.csv").write_text("old")
    output = line.split()[-1]
    assert CliRunner().invoke(app, shlex.split(line)).exit_code == 0
    assert Path(output).stat().st_size > 3


# Streams that are closed, or take few characters.


@pytest.mark.parametrize(
    "line",
    [
        "show model.json >&-",
        "show model.json --json <&- >&- 2>&-",
        "predict model.json data.csv >&-",
        "sample model.json -o out.csv >&- 2>&-",
        "--version >&-",
    ],
)
def test_closed_streams(line, folder):
    done = shell(f"momentmix {line}")
    assert (done.returncode, done.stderr) == (0, "")
    if "out.csv" in line:
        assert Path("out.csv").read_text().startswith("a,b\n")


def test_closed_standard_input_and_error(folder):
    done = shell("momentmix fit - -k 1 <&-")
    assert done.stderr == "momentmix: standard input: nothing came\n"
    assert shell("momentmix show none.json >&- 2>&- <&-").returncode == 1


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
    ],
)
def test_streams_that_take_few_characters(environment, folder):
    """What they cannot take is replaced; JSON has a way to write it."""
    named = Mixture([1.0], [[0.0, 1.0]], [[1.0, 2.0]], "diag", feature_names=["größe", "☃"])
    named.save("model.json")
    (folder / "data.csv").write_text("größe,☃,x\n1,2,…\n3,5,…\n2,2,…\n4,4,…\n")
    done = shell("momentmix show model.json --json", **environment)
    assert json.loads(done.stdout)["feature_names"] == ["größe", "☃"]
    done = shell("momentmix fit data.csv -k 1 | head -1", **environment)
    assert done.stdout.startswith("component\tweight\tgr")
    assert (done.returncode, "codec" in done.stderr) == (0, False)
