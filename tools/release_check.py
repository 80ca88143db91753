"""Is a release ready? ``make release-check``. Nothing is uploaded.

Builds the sdist and the wheel, checks what they hold and say, and installs the wheel into two empty
environments: without extras, where the first example of README.md has to run and the command has to
name the extra that it misses; and with the extras that README.md asks for, where all its examples
and its command run.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: What a release must hold, and what it must not.
IN_WHEEL = "momentmix/py.typed", "momentmix/report/page.html", "momentmix/__init__.py"
IN_SDIST = "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "src/momentmix/py.typed"
NEVER = re.compile(r"(^|/)(__pycache__|\.git|\.venv[^/]*|_build)/|\.pyc$")
#: A table for the command of README.md.
TABLE = """
import csv
from momentmix.datasets import load_quakes
X, names = load_quakes()
with open("penguins.csv", "w", newline="") as file:
    csv.writer(file).writerows([names, *X[:300].tolist()])
"""


def run(*command: object, fails: bool = False, **options: object) -> str:
    """What a command says; the check ends if it fails, or if it does not though it should."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    said = done.stdout + done.stderr
    if (done.returncode != 0) != fails:
        raise SystemExit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{said}")
    return said


def demand(holds: object, message: str) -> None:
    if not holds:
        raise SystemExit(message)


def check_contents(wheel: Path, sdist: Path) -> None:
    inside = zipfile.ZipFile(wheel).namelist()
    with tarfile.open(sdist) as file:
        names = [name.partition("/")[2] for name in file.getnames()]
    for wanted, found, where in ((IN_WHEEL, inside, wheel), (IN_SDIST, names, sdist)):
        missing, wrong = set(wanted) - set(found), [name for name in found if NEVER.search(name)]
        demand(not missing, f"{where.name} lacks {sorted(missing)}")
        demand(not wrong, f"{where.name} holds {wrong[:5]}")
    outside = [name for name in inside if not re.match(r"momentmix(-[^/]+\.dist-info)?/", name)]
    demand(not outside, f"{wheel.name} holds {outside[:5]}")
    print(f"contents: {len(inside)} files in the wheel, {len(names)} in the sdist")


def check_versions(version: str) -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    demand(f"\n## {version}" in changes, f"CHANGELOG.md has no head for {version}")
    demand(f"\nversion: {version}\n" in citation, f"CITATION.cff is not of {version}")
    if "(unreleased)" in changes.split(f"## {version}")[1].splitlines()[0]:
        print(f"to do on the day: the date of {version} in CHANGELOG.md and CITATION.cff")


def environment(folder: Path, wheel: Path, extras: str) -> Path:
    """An empty environment with the wheel in it, and nothing of this tree; its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = "-m", "pip", "install", "--quiet", "--disable-pip-version-check"
    run(python, *install, "-c", ROOT / "constraints.txt", f"{wheel}{extras}")
    return python


def main() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", readme, re.S | re.M)
    commands = re.findall(r"^momentmix .*$", readme, re.M)
    (extras,) = re.findall(r"pip install 'momentmix(\[[\w,]+\]) @", readme)
    demand(examples and commands, "README.md has no example or no command")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        run(sys.executable, "-m", "build", "--outdir", folder / "dist", ROOT)
        (wheel,), (sdist,) = (list((folder / "dist").glob(f"*.{e}")) for e in ("whl", "tar.gz"))
        print(run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist).strip())
        check_contents(wheel, sdist)
        check_versions(wheel.name.split("-")[1])
        for name, wanted in (("plain", ""), ("extras", extras)):
            work = folder / f"work-{name}"
            work.mkdir()
            python = environment(folder / name, wheel, wanted)
            command = python.parent / "momentmix"
            for example in examples if wanted else examples[:1]:
                run(python, "-c", example, cwd=work)
            run(python, "-c", TABLE, cwd=work)
            run(command, "--version", cwd=work)
            for line in commands:
                words = line.split()[1:]
                said = run(command, *words, cwd=work, fails=not wanted)
                demand(wanted or "pip install 'momentmix[" in said, f"names no extra: {said}")
            print(f"installed {wheel.name}{wanted}: examples and command as they should be")


if __name__ == "__main__":
    main()
