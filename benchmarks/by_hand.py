"""Algorithms 1 and 2 of the paper as a researcher writes them in NumPy, and in PyTorch.

Order d alone, diagonal covariances given by variances S (m, n), means A (m, n), weights w (m,).
"""

from __future__ import annotations

import math

import numpy as np

Result = tuple[float, np.ndarray, np.ndarray, np.ndarray]


def data_term(X: np.ndarray, w: np.ndarray, A: np.ndarray, S: np.ndarray, d: int) -> Result:
    """Algorithm 2: ⟨M, M̂⟩ and its gradients, d ≥ 2."""
    p, squares = len(X), X * X
    first, second = X @ A.T, squares @ S.T
    older, before, last = None, np.ones_like(first), first
    for k in range(2, d + 1):
        older, before, last = before, last, first * last + (k - 1) * second * before
    u = last.mean(axis=0)
    R1, R2 = (d / p) * before, (d * (d - 1) / 2 / p) * older
    return float(w @ u), u, w[:, None] * (R1.T @ X), w[:, None] * (R2.T @ squares)


def norm(w: np.ndarray, A: np.ndarray, S: np.ndarray, d: int) -> Result:
    """Algorithm 1: ‖M‖² and half its gradients."""
    powers = [np.ones_like(S)]
    for _ in range(d):
        powers.append(powers[-1] * S)
    squares, kappa = A * A, [None]
    for k in range(1, d + 1):
        r = k // 2
        if k % 2:
            kappa.append(math.factorial(k) * ((powers[r] * A) @ (powers[r] * A).T))
            continue
        half = (powers[r - 1] * squares) @ powers[r].T
        whole = math.factorial(k - 1) * (powers[r] @ powers[r].T)
        kappa.append(whole + math.factorial(k) / 2 * (half + half.T))
    bell = [np.ones((len(w), len(w)))]
    for k in range(1, d + 1):
        bell.append(sum(math.comb(k - 1, i) * bell[i] * kappa[k - i] for i in range(k)))
    u, in_A, in_S = bell[d] @ w, np.zeros_like(A), np.zeros_like(S)
    for k in range(1, d + 1):
        G, r, f = math.comb(d, k) * bell[d - k] * w, k // 2, math.factorial(k)
        if k % 2:
            W = f * (G @ (powers[r] * A))
            in_A += powers[r] * W
            if r:
                in_S += r * powers[r - 1] * A * W
            continue
        W, V = G @ powers[r], G @ (powers[r - 1] * squares)
        in_A += f * powers[r - 1] * A * W
        in_S += r * powers[r - 1] * (f / k * W + f / 2 * V)
        if r > 1:
            in_S += f / 2 * (r - 1) * powers[r - 2] * squares * W
    return float(w @ u), u, w[:, None] * in_A, w[:, None] * in_S


def data_term_by_autograd(
    X: np.ndarray, w: np.ndarray, A: np.ndarray, S: np.ndarray, d: int
) -> list[np.ndarray]:
    """The gradients of the data term by PyTorch's derivatives."""
    import torch

    torch.set_num_threads(1)
    given = [torch.tensor(x, requires_grad=True) for x in (w, A, S)]
    rows = torch.from_numpy(X)
    first, second = rows @ given[1].T, (rows * rows) @ given[2].T
    before, last = torch.ones_like(first), first
    for k in range(2, d + 1):
        before, last = last, first * last + (k - 1) * second * before
    (last.mean(0) @ given[0]).backward()
    return [x.grad.numpy() for x in given]
