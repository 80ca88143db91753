"""The third moment of the mixture of §7.1 and §7.2, three ways, and its 1/√p convergence.

``make demo`` runs it after ``momentmix demo``; ``accuracy.py`` measures the same with more data.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from momentmix import Mixture, Samples, contract, dense_moment, inner
from momentmix.plotting import plot_density

#: The weights of the mixture of §7.1 of the paper.
WEIGHTS = [0.4, 0.3, 0.3]
#: Its means.
MEANS = [[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]
#: Its covariances.
COVARIANCES = [[[0.4, 0.0], [0.0, 0.3]], [[0.2, 0.1], [0.1, 0.5]], [[0.4, 0.25], [0.25, 0.3]]]
#: The covariance of the known noise of §7.2.
NOISE = [[0.4, 0.2], [0.2, 0.3]]
#: The numbers of samples, half a power of ten apart. A choice of convenience for this demo.
SIZES = [100, 316, 1000, 3162, 10_000, 31_623, 100_000, 316_228, 1_000_000]
#: The number of data sets for each number of samples. A choice of convenience for this demo.
REPEATS = 8


def errors(
    mixture: Mixture,
    target: np.ndarray,
    noise: list[list[float]] | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """‖M̂^(3) - target‖ for each number of samples; one row for each data set."""
    result = np.empty((REPEATS, len(SIZES)))
    for r in range(REPEATS):
        X, _ = mixture.sample(SIZES[-1], rng)
        for i, p in enumerate(SIZES):
            estimate = dense_moment(Samples(X[:p], noise_covariance=noise), 3)
            result[r, i] = np.linalg.norm(estimate - target)
    return result


def slope(error: np.ndarray) -> float:
    """The exponent of the error as a power of the number of samples, from all data sets."""
    return float(np.polyfit(np.log(SIZES), np.log(error).mean(axis=0), 1)[0])


def three_ways(mixture: Mixture, rng: np.random.Generator) -> None:
    """Print numbers of the third moment: from its tensor, without it, and from samples."""
    X, _ = mixture.sample(1_000_000, rng)
    samples = Samples(X)
    M, M_hat = dense_moment(mixture, 3), dense_moment(samples, 3)
    a = np.array([0.6, -0.8])
    aaa = a[:, None, None] * a[:, None] * a
    print("The third moment M of the mixture of §7.1 (n=2, m=3), three ways\n")
    print(f"  {'':24}{'dense tensor':>16}{'implicit':>16}{'10^6 samples':>16}")
    rows: list[tuple[str, float, float, float]] = [
        ("⟨M, a⊗a⊗a⟩", np.sum(M * aaa), contract(mixture, a, 3), contract(samples, a, 3)),
        ("‖M‖²", np.sum(M * M), inner(mixture, mixture, 3), np.sum(M_hat * M_hat)),
    ]
    for index in [(0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)]:
        e = np.eye(2)
        # Polarisation gives an entry of a symmetric tensor from contractions alone.
        ways = [(+1, e[index[0]] + e[index[1]] + e[index[2]])]
        ways += [(-1, e[index[a]] + e[index[b]]) for a, b in ((0, 1), (0, 2), (1, 2))]
        ways += [(+1, e[i]) for i in index]
        implicit = sum(s * contract(mixture, v, 3) for s, v in ways) / 6
        label = "M[" + ", ".join(str(i + 1) for i in index) + "]"
        rows.append((label, M[index], implicit, M_hat[index]))
    for label, *values in rows:
        print(f"  {label:24}" + "".join(f"{float(v):16.10f}" for v in values))


def convergence_table(empirical: np.ndarray, debiased: np.ndarray) -> None:
    """Print the errors from :func:`errors` for each number of samples."""
    print(
        "\nError of the third moment estimated from p samples, geometric mean of "
        f"{REPEATS} data sets\n"
    )
    print(f"  {'p':>9}{'empirical (§7.1)':>20}{'debiased (§7.2)':>20}")
    means = np.exp(np.log([empirical, debiased]).mean(axis=1))
    for p, one, two in zip(SIZES, *means, strict=True):
        print(f"  {p:9,}{one:20.5f}{two:20.5f}")
    print(f"  {'slope':>9}{slope(empirical):20.3f}{slope(debiased):20.3f}   (theory: -1/2)")


def draw_moments(
    mixture: Mixture, noisy: Mixture, empirical: np.ndarray, debiased: np.ndarray, path: Path
) -> None:
    """Draw both mixtures with samples, and below them the errors of their moments."""
    figure = Figure(figsize=(9, 7.5), layout="constrained")
    axes = figure.subplots(2, 2)
    titles = "Mixture of §7.1 and 1,000 samples", "Known noise, §7.2, and 1,000 samples"
    for ax, model, title in zip(axes[0], (mixture, noisy), titles, strict=True):
        plot_density(model, model.sample(1000, 0)[0], ax=ax)
        ax.set(title=title, aspect="equal", xlim=(-3.5, 3.5), ylim=(-3.5, 3.5))
    measured = [
        (axes[1, 0], empirical, r"empirical  $\|M^{(3)} - \hat M^{(3)}\|$"),
        (axes[1, 1], debiased, r"debiased  $\|T^{(3)} - \hat T^{(3)}\|$"),
    ]
    for ax, error, name in measured:
        sizes = np.array(SIZES)
        ax.loglog(sizes, error.T, "o", color="tab:blue", alpha=0.25, markersize=5)
        middle = np.exp(np.log(error).mean(axis=0))
        ax.loglog(sizes, middle, "-", color="tab:blue", label=f"mean, slope {slope(error):.2f}")
        rate = middle[0] * np.sqrt(sizes[0] / sizes)
        ax.loglog(sizes, rate, "k--", linewidth=1, label=r"$1/\sqrt{p}$")
        ax.set(title=name, xlabel="number of samples p", ylabel="error")
        ax.legend()
        ax.grid(alpha=0.3)
    figure.savefig(path, dpi=110)


def main(folder: str = "demo") -> None:
    rng = np.random.default_rng(0)
    mixture = Mixture(WEIGHTS, MEANS, COVARIANCES)
    noisy = Mixture(WEIGHTS, MEANS, NOISE, "tied")
    clean = Mixture(WEIGHTS, MEANS, [0.0, 0.0, 0.0], "spherical")
    three_ways(mixture, rng)
    empirical = errors(mixture, dense_moment(mixture, 3), None, rng)
    debiased = errors(noisy, dense_moment(clean, 3), NOISE, rng)
    convergence_table(empirical, debiased)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    draw_moments(mixture, noisy, empirical, debiased, path / "moments.png")
    print(f"\nPicture: {path / 'moments.png'}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
