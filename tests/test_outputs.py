"""Files that are written, whole or not at all, and what is found before the work."""

import os
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
