"""``momentmix fit``: of rows in memory, of rows in blocks when they are too many, or of moments."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict

import numpy as np
import typer

import momentmix as mm
from momentmix.cli.console import (
    Json,
    JsonValue,
    Outcome,
    aside,
    check_output,
    err,
    in_terms_of_options,
    note,
    one_of,
    out,
    show_json,
    tell_written,
    watched,
    working,
)
from momentmix.cli.input import (
    TABLES,
    OpenTables,
    TableRows,
    check_count,
    few_values,
    open_rows,
    other_columns,
    refuse_unusable,
    rows_at_once,
    rows_of,
    tell_left_out,
)
from momentmix.cli.options import (
    METHODS,
    TOL,
    ClustersOption,
    DeviceOption,
    ErrorsOption,
    FitMethod,
    GapCount,
    Gaps,
    GoalOption,
    Missing,
    OutlierSetting,
    OutliersOption,
    PriorOption,
    SeedOption,
    TableOptions,
    WorkPlace,
    clusters_setting,
    command,
    gaps_option,
    goal_setting,
    outlier_setting,
    outliers_document,
    prior_setting,
)
from momentmix.cli.select import (
    Asked,
    ComponentsOption,
    CovarianceOption,
    CriterionOption,
    choices_document,
    compare_rows,
    in_units_of_data,
    show_choices,
    wanted,
)
from momentmix.cli.use import mixture_document, show_mixture
from momentmix.distributions.units import Units
from momentmix.files.query_table import QueryTable, is_query
from momentmix.files.writing import written_whole
from momentmix.summary.components import counted, listed
from momentmix.summary.origin import MeasuredRows, Origin
from momentmix.support.array import to_numpy

if TYPE_CHECKING:
    from momentmix.covariance import CovarianceName
    from momentmix.selection import Choice, MergedComponents
    from momentmix.summary.fit_summary import AllRows, FitSummary

Estimator: TypeAlias = "mm.GaussianMixture | mm.MomentMixture"


class Settings(TypedDict):
    """The parameters of estimators that the command sets."""

    covariance_type: CovarianceName
    order: int | None
    random_state: int
    max_iter: int
    tol: float
    method: FitMethod
    prior: float | Literal["auto", "cv"] | None
    goal: Literal["density", "clusters"]
    outliers: OutlierSetting


def estimator_of(number: int, settings: Settings, verbose: int = 0) -> Estimator:
    """The estimator for the settings, with its parameters checked."""
    covariance_type, outliers = settings["covariance_type"], settings["outliers"]
    fit: Estimator
    if settings["method"] == "moments":
        if settings["prior"] != "auto":
            raise ValueError(
                "--prior is for fits of the likelihood; moments are matched as they are"
            )
        if settings["goal"] != "density":
            raise ValueError(
                "--goal is for fits of the likelihood; moments are matched as they are"
            )
        if outliers is not None:
            raise ValueError(
                "--outliers is for fits of the likelihood; moments do not tell one row from another"
            )
        if settings["tol"] != TOL:
            raise ValueError("--tol is for fits of the likelihood; fits of moments have their own")
        fit = mm.MomentMixture(
            number,
            covariance_type=covariance_type,
            order="auto" if settings["order"] is None else settings["order"],
        )
    else:
        if settings["order"] is not None:
            raise ValueError(
                "--order is for fits of moments: those of a file, or of rows with --method moments"
            )
        fit = mm.GaussianMixture(
            number,
            covariance_type=covariance_type,
            tol=settings["tol"],
            prior=settings["prior"],
            goal=settings["goal"],
            outliers=outliers,
            method=settings["method"],
        )
    fit.random_state, fit.max_iter = settings["random_state"], settings["max_iter"]
    fit.verbose = verbose
    fit._validate_params()
    return fit


def summary_of(
    found: Estimator, settings: Settings, source: str, work: Outcome, read: Origin, **more: Any
) -> FitSummary:
    """The summary of a fit, with what is needed to repeat it; ``more`` is of FitSummary."""
    program, *arguments = sys.argv
    known = Path(program).name in ("momentmix", "momentmix.exe", "__main__.py")
    options = {
        "covariances": found.covariance_type_,
        "outliers": str(settings["outliers"] or "none"),
        "method": settings["method"],
        "most iterations": str(settings["max_iter"]),
    }
    if settings["method"] == "moments":
        options["order of moments"] = str(settings["order"] or "auto")
    else:
        options["prior"] = "none" if settings["prior"] is None else str(settings["prior"])
        options["goal"] = settings["goal"]
        options["tolerance"] = f"{settings['tol']:g}"
    origin = replace(
        read,
        command=shlex.join(["momentmix", *arguments]) if known else None,
        seed=settings["random_state"],
        settings=options,
    )
    given: dict[str, Any] = {"mixture": found.mixture_, "notes": work.notes} | more
    from momentmix.summary.fit_summary import FitSummary

    return FitSummary(
        source=source,
        seconds=work.seconds,
        collapsed=list(found.collapsed_),
        origin=origin,
        estimator=found,
        **given,
    )


def show_summary(summary: FitSummary) -> None:
    """Print what a person reads after a fit."""
    if summary.choices and out.is_terminal:  # a pipe gets one table
        from momentmix.selection import Selection

        show_choices(Selection(summary.choices, summary.criterion))
    show_mixture(summary.mixture)
    value = summary.log_likelihood
    for segment in summary.segments:
        aside(segment.sentence)
    if value is not None:
        bic = "no BIC" if summary.collapsed else f"BIC {summary.bic(value):,.2f}"
        aside(f"log-likelihood {value:,.2f}, {bic}, {summary.seconds:.2g} s")
    if summary.outliers is not None:
        note(summary.outliers.sentence)
    if (merged := summary.clusters) is not None:
        number, m = merged.n_clusters_, len(merged.clusters_)
        parts = [f"cluster {c} has {listed(merged.members(c))}" for c in range(number)]
        whole = f"the {m} components are {counted(number, 'cluster')}: {', '.join(parts)}."
        note("no components overlap enough to be one cluster." if number == m else whole)
    for remark in summary.remarks:
        note(remark)


def summary_document(summary: FitSummary) -> dict[str, JsonValue]:
    """The document that ``--json`` prints."""
    value, origin = summary.log_likelihood, summary.origin
    return {
        "source": summary.source,
        "rows": summary.rows,
        "rows_dropped": 0 if origin is None else origin.rows_dropped,
        "left_out": {} if origin is None else dict(origin.left_out),
        "gaps": {column.name: column.gaps for column in summary.columns if column.gaps},
        "seconds": summary.seconds,
        "log_likelihood": value,
        "aic": None if value is None or summary.collapsed else summary.aic(value),
        "bic": None if value is None or summary.collapsed else summary.bic(value),
        "mixture": mixture_document(summary.mixture),
        "outliers": outliers_document(summary.outliers),
        "clusters": clusters_document(summary.clusters),
        **uncertainty_document(summary),
        "segments": [segment._asdict() for segment in summary.segments],
        "moments": [match._asdict() for match in summary.matches],
        "tests": [test._asdict() for test in summary.tests or ()],
        "choices": choices_document(summary.choices),
        "remarks": summary.remarks,
    }


def clusters_document(merged: MergedComponents | None) -> JsonValue:
    """Clusters and the merges that lead to them, for ``--json``."""
    if merged is None:
        return None
    tree = [merge._asdict() for merge in merged.tree]
    return {"cluster_of_component": merged.clusters_, "merges": tree}


def uncertainty_document(summary: FitSummary) -> dict[str, JsonValue]:
    """The uncertainty of the parameters and the assignment of the rows, for ``--json``."""
    sure, rows = summary.uncertainty, summary.assignment
    document: dict[str, JsonValue] = {"uncertainty": None, "classification": None}
    if sure is not None:
        document["uncertainty"] = {
            "standard_errors": sure.errors._asdict(),
            "interval_95": {"low": sure.low._asdict(), "high": sure.high._asdict()},
            "doubt": sure.doubt,
        }
    if rows is not None:
        document["classification"] = {
            "relative_entropy": rows.relative_entropy,
            "uncertainty": rows.uncertainty,
            "sure_rows": rows.sure,
            "doubtful_rows": int(rows.doubtful.sum()),
            "rows_of_components": rows.taken,
        }
    return document


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
) -> FitSummary:
    """Fit all rows and summarise the fit, for which a sample of rows stands for all."""
    from momentmix.blocks.block_rows import Batch, BatchRows
    from momentmix.summary.fit_summary import AllRows

    opened, seen = survey(opened, gaps, settings["random_state"])
    count, passes = seen.count, iter(range(1, 1_000_000))
    check_count(number, count.left, opened.source)

    def read() -> Iterator[Batch]:
        for rows in _usable_blocks(opened, gaps, f"pass {next(passes)}"):
            yield Batch(rows.X)

    with watched() as work:
        found = estimator_of(number, settings)
        found.fit_batches(BatchRows(read, len(opened.used), opened.features), device=device)
    mixture, sample = found.mixture_.named(opened.features), seen.sample.rows
    # Moments have no likelihood, and that of logarithms is another.
    value = np.nan if opened.logs else getattr(found, "lower_bound_", np.nan)
    of_all = AllRows(count.left, value * count.left)
    if not found.interrupted_:
        try:
            of_all = _of_all(opened, gaps, mixture)
        except KeyboardInterrupt:  # the model is fitted and must not be lost
            found.interrupted_ = True
    notes = [*(few_values(sample, opened.units.features) if opened.free else ()), *work.notes]
    if len(sample) < count.left:
        notes.append(
            f"The fit, the counts, the likelihood and the shares are of all {count.left:,} "
            f"rows, which were read in blocks; pictures, tests, standard errors and what is said "
            f"of columns rest on {len(sample):,} of them, drawn at random."
        )
    # Empty rows do not count unless rows with gaps are dropped, as for fits in memory.
    empty = seen.gaps if gaps == "drop" else seen.gaps - count.empty
    origin = Origin(
        rows_read=count.rows,
        rows_dropped=count.rows - count.left,
        rows_empty=count.empty,
        gaps=dict(zip(opened.used, empty.tolist(), strict=True)) if empty.any() else {},
        left_out=opened.left_out,
    )
    return summary_of(
        found,
        settings,
        opened.source,
        work,
        origin,
        mixture=mixture,
        X=sample,
        notes=notes,
        of_all=of_all,
    )


def _usable_blocks(
    opened: OpenTables, gaps: Gaps, what: str, most: int | None = None
) -> Iterator[MeasuredRows]:
    count = GapCount(gaps)
    for block in opened.blocks(gaps, what, most=most):
        rows = block.some(count.usable(block.X))
        if len(rows.X):
            yield rows


def _of_all(opened: OpenTables, gaps: Gaps, mixture: mm.Mixture) -> AllRows:
    """Likelihood and assignment of all rows under a mixture, in one more pass."""
    from momentmix.summary.fit_summary import AllRows
    from momentmix.summary.rows import assignment_of

    rows, total, assignment = 0, 0.0, None
    for part in _usable_blocks(opened, gaps, "scoring", rows_at_once(mixture)):
        rows += len(part.X)
        total += float(np.sum(to_numpy(mixture.log_prob(part.X))))
        total += float(np.sum(opened.units.log_jacobian(part.X)))
        sure = assignment_of(mixture, part.X)
        assignment = sure if assignment is None else assignment + sure
    return AllRows(rows, total, assignment)


@command
def fit(
    files: Annotated[
        list[str],
        typer.Argument(help=f"{TABLES} Or one file of moments (.npz).", metavar="TABLES"),
    ],
    components: ComponentsOption,
    tables: TableOptions,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the model to this file (.json).")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page about the fit to this file (.html).")
    ] = None,
    paper: Annotated[
        Path | None, typer.Option(help="Write tables for a paper to this file (.md or .tex).")
    ] = None,
    covariance: CovarianceOption = "full",
    criterion: CriterionOption = None,
    missing: Missing = "keep",
    errors: ErrorsOption = None,
    outliers: OutliersOption = "none",
    clusters: ClustersOption = None,
    prior: PriorOption = "auto",
    goal: GoalOption = "density",
    order: Annotated[
        int | None,
        typer.Option(help="The highest order of moments to match, with --method moments."),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="How the mixture is fitted: by its likelihood, of which em and newton (fewer "
            "passes over the rows) name the last steps and auto takes one of the two; or by "
            "moments, in one pass."
        ),
    ] = "auto",
    in_blocks: Annotated[
        bool | None,
        typer.Option(
            "--in-blocks/--in-memory",
            help="Read the rows in blocks, again for every step, or all of them into memory; by "
            "default in blocks if they take more than 2 GiB.",
            show_default=False,
        ),
    ] = None,
    device: DeviceOption = None,
    max_iter: Annotated[int, typer.Option(help="Maximum iterations per solver.")] = 200,
    tol: Annotated[
        float, typer.Option(help="Stop when the mean log-likelihood gains less than this.")
    ] = TOL,
    seed: SeedOption = 0,
    as_json: Json = False,
) -> None:
    """Fit a mixture to the rows of tables, or to moments.

    All columns of numbers are used, unless some are chosen; a line names what was left out. Empty
    cells, NA, NaN and null are gaps: of a row with gaps, the values that are there are used.

    For instance:

    `momentmix fit data.csv -k auto --report report.html`

    `momentmix fit moments.npz -k 5 --covariance diag -o model.json`
    """
    check_output(output, files, (".json",))
    check_output(report, files, (".html",))
    check_output(paper, files, (".md", ".tex"))
    if report is not None:
        import momentmix.report  # noqa: F401  (fails before the fit if matplotlib is missing)
    gaps, there = gaps_option(missing), WorkPlace(device)
    asked, merging = wanted(components, covariance, criterion), clusters_setting(clusters)
    if isinstance(merging, int) and asked.number is not None and merging > asked.number:
        raise ValueError(f"--clusters {merging} is more than the {asked.number} components of -k")
    settings: Settings = {
        "covariance_type": "full" if len(asked.types) > 1 else asked.types[0],
        "order": order,
        "random_state": seed,
        "max_iter": max_iter,
        "tol": tol,
        "method": one_of("--method", method, *METHODS),
        "prior": prior_setting(prior),
        "goal": goal_setting(goal),
        "outliers": outlier_setting(outliers),
    }
    of_moments = Path(files[0]).suffix.lower() == ".npz" and not is_query(files[0])
    if of_moments and settings["method"] == "auto":
        settings["method"] = "moments"
    with in_terms_of_options():
        estimator_of(1 if asked.number is None else asked.number, settings)
    if of_moments:
        method_given = settings["method"]
        _refuse(
            {
                "give one file of moments alone; its columns are chosen already": len(files) > 1
                or tables != TableOptions(),
                "--errors needs the rows; moments have no errors of their own": errors is not None,
                f"--method {method_given} needs the rows; moments have no likelihood": method_given
                != "moments",
                "--in-blocks and --in-memory are for rows; moments have none": in_blocks
                is not None,
                "--device is for rows; moments are fitted here": device is not None,
                "--clusters needs the rows; moments do not tell what overlaps": merging is not None,
            }
        )
        summary = fit_moments(Path(files[0]), asked.number, settings)
    else:
        unfit = _needs_memory(asked, settings, errors)
        with open_rows(files, tables, errors=errors) as opened:
            if read_in_blocks(opened, in_blocks, unfit):
                assert asked.number is not None  # else the options were refused above
                summary = fit_blocks(opened, asked.number, settings, gaps, device)
            else:
                rows = rows_of(opened, gaps)
                others = other_columns(opened, rows.origin)
                summary = fit_rows(rows, asked, settings, there)
                summary.others = others
    found = summary.estimator
    assert found is not None
    if merging is not None and summary.X is not None:
        most = merging if merging == "auto" else min(merging, summary.mixture.n_components)
        noise = summary.noise
        summary.clusters = mm.merge_components(
            summary.mixture, summary.X, most, noise_covariance=noise
        )
    _write_files(summary, output, report)
    if paper is not None:
        with written_whole(paper) as file:
            latex = paper.suffix.lower() == ".tex"
            file.write((summary.to_latex() if latex else summary.to_markdown()).encode())
    with working("comparing moments"):
        summary.remarks  # noqa: B018  (computed once, here)
    if as_json:
        show_json(summary_document(summary) | {"converged": found.converged_})
    else:
        show_summary(summary)
        done = "Chose" if summary.choices else "Fitted"
        number = counted(summary.mixture.n_components, "component")
        tell_written(f"{done} {number}", output, report, paper)
    if found.interrupted_ or any(choice.fit.interrupted_ for choice in summary.choices):
        raise KeyboardInterrupt  # after the best fit so far was saved


def _needs_memory(asked: Asked, settings: Settings, errors: str | None) -> list[str]:
    """The given options that do not work in blocks."""
    found = {
        "-k auto and ranges (give one number)": asked.numbers is None or len(asked.numbers) > 1,
        "--covariance with several shapes (give one)": len(asked.types) > 1,
        "--errors": errors is not None,
        "--outliers": settings["outliers"] is not None,
        "--prior cv": settings["prior"] == "cv",
    }
    return [option for option, given in found.items() if given]


def _refuse(reasons: dict[str, bool]) -> None:
    """Raise the first of these errors that is due."""
    for message, due in reasons.items():
        if due:
            raise ValueError(message)


def _write_files(summary: FitSummary, output: Path | None, report: Path | None) -> None:
    """Write the model and the report, if their files were given."""
    if output is not None:
        summary.mixture.save(output)
    if report is not None:
        from momentmix.report import write_report

        with working("writing the report"):
            write_report(report, summary, output)


def fit_rows(rows: TableRows, asked: Asked, settings: Settings, there: WorkPlace) -> FitSummary:
    """Fit the given number of components, or compare several and take the best."""
    choices: list[Choice] = []
    least = 1 if asked.numbers is None else asked.numbers[0]
    check_count(least, len(rows.X), rows.source)
    if asked.number is None and there.device is not None:
        raise ValueError("--device is for one number of components and one shape; give both")
    found: Estimator
    with watched(rows.names or ()) as work:
        if asked.number is None:
            if settings["method"] == "moments":
                raise ValueError(
                    "-k auto, ranges and several shapes compare likelihoods, at which --method "
                    "moments does not look; give one number and one shape"
                )
            own = "covariance_type", "order"  # which a comparison sets
            others = {name: value for name, value in settings.items() if name not in own}
            selection = compare_rows(rows, asked, others)
            found, choices = selection.best, selection.table
        else:
            found = estimator_of(asked.number, settings, int(err.is_terminal))
            found.fit(there.rows(rows.X), noise_covariance=rows.noise)
    choices = in_units_of_data(choices, Units.of_features(rows.columns), rows.X)
    return summary_of(
        found,
        settings,
        rows.source,
        work,
        rows.origin,
        mixture=found.mixture_.named(rows.names),
        X=rows.X,
        errors=rows.errors,
        notes=[*rows.notes, *work.notes],
        choices=choices,
        criterion=asked.criterion,
    )


def fit_moments(path: Path, number: int | None, settings: Settings) -> FitSummary:
    """Fit the moments in a file."""
    if number is None:
        raise ValueError(
            "-k auto needs rows: the BIC is not known from moments; give a number and one shape"
        )
    moments = mm.MomentTensors.load(path)
    with watched() as work:
        found = estimator_of(number, settings, int(err.is_terminal))
        assert isinstance(found, mm.MomentMixture)
        found.fit_moments(moments)
    return summary_of(found, settings, path.name, work, Origin(), moments=moments)
