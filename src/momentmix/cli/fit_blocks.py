"""Fits of rows too many to hold, which are read in blocks, again for every step."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from momentmix.blocks.batches import Batch, BatchRows
from momentmix.cli.console import in_terms_of_options, note
from momentmix.cli.fitted import Settings, estimator_of, origin_of, warnings_as_notes
from momentmix.cli.gaps import GapCount, Gaps
from momentmix.cli.opening import Block, OpenTables, tell_left_out
from momentmix.cli.reading import check_count, few_values, refuse_unusable, rows_at_once
from momentmix.distributions.mixture import Mixture
from momentmix.estimators.gaussian_mixture import GaussianMixture
from momentmix.estimators.moment_mixture import MomentMixture
from momentmix.files.query_table import QueryTable
from momentmix.summary import FitSummary
from momentmix.summary.assignment import assignment_of
from momentmix.summary.fit import AllRows
from momentmix.support.array import to_numpy

#: Rows that take more bytes than this are read in blocks unless the user says otherwise. A round
#: number, 2 GiB; in blocks the fit takes longer but needs little memory.
MOST_BYTES = 2 << 30
#: The most rows, and bytes, of the sample that stands for all rows in pictures, tests and standard
#: errors. Round numbers that bound the memory of the report and were not tuned.
MOST_SAMPLED, _SAMPLE_BYTES = 100_000, 64 << 20


def read_in_blocks(opened: OpenTables, asked: bool | None, unfit: Sequence[str]) -> bool:
    """Whether rows are read in blocks: as the user says, or if they need too much memory.

    ``unfit`` are the given options that need all rows in memory.
    """
    if asked is False:
        return False
    why = "--in-blocks reads the rows in blocks"
    if asked is None:
        size = expected_bytes(opened)
        if size <= MOST_BYTES:
            return False
        why = f"the rows take about {size / 2**30:.1f} GiB, so they are read in blocks"
    if unfit:
        raise ValueError(
            f"{why}, which does not go with {', '.join(unfit)}; leave that out, or give "
            "--in-memory if there is memory enough"
        )
    if asked is None:
        note(f"{why}, again for every step; --in-memory reads them once.")
    return True


def expected_bytes(opened: OpenTables) -> float:
    """The memory that all rows need, estimated from the first rows and the sizes of the files."""
    rows, width = 0.0, len(opened.used)
    files = [table for table in opened.tables if not isinstance(table, QueryTable)]
    rows += sum(table.count() for table in opened.tables if isinstance(table, QueryTable))
    if files:
        first = next(iter(files[0].pieces()), None)
        total = sum(table.size for table in files)
        if first is not None and first.share > 0:
            rows += len(first.rows) / first.share * total / max(files[0].size, 1)
        else:  # an Arrow stream does not tell its length
            rows += total / (8 * width)
    return 8 * width * rows


class RowSample:
    """A uniform random sample of rows that come in blocks: those with the smallest random keys."""

    def __init__(self, most: int, seed: int) -> None:
        self._most, self._rng = most, np.random.default_rng(seed)
        self._rows: list[np.ndarray] = []
        self._keys: list[np.ndarray] = []
        self._bound, self._held = 1.0, 0

    def add(self, X: np.ndarray) -> None:
        keys = self._rng.random(len(X))
        kept = keys < self._bound
        self._rows.append(X[kept])
        self._keys.append(keys[kept])
        self._held += int(kept.sum())
        if self._held > 2 * self._most:
            self._shrink()

    def _shrink(self) -> None:
        rows, keys = np.concatenate(self._rows), np.concatenate(self._keys)
        if len(keys) > self._most:
            least = np.sort(np.argpartition(keys, self._most)[: self._most])
            rows, keys = rows[least], keys[least]
            self._bound = float(keys.max())
        self._rows, self._keys, self._held = [rows], [keys], len(keys)

    @property
    def rows(self) -> np.ndarray:
        """The sampled rows in the order in which they came."""
        self._shrink()
        return self._rows[0]


@dataclass
class _Survey:
    """What a first pass over all rows finds, before they are fitted."""

    count: GapCount
    gaps: np.ndarray  # (n,) empty cells of each column
    lowest: np.ndarray  # (n,) over the usable rows
    highest: np.ndarray
    sample: RowSample

    @classmethod
    def of(cls, opened: OpenTables, gaps: Gaps, seed: int) -> _Survey:
        n = len(opened.used)
        most = max(1000, min(MOST_SAMPLED, _SAMPLE_BYTES // (8 * n)))
        low, high = np.full(n, np.inf), np.full(n, -np.inf)
        found = cls(GapCount(gaps), np.zeros(n, dtype=int), low, high, RowSample(most, seed))
        for block in opened.blocks(gaps, "looking"):
            X = block.X[found.count.usable(block.X)]
            found.gaps += np.isnan(block.X).sum(axis=0)
            found.lowest = np.minimum(found.lowest, np.fmin.reduce(X, axis=0, initial=np.inf))
            found.highest = np.maximum(found.highest, np.fmax.reduce(X, axis=0, initial=-np.inf))
            found.sample.add(X)
        return found

    def to_leave_out(self) -> tuple[str, np.ndarray]:
        """A reason to leave columns out, and which; (n,). It is never all of them."""
        empty, constant = self.gaps == self.count.rows, self.lowest >= self.highest
        if empty.any() and not empty.all():
            return "empty", empty
        which = constant if self.count.left and not constant.all() else np.zeros(len(empty), bool)
        return "constant", which


def survey(opened: OpenTables, gaps: Gaps, seed: int) -> tuple[OpenTables, _Survey]:
    """The tables without empty or constant columns, and a survey of all rows of the others."""
    while True:
        seen = _Survey.of(opened, gaps, seed)
        reason, which = seen.to_leave_out()
        if not (opened.free and which.any()):
            break
        out = [name for name, left in zip(opened.used, which, strict=True) if left]
        kept = [name for name in opened.used if name not in out]
        for table in opened.tables:
            table.choose(kept)
        left_out = [*opened.left_out, *((name, reason) for name in out)]
        opened = opened._replace(names=kept, left_out=left_out)
    counts = Counter({name: int(k) for name, k in zip(opened.used, seen.gaps, strict=True) if k})
    refuse_unusable(opened.source, gaps, counts, seen.count.rows, seen.count.left)
    seen.count.tell("were left out")
    tell_left_out(opened.left_out)
    return opened, seen


def fit_blocks(
    opened: OpenTables, number: int, settings: Settings, gaps: Gaps, device: str | None = None
) -> tuple[GaussianMixture | MomentMixture, FitSummary]:
    """Fit all rows and summarise the fit, for which a sample of rows stands for all."""
    opened, seen = survey(opened, gaps, settings["random_state"])
    check_count(number, seen.count.left, opened.source)
    begin, passes = time.perf_counter(), iter(range(1, 1_000_000))

    def read() -> Iterator[Batch]:
        for X in _usable_blocks(opened, gaps, f"pass {next(passes)}"):
            yield Batch(X)

    with in_terms_of_options(), warnings_as_notes() as notes:
        found = estimator_of(number, settings)
        found.fit_batches(BatchRows(read, len(opened.used), opened.names), device=device)
    seconds = time.perf_counter() - begin
    mixture, sample = found.mixture_.named(opened.names), seen.sample.rows
    value = getattr(found, "lower_bound_", np.nan)  # moments have no likelihood
    of_all = AllRows(seen.count.left, value * seen.count.left)
    if not found.interrupted_:
        try:
            of_all = _of_all(opened, gaps, mixture)
        except KeyboardInterrupt:  # the model is fitted and must not be lost
            found.interrupted_ = True
    notes = [*(few_values(sample, opened.used) if opened.free else ()), *notes]
    if len(sample) < seen.count.left:
        notes.append(
            f"The fit, the counts, the likelihood and the shares are of all {seen.count.left:,} "
            f"rows, which were read in blocks; pictures, tests, standard errors and what is said "
            f"of columns rest on {len(sample):,} of them, drawn at random."
        )
    dropped = seen.count.rows - seen.count.left
    # Empty rows do not count unless rows with gaps are dropped, as for fits in memory.
    counts = seen.gaps if gaps == "drop" else seen.gaps - seen.count.empty
    gaps_told = dict(zip(opened.used, counts.tolist(), strict=True))
    return found, FitSummary(
        mixture,
        opened.source,
        X=sample,
        seconds=seconds,
        notes=notes,
        collapsed=list(found.collapsed_),
        origin=replace(
            origin_of(settings, found.covariance_type_),
            rows_read=seen.count.rows,
            rows_dropped=dropped,
            rows_empty=seen.count.empty,
            gaps=gaps_told if any(gaps_told.values()) else {},
            left_out=opened.left_out,
        ),
        estimator=found,
        of_all=of_all,
    )


def _usable_blocks(opened: OpenTables, gaps: Gaps, what: str) -> Iterator[np.ndarray]:
    count = GapCount(gaps)
    for block in opened.blocks(gaps, what):
        X = block.X[count.usable(block.X)]
        if len(X):
            yield X


def _of_all(opened: OpenTables, gaps: Gaps, mixture: Mixture) -> AllRows:
    """Likelihood and assignment of all rows under a mixture, in one more pass."""
    rows, total, assignment = 0, 0.0, None
    most = rows_at_once(mixture)
    for X in _usable_blocks(opened, gaps, "scoring"):
        for part in Block(X).parts(most):
            rows += len(part.X)
            total += float(np.sum(to_numpy(mixture.log_prob(part.X))))
            sure = assignment_of(mixture, part.X)
            assignment = sure if assignment is None else assignment + sure
    return AllRows(rows, total, assignment)
