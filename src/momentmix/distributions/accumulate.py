"""Moments of files, with checkpoints, so that a run that was killed continues where it stopped.

A checkpoint is one file with the moments of the rows so far and the position of the next row. It is
replaced as a whole, so every row is counted exactly once, whenever the run is killed. It also holds
the moments of the files already finished, in case the current file has to be corrected. A table
that may change when it is read again, such as a query, gets no checkpoint.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from momentmix.distributions.moment_state import MEMBERS
from momentmix.distributions.moment_tensors import MomentTensors
from momentmix.files.arrays import checksum, read_arrays, write_arrays
from momentmix.files.tables import BEGINNING, Piece, Place, Table, TableError
from momentmix.files.writing import check_writable, written_whole
from momentmix.support.array import Array, as_like

#: What is done about rows with gaps: they are left out, they are refused, or each moment averages
#: over the rows that have its values.
Gaps: TypeAlias = Literal["drop", "error", "pairwise"]
#: Seconds between checkpoints, which is the work that a crash can lose. A round number that was not
#: tuned; writing more often would cost time.
CHECKPOINT_SECONDS = 2.0
_MEMBERS = ("note", "checksum", *MEMBERS, *(f"before_{name}" for name in MEMBERS))


class Counted(NamedTuple):
    """The moments of all rows before a place in one of the files."""

    moments: MomentTensors
    file: int
    place: Place
    dropped: int = 0  # rows left out for their gaps


class CheckpointError(ValueError):
    """A checkpoint that is damaged or belongs to another run."""


def checkpoint_path(output: str | PathLike[str]) -> Path:
    output = Path(output)
    return output.with_name(output.name + ".checkpoint")


class Pass:
    """One pass over tables into ``output``; after a crash, the same call continues it.

    Parameters
    ----------
    tables : the tables in the order in which they are read, with their columns chosen
    order : the highest order of the moments
    output : the file for the moments; until it is complete, the checkpoint is beside it
    missing : what is done about rows with gaps
    device : an array on the device that does the sums; None for the main memory
    """

    def __init__(
        self,
        tables: Sequence[Table],
        order: int,
        output: str | PathLike[str],
        *,
        missing: Gaps = "error",
        device: Array | None = None,
    ) -> None:
        self.tables, self.missing, self.device = tables, missing, device
        first = tables[0]
        self.output, self.checkpoint = Path(output), checkpoint_path(output)
        empty = MomentTensors(
            first.width,
            order,
            missing="pairwise" if missing == "pairwise" else "error",
            feature_names=first.columns,
        )
        self.counted = self._begun = Counted(empty, 0, BEGINNING)
        check_writable(self.output)
        check_writable(self.checkpoint)
        self._changed = [table.modified_at() for table in self.tables]
        self.resumed = self.checkpoint.exists()
        if self.resumed:
            self._resume()

    @property
    def moments(self) -> MomentTensors:
        return self.counted.moments

    def run(
        self, callback: Callable[[int, float], None] = lambda rows, share: None
    ) -> MomentTensors:
        """Read to the end and save; ``callback`` gets the rows and the share of the bytes read."""
        sizes = np.array([table.size for table in self.tables], dtype=float)
        saved = time.monotonic()
        try:
            for i in range(self.counted.file, len(self.tables)):
                table = self.tables[i]
                place = self.counted.place if i == self.counted.file else BEGINNING
                if place == BEGINNING:
                    self._begun = self.counted._replace(file=i, place=BEGINNING)
                for piece in table.pieces(place):
                    moments, dropped = self._with(piece, table)
                    # One assignment, so that rows and position agree if Ctrl-C comes here.
                    self.counted = Counted(moments, i, piece.next, self.counted.dropped + dropped)
                    done = sizes[:i].sum() + piece.share * sizes[i]
                    callback(moments.count, float(done / max(sizes.sum(), 1)))
                    if time.monotonic() - saved > CHECKPOINT_SECONDS:
                        self._save()
                        saved = time.monotonic()
        except TableError:
            # The file has to be corrected and read anew, so keep only the files before it.
            self._keep_whole_files()
            raise
        except BaseException:  # Ctrl-C loses nothing
            self._save()
            raise
        if self.moments.count == 0:
            raise TableError(f"{self.tables[0].label}: no rows")
        self.moments.save(self.output)
        self.checkpoint.unlink(missing_ok=True)
        return self.moments

    def _with(self, piece: Piece, table: Table) -> tuple[MomentTensors, int]:
        """The moments including a piece, and how many rows of the piece were left out."""
        table.refuse_gaps(piece, self.missing != "error")
        rows = piece.rows
        if self.missing == "drop":
            rows = rows[~np.isnan(rows).any(axis=1)]
        there = rows if self.device is None else as_like(rows, self.device)
        try:
            return self.moments.copy().update(there), len(piece.rows) - len(rows)
        except ValueError as error:
            numbers = f"rows {piece.first.rows} to {piece.next.rows - 1}"
            raise TableError(f"{table.label}, {numbers}: {error}") from error

    def _keep_whole_files(self) -> None:
        if self._begun.moments.count == 0:
            self.checkpoint.unlink(missing_ok=True)
        else:
            self.counted = self._begun
            self._save()

    def _settings(self) -> dict[str, object]:
        return {
            "files": [table.identity for table in self.tables],
            "columns": self.tables[0].columns,
            "order": self.moments.order,
            "missing": self.missing,
            "options": str(self.tables[0].options),
        }

    def _save(self) -> None:
        if not all(table.lasting for table in self.tables):  # reading again may give other rows
            return
        moments, file, place, dropped = self.counted
        states = [[t.size, changed] for t, changed in zip(self.tables, self._changed, strict=True)]
        counts = {"dropped": dropped, "dropped_before": self._begun.dropped}
        where = {"file": file, "place": list(place), "states": states, **counts}
        note = json.dumps({**self._settings(), **where})
        before = {f"before_{name}": x for name, x in self._begun.moments.state().items()}
        arrays = {"note": np.array(note), **moments.state(), **before}
        arrays["checksum"] = np.array(checksum(arrays))
        with written_whole(self.checkpoint) as target:
            write_arrays(target, arrays)

    def _resume(self) -> None:
        again = f"delete {self.checkpoint} to start over"
        try:
            state = read_arrays(self.checkpoint, _MEMBERS)
            if "checksum" not in state or str(state.pop("checksum")) != checksum(state):
                raise ValueError("its checksum is not that of its contents")
            note = json.loads(str(state.pop("note")))
            before = {k[7:]: state.pop(k) for k in list(state) if k.startswith("before_")}
            moments, begun = MomentTensors.from_state(state), MomentTensors.from_state(before)
            place, at, states = Place(*note["place"]), note["file"], list(note["states"])
            dropped, dropped_before = note["dropped"], note["dropped_before"]
            numbers = (at, *place, dropped, dropped_before)
            if not all(type(number) is int and number >= 0 for number in numbers):
                raise ValueError("its position is not a place in a file")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise CheckpointError(
                f"the checkpoint {self.checkpoint} is damaged ({error}); {again}"
            ) from error
        for name, value in self._settings().items():
            if note.get(name) != value:
                raise CheckpointError(
                    f"the checkpoint {self.checkpoint} belongs to another run: its {name} "
                    f"differ(s) from what was asked for now; {again}"
                )
        read = at + (place != BEGINNING)  # files with rows that have been counted
        for table, changed, state in zip(self.tables[:read], self._changed, states, strict=False):
            if [table.size, changed] != state:
                raise CheckpointError(
                    f"{table.label} has changed since its rows were counted in the checkpoint "
                    f"{self.checkpoint}; {again}"
                )
        self.counted = Counted(moments, at, place, dropped)
        self._begun = Counted(begun, at, BEGINNING, dropped_before)
