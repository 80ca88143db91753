"""The kernels of benchmarks/fused.py make what the plain passes of the package make.

Triton interprets them where there is no GPU.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from momentmix.covariance import Zero, covariance_type
from momentmix.data.parameters import Parameters
from momentmix.likelihood.density import Density
from momentmix.likelihood.device import device_sums
from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import bilinear
from momentmix.support import array
from momentmix.tensors.rowsums import row_sums

FOLDER = Path(__file__).parents[1] / "benchmarks"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: Types, rows, features and components: less than a tile, and more than one in every direction.
SIZES = [("diag", 70, 3, 1), ("diag", 200, 70, 20), ("full", 130, 13, 17), ("tied", 65, 5, 3)]
CLOSE = {"rtol": 1e-10, "atol": 1e-12}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Triton is for Linux")


@pytest.fixture
def fused(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    import fused

    return fused


def mixture_of(kind, n, m, rng):
    A = rng.normal(size=(n, n))
    spread = covariance_type(kind).repeated(m, A @ A.T / n + np.eye(n))
    return Parameters(rng.dirichlet(np.ones(m)), rng.normal(size=(m, n)), spread)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("kind", "p", "n", "m"), SIZES)
def test_em_step(kind, p, n, m, dtype, fused, rng):
    X = torch.asarray(rng.normal(size=(p, n)).astype(dtype), device=DEVICE)
    own, w = covariance_type(kind), torch.asarray(rng.uniform(size=p), device=DEVICE)
    density = Density.of(own, mixture_of(kind, n, m, rng))
    for weights in (None, w):
        found, want = (sums(X, weights, own, density) for sums in (fused.em_sums, device_sums))
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, **CLOSE)


@pytest.mark.parametrize(("kind", "p", "n", "m"), SIZES[:3])
@pytest.mark.parametrize("orders", [[0.3, 1.0, 0.5, 0.2, 0.1], [0.0, 0.0, 0.0, 1.0]])
def test_data_term(kind, p, n, m, orders, fused, rng):
    X = torch.asarray(rng.normal(size=(p, n)) / n, device=DEVICE)
    at = mixture_of(kind, n, m, rng)
    P = Atoms(at.weights, at.means, covariance_type(kind).of(at.covariances, n)).on(X)
    found, want = fused.data_term(P, X, orders), bilinear(P, Atoms(1 / p, X, Zero(n)), orders, True)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a.cpu(), b.cpu(), **CLOSE)


@pytest.mark.parametrize(("n", "d"), [(3, 4), (12, 4), (5, 3), (7, 2)])
def test_moments(n, d, fused, rng):
    X, centre = torch.asarray(rng.normal(size=(150, n)), device=DEVICE), rng.normal(size=n)
    w = torch.asarray(rng.uniform(size=150), device=DEVICE)
    for weights in (None, w):
        found, want = (sums(X, centre, weights, d) for sums in (fused.moment_sums, row_sums))
        np.testing.assert_allclose(found, want, rtol=1e-10, atol=1e-10)


def test_any_layout_in_memory(fused, rng):
    """Rows along columns, every second row, parameters and weights of any stride."""
    wide = torch.asarray(rng.normal(size=(300, 10)), device=DEVICE)
    own, w = covariance_type("diag"), torch.asarray(rng.uniform(size=300), device=DEVICE)[::2]
    at = mixture_of("diag", 5, 3, rng)
    at = at._replace(means=np.asfortranarray(at.means), covariances=at.covariances.copy("F"))
    density = Density.of(own, at)
    for X in (wide[::2, ::2], wide[::2, :5], wide[:150, :5].T.contiguous().T):
        P = Atoms(at.weights, at.means, own.of(at.covariances, 5)).on(X)
        for found, want in (
            (fused.em_sums(X, w, own, density), device_sums(X, w, own, density)),
            (
                fused.data_term(P, X, [0.0, 1.0, 0.5]),
                bilinear(P, Atoms(1 / 150, X, Zero(5)), [0.0, 1.0, 0.5], True),
            ),
            ([fused.moment_sums(X, np.zeros(5), w, 3)], [row_sums(X, np.zeros(5), w, 3)]),
        ):
            for a, b in zip(found, want, strict=True):
                np.testing.assert_allclose(array.to_numpy(a), array.to_numpy(b), **CLOSE)


def test_spherical_covariances_are_refused(fused, rng):
    own = covariance_type("spherical")
    density = Density.of(own, mixture_of("spherical", 5, 3, rng))
    with pytest.raises(ValueError, match="spherical covariances see the sum of squares"):
        fused.em_sums(torch.zeros((20, 5), dtype=torch.float64), None, own, density)


def test_kernels_can_be_built_without_a_gpu():
    """All products are of the matrix units, in float64."""
    compiled = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, str(FOLDER / "fused.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=compiled)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "n=" in line]
    assert len(lines) == 10
    assert all("| m16n8k16 |" in line or "| m8n8k4 |" in line for line in lines)
    page = (FOLDER / "README.md").read_text(encoding="utf-8").splitlines()
    for line in lines:  # registers differ from release to release
        what, *_, made, moved, _ = (cell.strip() for cell in line.split("|")[1:])
        assert any(
            row.startswith(f"| {what} |") and row.endswith(f"| {made} | {moved} |") for row in page
        )
