"""Rows that lie elsewhere, in blocks: on a cluster, in files, in a database, in a stream.

They have a single operation, ``BlockRows.total``: run a function where each block is, and add up
its results. Only sums and parameters travel, never rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np

from momentmix.support.array import Array

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")
#: The result for a block: numbers, arrays, moments, anything with +, or a tuple of these.
Summand: TypeAlias = Any
#: A function of the rows and weights (or None) of one block, and of parameters common to all.
BlockFunction: TypeAlias = Callable[Concatenate[np.ndarray, np.ndarray | None, Parameters], Result]


class Block(NamedTuple):
    """The number of a block among all blocks."""

    number: int
    of: int | None = None  # how many blocks there are, if known before they are read


class BlockRows:
    """Rows (p, n) in blocks, and their weights; ``n_passes`` counts how often they were read.

    ``names`` are the names of the columns, if they have any. ``noisy`` says whether the rows have
    known noise, and ``again`` whether they can be read more than once. For blocks on a device,
    ``device`` is an empty array there.
    """

    n: int
    names: Sequence[str] | np.ndarray | None = None
    noisy: bool = False
    device: Array | None = None
    p: int | None = None  # the number of rows, if known before they are read
    again: bool = True
    n_passes: int = 0

    def total(
        self,
        function: BlockFunction[Parameters, Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result:
        """Σ function(X, weights, *arguments, **named) over the blocks; one pass.

        ``function`` returns something that can be added, or a tuple of such things. It runs where
        the block is. If the rows have noise, it gets that of the block as ``noise_covariance``. A
        named argument ``EACH`` is replaced by the ``Block`` in question.
        """
        raise NotImplementedError


#: A placeholder that each call replaces by its ``Block``.
EACH = Block(-1)


def of_block(named: dict[str, Any], block: Block) -> dict[str, Any]:
    """The named arguments for one block, with EACH replaced."""
    # Compared by value, because a worker gets a copy of EACH.
    return {
        name: block if isinstance(value, Block) and value == EACH else value
        for name, value in named.items()
    }


def plus(a: Summand, b: Summand) -> Summand:
    """a + b, part by part where they are tuples; None stays None."""
    if isinstance(a, tuple):
        return tuple(plus(x, y) for x, y in zip(a, b, strict=True))
    return None if a is None else a + b
