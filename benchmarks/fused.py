"""Passes over rows in fused CUDA kernels (Triton), to be measured beside the plain ones.

None is used by the package: one goes there when ``make bench-gpu`` has shown on a GPU that it is
faster. ``tests/test_fused.py`` compares them with the plain passes, in Triton's interpreter or on
CUDA. ``python benchmarks/fused.py`` builds them for an H200, without one, and tells what they ask
of it.

Every pass over rows has one shape. Features of a row are itself and products of two of its numbers,
which a table of places a and b names (a = b for diagonal covariances, all a ≤ b for full ones):

    pairs    κ_1 = ⟨linear_j, x⟩ and κ_2 = ⟨quadratic_j, x_a x_b⟩ for each component j, and from
             them numbers G_1, G_2 of each row and component: responsibilities, or derivatives of
             Bell polynomials.
    sums     Σ_i G_1 x_i and Σ_i G_2 x_a x_b.
    moments  Σ_i (x_a x_b) (x_c x_d), of which only tiles that hold some a ≤ b ≤ c ≤ d are made.

No feature is ever written to memory: products are formed where a matrix product takes them. Rows
are read twice, and G, which has p × m numbers, is written and read. Rows may be float32; all else
is in float64. Sums over runs of rows are kept apart and added up at the end, so that results are
the same each time.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Sequence
from functools import lru_cache
from tempfile import NamedTemporaryFile
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from momentmix.covariance import Kind
from momentmix.covariance.matrices import packing
from momentmix.likelihood.density import Density, Sums
from momentmix.moments.atoms import Atoms
from momentmix.moments.bilinear import InnerProducts
from momentmix.tensors.dense import packed_indices
from momentmix.tensors.packed import places

#: Rows of a tile of pairs; rows or features of one step along the inside of a product; features of
#: a tile of sums. Up to 32 components no kernel spills registers; more want smaller tiles.
ROWS, STEP, FEATURES = 64, 16, 64
BUILD = {"num_warps": 4, "num_stages": 3}
#: Tiles of sums that are on their way at once, at least: four for each processor of an H200.
BUSY = 528
#: Places in a table of features that are no column of X: the number one, and nothing.
ONE, NONE = -1, -2


@triton.jit
def _columns(X, rows, places, p, n):
    """The numbers of some rows at some places; (rows, places)."""
    inside = (rows[:, None] < p) & (places[None, :] >= 0)
    x = tl.load(X + rows[:, None] * n + places[None, :], mask=inside, other=0.0).to(tl.float64)
    return tl.where(places[None, :] == -1, 1.0, x)


@triton.jit
def _pairs(
    X, PLACE_A, PLACE_B, LINEAR, QUADRATIC, NUMBERS, WEIGHTS, G, SHARES, VALUES,
    p, n, width, m, second_at,
    EM: tl.constexpr, SQUARES: tl.constexpr, WEIGHTED: tl.constexpr, ORDER: tl.constexpr,
    ROWS: tl.constexpr, STEP: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """G_1 and G_2 of a tile of rows and all components, and sums of what needs no features.

    ``NUMBERS`` are the constants of log densities (EM), or the weights of orders 0 to ORDER.
    Squares are made of what the linear part has read.
    """
    tile = tl.program_id(0)
    rows = tile.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    js, steps = tl.arange(0, M), tl.arange(0, STEP)
    here = js[None, :] < m
    first = tl.zeros((ROWS, M), dtype=tl.float64)
    second = tl.zeros((ROWS, M), dtype=tl.float64)
    for at in range(0, n, STEP):
        f = at + steps
        given = here & (f[:, None] < n)
        x = _columns(X, rows, tl.where(f < n, f, -2), p, n)
        u = tl.load(LINEAR + js[None, :] * n + f[:, None], mask=given, other=0.0)
        first = tl.dot(x, u, first, out_dtype=tl.float64)
        if SQUARES:
            v = tl.load(QUADRATIC + js[None, :] * n + f[:, None], mask=given, other=0.0)
            second = tl.dot(x * x, v, second, out_dtype=tl.float64)
    if not SQUARES:
        for at in range(0, width, STEP):
            f = at + steps
            a = tl.load(PLACE_A + f, mask=f < width, other=-2)
            b = tl.load(PLACE_B + f, mask=f < width, other=-2)
            x = _columns(X, rows, a, p, n) * _columns(X, rows, b, p, n)
            given = here & (f[:, None] < width)
            v = tl.load(QUADRATIC + js[None, :] * width + f[:, None], mask=given, other=0.0)
            second = tl.dot(x, v, second, out_dtype=tl.float64)
    inside = rows < p
    w = tl.where(inside, 1.0, 0.0).to(tl.float64)
    if WEIGHTED:
        w = tl.load(WEIGHTS + rows, mask=inside, other=0.0)
    target = G + rows[:, None] * m + js[None, :]
    kept = inside[:, None] & here
    if EM:
        L = first + second + tl.load(NUMBERS + js, mask=js < m, other=float("-inf"))[None, :]
        highest = tl.max(L, axis=1)
        R = tl.exp(L - highest[:, None])
        total = tl.sum(R, axis=1)
        R *= (w / total)[:, None]
        tl.store(target, R, mask=kept)
        tl.store(SHARES + tile * m + js, tl.sum(R, axis=0), mask=js < m)
        tl.store(VALUES + tile, tl.sum(w * (highest + tl.log(total)), axis=0))
    else:
        # B_k = κ_1 B_{k-1} + (k-1) κ_2 B_{k-2}: only two cumulants are not zero.
        bell = tl.full((ROWS, M), 1.0, dtype=tl.float64)
        before = tl.zeros((ROWS, M), dtype=tl.float64)
        values = tl.zeros((ROWS, M), dtype=tl.float64)
        in_first = tl.zeros((ROWS, M), dtype=tl.float64)
        in_second = tl.zeros((ROWS, M), dtype=tl.float64)
        for k in tl.static_range(1, ORDER + 1):
            c = tl.load(NUMBERS + k)
            in_first += (c * k) * bell
            in_second += (c * (k * (k - 1) // 2)) * before
            following = first * bell + (k - 1) * (second * before)
            values += c * following
            before = bell
            bell = following
        tl.store(target, in_first * w[:, None], mask=kept)
        tl.store(target + second_at, in_second * w[:, None], mask=kept)
        tl.store(VALUES + tile * m + js, tl.sum(values * w[:, None], axis=0), mask=js < m)


@triton.jit
def _sums(
    X, PLACE_A, PLACE_B, G, OUT, p, n, width, m, linear_tiles, other, length,
    ROWS: tl.constexpr, FEATURES: tl.constexpr, M: tl.constexpr,
):  # fmt: skip
    """Σ_i G_i x_a x_b of a tile of features over a run of rows; (M, FEATURES).

    Tiles of products after the linear ones take their G from ``other`` on.
    """
    tile, run = tl.program_id(0), tl.program_id(1)
    f, js, steps = tile * FEATURES + tl.arange(0, FEATURES), tl.arange(0, M), tl.arange(0, ROWS)
    a, b = tl.load(PLACE_A + f), tl.load(PLACE_B + f)
    G += tl.where(tile < linear_tiles, 0, other)
    total = tl.zeros((M, FEATURES), dtype=tl.float64)
    begin = run.to(tl.int64) * length
    for at in range(0, length, ROWS):
        rows = begin + at + steps
        x = _columns(X, rows, a, p, n) * _columns(X, rows, b, p, n)
        inside = (js[:, None] < m) & (rows[None, :] < p)
        g = tl.load(G + rows[None, :] * m + js[:, None], mask=inside, other=0.0)
        total = tl.dot(g, x, total, out_dtype=tl.float64)
    place = OUT + (run * m + js[:, None]) * width + f[None, :]
    tl.store(place, total, mask=(js[:, None] < m) & (f[None, :] < width))


@triton.jit
def _moments(
    X, CENTRE, WEIGHTS, LEFT_A, LEFT_B, RIGHT_A, RIGHT_B, LEFTS, RIGHTS, OUT, p, n, length,
    WEIGHTED: tl.constexpr, ROWS: tl.constexpr, FEATURES: tl.constexpr,
):  # fmt: skip
    """Σ_i of a tile of left halves times one of right halves over a run of rows."""
    tile, run = tl.program_id(0), tl.program_id(1)
    f, steps = tl.arange(0, FEATURES), tl.arange(0, ROWS)
    left = tl.load(LEFTS + tile) * FEATURES + f
    right = tl.load(RIGHTS + tile) * FEATURES + f
    la, lb = tl.load(LEFT_A + left), tl.load(LEFT_B + left)
    ra, rb = tl.load(RIGHT_A + right), tl.load(RIGHT_B + right)
    total = tl.zeros((FEATURES, FEATURES), dtype=tl.float64)
    begin = run.to(tl.int64) * length
    for at in range(0, length, ROWS):
        rows = begin + at + steps
        x = _centred(X, CENTRE, rows, la, p, n) * _centred(X, CENTRE, rows, lb, p, n)
        y = _centred(X, CENTRE, rows, ra, p, n) * _centred(X, CENTRE, rows, rb, p, n)
        w = tl.where(rows < p, 1.0, 0.0).to(tl.float64)
        if WEIGHTED:
            w = tl.load(WEIGHTS + rows, mask=rows < p, other=0.0)
        total = tl.dot(tl.trans(x * w[:, None]), y, total, out_dtype=tl.float64)
    place = (run * tl.num_programs(0) + tile).to(tl.int64) * FEATURES * FEATURES
    tl.store(OUT + place + f[:, None] * FEATURES + f[None, :], total)


@triton.jit
def _centred(X, CENTRE, rows, places, p, n):
    """As ``_columns``, less the centre."""
    x = _columns(X, rows, places, p, n)
    return x - tl.load(CENTRE + places, mask=places >= 0, other=0.0)[None, :]


class Features(NamedTuple):
    """Tables of the features of rows: linear ones, then products, each a whole number of tiles."""

    a: torch.Tensor  # places in X
    b: torch.Tensor
    products: slice  # where the products stand
    squares: bool  # whether these are squares

    @classmethod
    def of(cls, kind: Kind, n: int, device: torch.device) -> Features:
        one, two = np.arange(n), np.arange(n)
        if kind.diagonal and kind.width(n) != n:
            raise ValueError(f"{kind.name} covariances see the sum of squares, which is no product")
        if not kind.diagonal:
            one, two = np.divmod(packing(n)[0], n)
        a, b = (
            np.concatenate([_whole_tiles(linear), _whole_tiles(product)])
            for linear, product in ((np.arange(n), one), (np.full(n, ONE), two))
        )
        first = len(_whole_tiles(np.arange(n)))
        products = slice(first, first + len(one))
        return cls(_there(a, device), _there(b, device), products, kind.diagonal)


def _whole_tiles(places: np.ndarray) -> np.ndarray:
    return np.pad(places, (0, -len(places) % FEATURES), constant_values=NONE)


def _there(places: np.ndarray, device: torch.device) -> torch.Tensor:
    return torch.asarray(places.astype(np.int32), device=device)


def _power(m: int) -> int:
    """The least side of a matrix product that holds m."""
    return max(16, triton.next_power_of_2(m))


class Pass(NamedTuple):
    """What a pass is made of; the arrays are on one device, and in float64 but for X."""

    X: torch.Tensor  # (p, n)
    features: Features
    linear: torch.Tensor  # (m, n)
    quadratic: torch.Tensor  # (m, width)
    weights: torch.Tensor | None = None  # (p,)

    @classmethod
    def of(
        cls,
        X: torch.Tensor,
        kind: Kind,
        linear: torch.Tensor,
        quadratic: torch.Tensor,
        weights: torch.Tensor | None = None,
    ) -> Pass:
        """Kernels go through memory row by row, so all arrays have their rows along it."""
        features, m = Features.of(kind, X.shape[1], X.device), len(linear)
        linear, quadratic = linear.double(), quadratic.double().expand(m, -1)  # shared: one row
        along = (
            part if part is None else part.contiguous() for part in (linear, quadratic, weights)
        )
        return cls(X.contiguous(), features, *along)

    def pairs(self, em: bool, numbers: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """G (1 or 2, p, m), and sums over each tile of rows: shares and values, (tiles, …)."""
        (p, n), m = self.X.shape, self.linear.shape[0]
        tiles, made = -(-p // ROWS), {"dtype": torch.float64, "device": self.X.device}
        G, shares = torch.empty((1 if em else 2, p, m), **made), torch.empty((tiles, m), **made)
        values = torch.empty((tiles, 1 if em else m), **made)
        a, b, products, squares = self.features
        weights = numbers if self.weights is None else self.weights
        _pairs[(tiles,)](
            self.X, a[products], b[products], self.linear, self.quadratic, numbers, weights,
            G, shares, values, p, n, self.quadratic.shape[1], m, p * m,
            em, squares, self.weights is not None, 0 if em else len(numbers) - 1,
            ROWS, STEP, _power(m), **BUILD,
        )  # fmt: skip
        return G, shares, values

    def sums(self, G: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Σ_i G_1 x_i (m, n) and Σ_i G_2 x_a x_b (m, width)."""
        (p, n), m = self.X.shape, self.linear.shape[0]
        a, b, products, _ = self.features
        tiles, linear_tiles = len(a) // FEATURES, products.start // FEATURES
        runs = _runs(tiles, p)
        out = torch.empty((runs, m, len(a)), dtype=torch.float64, device=self.X.device)
        _sums[(tiles, runs)](
            self.X, a, b, G, out, p, n, len(a), m, linear_tiles, (len(G) - 1) * p * m,
            _length(p, runs), STEP, FEATURES, _power(m), **BUILD,
        )  # fmt: skip
        found = out.sum(dim=0)
        return found[:, :n], found[:, products]


def _runs(tiles: int, p: int) -> int:
    """Into how many runs rows are cut, so that enough tiles are on their way at once."""
    return max(1, min(-(-BUSY // tiles), -(-p // STEP)))


def _length(p: int, runs: int) -> int:
    """Rows of a run: whole steps."""
    return in_tiles(-(-p // runs), STEP)


def em_sums(X: torch.Tensor, weights: torch.Tensor | None, kind: Kind, density: Density) -> Sums:
    """What ``device_sums`` of the package makes, for one mixture without narrow peaks."""
    constant, linear, quadratic = (
        torch.asarray(part, device=X.device)
        for part in (density.constant, density.linear, density.quadratic)
    )
    rows = Pass.of(X, kind, linear, quadratic, weights)
    G, shares, values = rows.pairs(True, constant)
    parts = (values.sum(dim=0), shares.sum(dim=0), *rows.sums(G))
    flat = torch.cat([part.reshape(-1) for part in parts]).cpu().numpy()
    found = np.split(flat, np.cumsum([part.numel() for part in parts])[:-1])
    return Sums(*(one.reshape(part.shape) for one, part in zip(found, parts, strict=True)))


def data_term(P: Atoms, X: torch.Tensor, orders: Sequence[float]) -> InnerProducts:
    """What ``bilinear`` of the package makes of P and rows of weight 1/p, with its gradient.

    P has a covariance of its own for each atom, diagonal or full.
    """
    p, column = len(X), P.column.double()
    rows = Pass.of(X, type(P.covariance), P.means, P.covariance.flat())
    numbers = torch.asarray([c / p for c in orders], dtype=torch.float64, device=X.device)
    G, _, values = rows.pairs(False, numbers)
    means, products = (column * part for part in rows.sums(G))
    return InnerProducts(values.sum(dim=0) + orders[0], means, P.covariance.collect_flat(products))


def moment_sums(
    X: torch.Tensor, centre: np.ndarray, weights: torch.Tensor | None, d: int
) -> np.ndarray:
    """What ``row_sums`` of the package makes, for orders 2 to 4."""
    X = X.contiguous()
    weights = None if weights is None else weights.contiguous()
    (p, n), plan = X.shape, MomentTiles.of(X.shape[1], d)
    tables = [_there(table, X.device) for table in plan[:6]]
    tiles = len(plan.lefts)
    runs = _runs(tiles, p)
    out = torch.empty((runs, tiles * FEATURES**2), dtype=torch.float64, device=X.device)
    there = torch.asarray(centre, dtype=torch.float64, device=X.device)
    _moments[(tiles, runs)](
        X, there, there if weights is None else weights, *tables, out, p, n,
        _length(p, runs), weights is not None, STEP, FEATURES, **BUILD,
    )  # fmt: skip
    return out.sum(dim=0).cpu().numpy()[plan.gather]


class MomentTiles(NamedTuple):
    """Halves of multi-indices as places in X, the tiles of them that are multiplied, and where the
    sums then stand.
    """

    left_a: np.ndarray
    left_b: np.ndarray
    right_a: np.ndarray
    right_b: np.ndarray
    lefts: np.ndarray  # (tiles,)
    rights: np.ndarray  # (tiles,)
    gather: np.ndarray  # (N,)

    @classmethod
    @lru_cache(maxsize=8)
    def of(cls, n: int, d: int) -> MomentTiles:
        """Left halves stand by their last index and right ones by their first, as in rowsums.py."""
        if d not in (2, 3, 4):
            raise ValueError(f"halves of one or two indices make orders 2 to 4, not {d}")
        h, whole = d // 2, packed_indices(n + 1, d)
        left, right = packed_indices(n + 1, h), packed_indices(n + 1, d - h)
        left = left[np.lexsort(left.T)]
        left_rank = sum(whole[:, t] * (whole[:, t] + 1) ** t // (t + 1) for t in range(h))
        right_rank = places(whole[:, h:], n + 1)
        across = -(-len(right) // FEATURES)
        pairs, at = np.unique(
            left_rank // FEATURES * across + right_rank // FEATURES, return_inverse=True
        )
        gather = (at * FEATURES + left_rank % FEATURES) * FEATURES + right_rank % FEATURES
        return cls(*_two(left), *_two(right), pairs // across, pairs % across, gather)


def _two(halves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places in X of two factors; index 0 is the number one, and so is a factor that is missing."""
    first = halves[:, 0] - 1
    second = halves[:, 1] - 1 if halves.shape[1] > 1 else np.full(len(halves), ONE)
    return _whole_tiles(first), _whole_tiles(second)


# What they ask of an H200, which need not be here


class Built(NamedTuple):
    """A kernel as it was built: what it takes of a processor, and its matrix instruction."""

    registers: int  # of a thread
    spilled: int  # bytes
    shared: int  # bytes
    instruction: str


def built(kernel: triton.JITFunction, arguments: Sequence[object]) -> Built:
    """The kernel for compute capability 9.0; arguments are types of arrays, numbers and options."""
    names, types, options = kernel.arg_names, {}, {}
    for i, (name, value) in enumerate(zip(names, arguments, strict=True)):
        if kernel.params[i].is_constexpr:
            types[name], options[(i,)] = "constexpr", value
        else:
            types[name] = value if isinstance(value, str) else "i64" if value >> 31 else "i32"
    # As Triton does in a call: arrays begin at multiples of 16 bytes, and some numbers are such.
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, (value, kind) in enumerate(zip(arguments, types.values(), strict=True))
        if kind.startswith("*") or (kind != "constexpr" and value % 16 == 0)
    }
    source = ASTSource(kernel, signature=types, constexprs=options, attrs=aligned)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=BUILD)
    with NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        tool = triton.knobs.nvidia.cuobjdump.path
        said = subprocess.run(
            [tool, "--dump-resource-usage", file.name], check=True, capture_output=True, text=True
        ).stdout
    registers, spilled = (int(re.search(rf"{x}:(\d+)", said)[1]) for x in ("REG", "STACK"))
    instruction = re.search(r"mma\.sync\.aligned\.(m\d+n\d+k\d+)\S*f64", made.asm["ptx"])
    return Built(
        registers, spilled, made.metadata.shared, instruction[1] if instruction else "none"
    )


def in_tiles(count: int, side: int) -> int:
    return -(-count // side) * side


def described() -> Iterator[tuple[str, Built, float, float]]:
    """Each kernel at sizes of benchmarks/gpu.py: what it is, how it was built, products made over
    those that are needed, and numbers that it moves for each of X.
    """
    for kind, p, n, m in (("diag", 10**7, 100, 20), ("full", 2 * 10**6, 50, 10)):
        full, M = kind == "full", _power(m)
        width = n * (n + 1) // 2 if full else n
        for what, order in (("EM step", 0), ("data term", 4)):
            rows, table, double = "*fp64", "*i32", "*fp64"
            arguments = [rows, table, table, *[double] * 7, p, n, width, m, p * m]
            made = M * (in_tiles(n, STEP) + in_tiles(width, STEP))
            parts = 2 if order else 1
            moved = 1 + parts * m / n
            yield (
                f"{what}, {kind}, n={n}, m={m}: pairs",
                built(_pairs, [*arguments, not order, not full, False, order, ROWS, STEP, M]),
                made / (m * (n + width)),
                moved,
            )
            total = in_tiles(n, FEATURES) + in_tiles(width, FEATURES)
            length = _length(p, _runs(total // FEATURES, p))
            arguments = [rows, table, table, double, double, p, n, total, m]
            arguments += [-(-n // FEATURES), p * m, length]
            yield (
                f"{what}, {kind}, n={n}, m={m}: sums",
                built(_sums, [*arguments, STEP, FEATURES, M]),
                M * total / (m * (n + width)),
                moved,
            )
    for n, p in ((10, 10**7), (50, 10**6)):
        plan = MomentTiles.of(n, 4)
        length = _length(p, _runs(len(plan.lefts), p))
        arguments = ["*fp64"] * 3 + ["*i32"] * 6 + ["*fp64", p, n, length, False, STEP, FEATURES]
        yield (
            f"moments, d=4, n={n}",
            built(_moments, arguments),
            len(plan.lefts) * FEATURES**2 / len(plan.gather),
            1.0,
        )


def main() -> None:
    print(f"Triton {triton.__version__}, built for compute capability 9.0.\n")
    print("| kernel | registers | spilled | shared, KiB | product | made / needed | moved |")
    print("| --- | ---: | ---: | ---: | --- | ---: | ---: |")
    for what, kernel, made, moved in described():
        registers, spilled, shared, instruction = kernel
        print(
            f"| {what} | {registers} | {spilled} | {shared / 1024:.0f} | {instruction} "
            f"| {made:.2f} | {moved:.1f} |"
        )


if __name__ == "__main__":
    main()
