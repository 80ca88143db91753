import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from momentmix import demo

ROOT = Path(__file__).parents[1]


def test_demo_prints_and_draws(tmp_path, capsys):
    demo.main(str(tmp_path))
    out = capsys.readouterr().out
    assert "0.6622400000    0.6622400000" in out
    assert (tmp_path / "moments.png").stat().st_size > 20_000


def test_errors_shrink_at_the_rate_of_the_square_root(rng):
    mixture = demo.Mixture(demo.WEIGHTS, demo.MEANS, demo.COVARIANCES)
    error = demo.errors(mixture, demo.dense_moment(mixture, 3), None, rng)
    assert abs(demo.slope(error) + 0.5) < 0.06
    noisy = demo.Mixture(demo.WEIGHTS, demo.MEANS, demo.NOISE, "tied")
    clean = demo.Mixture(demo.WEIGHTS, demo.MEANS, np.zeros(3), "spherical")
    error = demo.errors(noisy, demo.dense_moment(clean, 3), demo.NOISE, rng)
    assert abs(demo.slope(error) + 0.5) < 0.06


def test_benchmarks_run_in_their_quick_form():
    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--quick"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert out.count("| ×") == 5
    assert out.count("exponent") == 6


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=lambda p: p.name)
def test_code_in_the_markdown_runs(path, tmp_path, monkeypatch):
    """Each fenced block of Python runs after the ones before it in the same file."""
    blocks, inside = [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = line.strip() == "```python"
        elif inside:
            blocks.append(line)
    script = tmp_path / "script.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script))
