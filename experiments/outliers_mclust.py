"""R's mclust with a noise component, from one R process that fits many tables.

Its users supply a first guess of the noise. Here it is the 5 % of rows that are farthest from their
tenth neighbour.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
from sklearn.neighbors import NearestNeighbors

NEIGHBOUR, GUESSED = 10, 0.05

#: Each line of the input is a folder and a number of components; each answer is one line as well.
SCRIPT = """
suppressMessages(library(mclust))
input <- file("stdin", "r")
while (length(line <- readLines(input, n=1)) > 0) {
  job <- strsplit(line, "\\t")[[1]]
  X <- as.matrix(read.csv(file.path(job[1], "rows.csv"), header=FALSE))
  noise <- scan(file.path(job[1], "noise.csv"), quiet=TRUE) == 1
  begin <- proc.time()[["elapsed"]]
  fit <- try(Mclust(X, G=as.integer(job[2]), modelNames="VVV", initialization=list(noise=noise),
                    verbose=FALSE), silent=TRUE)
  seconds <- proc.time()[["elapsed"]] - begin
  if (is.null(fit) || inherits(fit, "try-error")) { cat("failed\\n"); next }
  write.table(t(fit$parameters$mean), file.path(job[1], "means.csv"), sep=",",
              row.names=FALSE, col.names=FALSE)
  write(fit$classification - 1, file.path(job[1], "labels.csv"), ncolumns=1)
  cat(seconds, "\\n", sep="")
}
"""


@lru_cache(maxsize=1)
def available() -> bool:
    """Whether there is an R with mclust."""
    if shutil.which("Rscript") is None:
        return False
    command = ["Rscript", "-e", "library(mclust)"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@lru_cache(maxsize=1)
def _process() -> subprocess.Popen[str]:
    """The R process, which ends when its input does."""
    return subprocess.Popen(
        ["Rscript", "-e", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def first_guess(X: np.ndarray) -> np.ndarray:
    """Which rows are farthest from their tenth neighbour."""
    distances, _ = NearestNeighbors(n_neighbors=NEIGHBOUR + 1).fit(X).kneighbors(X)
    return distances[:, -1] > np.quantile(distances[:, -1], 1 - GUESSED)


def fit(X: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Means (m, n), labels (p,) with -1 for noise, and seconds; None where mclust finds no fit."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        np.savetxt(place / "rows.csv", X, delimiter=",")
        np.savetxt(place / "noise.csv", first_guess(X), fmt="%d")
        process = _process()
        process.stdin.write(f"{folder}\t{m}\n")
        process.stdin.flush()
        answer = process.stdout.readline().strip()
        if not answer:
            raise RuntimeError(
                "R ended while mclust fitted a table; what it said is above. Run the experiment "
                "again: it goes on where it was."
            )
        if answer == "failed":
            return None
        means = np.loadtxt(place / "means.csv", delimiter=",", ndmin=2)
        labels = np.loadtxt(place / "labels.csv").astype(int)
    return means, labels, float(answer)
