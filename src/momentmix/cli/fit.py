"""``momentmix fit``."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from momentmix.cli.console import (
    Debug,
    Json,
    aside,
    err,
    note,
    plain_errors,
    say,
    show_json,
    show_table,
)
from momentmix.cli.reading import Columns, read_rows, split
from momentmix.cli.show import described, show_mixture
from momentmix.covariance import COVARIANCE_TYPES
from momentmix.estimator import MomentMixture
from momentmix.mixture import Mixture
from momentmix.samples import Samples
from momentmix.selection import Choice, choose_components
from momentmix.summary import moment_match, remarks
from momentmix.tensors import MomentTensors


def fit(
    files: Annotated[
        list[Path],
        typer.Argument(help="tables (.csv, .parquet, .npy, Arrow; - for standard input), or .npz"),
    ],
    components: Annotated[
        str, typer.Option("-k", "--components", help="number of components, or 'auto' (by BIC)")
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="where the model goes (.json)")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="a page about the fit, one file of HTML")
    ] = None,
    covariance: Annotated[str, typer.Option(help=" | ".join(COVARIANCE_TYPES))] = "full",
    order: Annotated[int | None, typer.Option(help="highest order matched")] = None,
    columns: Columns = None,
    selection: Annotated[
        str | None, typer.Option(help="likelihood | corrected; 'auto' components use the latter")
    ] = None,
    compare_em: Annotated[
        bool, typer.Option("--compare-em", help="fit scikit-learn's EM too, ten starts")
    ] = False,
    seed: Annotated[int, typer.Option(help="random state")] = 0,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Fit a mixture to the rows of tables, or to moments.

    For instance

    `momentmix fit data.csv -k auto --report report.html`

    `momentmix fit moments.npz -k 5 --covariance diag -o model.json`
    """
    with plain_errors(debug):
        for path, ending in ((output, ".json"), (report, ".html")):
            if path is not None and path.suffix.lower() != ending:
                raise ValueError(f"{path}: this file is {ending[1:]}, so let it end in {ending}")
        settings = {
            "covariance_type": covariance,
            "order": "auto" if order is None else order,
            "random_state": seed,
        }
        if selection is not None:
            settings["selection"] = selection
        job = Fit(_number(components), settings, quiet=not err.is_terminal)
        if files[0].suffix.lower() == ".npz":
            if len(files) > 1 or columns is not None:
                raise ValueError("give one file of moments alone; its columns are chosen already")
            if compare_em:
                raise ValueError("--compare-em needs the rows; moments are not enough for EM")
            job.of_moments(MomentTensors.load(files[0]), files[0].name)
        else:
            rows = read_rows(files, split(columns))
            job.of_rows(rows.X, rows.names, rows.source)
            if compare_em:
                job.against_em()
        if output is not None:
            job.mixture.save(output)
        if report is not None:
            job.write_report(report, output)
        if as_json:
            show_json(job.facts())
        else:
            job.show()
            for what, path in (("model", output), ("report", report)):
                if path is not None:
                    aside(f"{what}: {path}")


@dataclass
class Fit:
    """One run of the command: what was fitted, to what, and what there is to say about it."""

    n_components: int | None  # None: as many as the BIC asks for
    settings: dict[str, Any]
    quiet: bool
    estimator: Any = None
    X: np.ndarray | None = None
    moments: MomentTensors | None = None
    source: str = ""
    seconds: float = 0.0
    choices: list[Choice] = field(default_factory=list)
    rivals: list[Any] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def mixture(self) -> Mixture:
        found: Mixture = self.estimator.mixture_
        return found

    def of_rows(self, X: np.ndarray, names: list[str] | None, source: str) -> None:
        self.X, self.source = X, source
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if self.n_components is None:
                best, self.choices = choose_components(X, heard=self._heard, **self.settings)
                self.estimator = best.fit
            else:
                self.estimator = MomentMixture(
                    self.n_components, verbose=int(not self.quiet), **self.settings
                ).fit(X)
        self._note(caught)
        self.seconds = time.perf_counter() - begin
        m = self.estimator.mixture_
        self.estimator.mixture_ = Mixture(
            m.weights, m.means, m.covariances, m.covariance_type, feature_names=names
        )

    def of_moments(self, moments: MomentTensors, source: str) -> None:
        if self.n_components is None:
            raise ValueError("-k auto needs rows: the BIC is not known from moments; give a number")
        self.moments, self.source = moments, source
        begin = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = MomentMixture(self.n_components, verbose=int(not self.quiet), **self.settings)
            self.estimator = model.fit_moments(moments)
        self._note(caught)
        self.seconds = time.perf_counter() - begin

    def _note(self, caught: list[Any]) -> None:
        for warning in caught:
            text = str(warning.message)
            text = text[:1].upper() + text[1:] + "." * (not text.endswith("."))
            if text not in self.notes:
                self.notes.append(text)

    def _heard(self, choice: Choice) -> None:
        if not self.quiet:
            say(f"{choice.n_components} components: BIC {choice.bic:,.1f}", err)

    def against_em(self) -> None:
        from sklearn.mixture import GaussianMixture

        from momentmix.report import Rival

        begin = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            em = GaussianMixture(
                self.mixture.n_components,
                covariance_type=self.mixture.covariance_type,
                n_init=10,
                random_state=self.settings["random_state"],
            ).fit(self.X)
        seconds = time.perf_counter() - begin
        assert self.X is not None
        total = float(em.score(self.X) * len(self.X))
        self.rivals.append(Rival("scikit-learn's EM, n_init=10", total, seconds))

    def log_likelihood(self) -> float | None:
        return None if self.X is None else float(np.sum(self.mixture.log_prob(self.X)))

    def remarks(self) -> list[str]:
        if self.X is not None:
            matches = moment_match(self.mixture, Samples(self.X))
            return self.notes + remarks(self.mixture, len(self.X), matches)
        assert self.moments is not None
        return self.notes + remarks(self.mixture, self.moments.count)

    def show(self) -> None:
        if self.choices:
            show_table(
                "Number of components by BIC",
                ["components", "log-likelihood", "BIC"],
                [
                    [str(c.n_components), f"{c.log_likelihood:.1f}", f"{c.bic:.1f}"]
                    for c in self.choices
                ],
            )
        show_mixture(self.mixture)
        value = self.log_likelihood()
        if value is not None:
            assert self.X is not None
            bic = self.estimator.bic(self.X)
            aside(f"log-likelihood {value:,.2f}, BIC {bic:,.2f}, {self.seconds:.2g} s")
        for rival in self.rivals:
            aside(
                f"{rival.name}: log-likelihood {rival.log_likelihood:,.2f}, {rival.seconds:.2g} s"
            )
        for remark in self.remarks():
            note(remark)

    def facts(self) -> dict[str, Any]:
        """For ``--json``."""
        data = self.moments if self.X is None else Samples(self.X)
        value = self.log_likelihood()
        return {
            "source": self.source,
            "rows": len(self.X) if self.X is not None else self.moments and self.moments.count,
            "seconds": self.seconds,
            "converged": self.estimator.converged_,
            "log_likelihood": value,
            "bic": None if value is None else self.estimator.bic(self.X),
            "aic": None if value is None else self.estimator.aic(self.X),
            "mixture": described(self.mixture),
            "moments": [match._asdict() for match in moment_match(self.mixture, data)],
            "choices": [
                {"n_components": c.n_components, "log_likelihood": c.log_likelihood, "bic": c.bic}
                for c in self.choices
            ],
            "rivals": [rival._asdict() for rival in self.rivals],
            "remarks": self.remarks(),
        }

    def write_report(self, path: Path, model: Path | None) -> None:
        from momentmix.report import Report, write_report

        write_report(
            path,
            Report(
                self.mixture,
                self.source,
                X=self.X,
                moments=self.moments,
                seconds=self.seconds,
                model_path=None if model is None else str(model),
                choices=self.choices,
                rivals=self.rivals,
                notes=self.notes,
            ),
        )


def _number(components: str) -> int | None:
    if components == "auto":
        return None
    try:
        return int(components)
    except ValueError:
        raise ValueError(f"-k is a whole number or 'auto', got {components!r}") from None
