"""Rows that lie elsewhere, in blocks: on a cluster, in files, in a database, in a stream.

Everything about them is one operation: a function of a block of rows, run where the block is, and
its results added up (``BlockRows.total``). What travels are sums and parameters, never rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np

from momentmix.support.array import Array

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")
#: What a block may give: numbers, arrays, moments, whatever has a +; or a tuple of such things.
Summand: TypeAlias = Any
#: A function of the rows and weights (or None) of one block, and of parameters common to all.
BlockFunction: TypeAlias = Callable[Concatenate[np.ndarray, np.ndarray | None, Parameters], Result]


class Block(NamedTuple):
    """Which block of all it is."""

    number: int
    of: int | None = None  # how many there are, where that is known before they are read


class BlockRows:
    """Rows (p, n) in blocks, and their weights; ``n_passes`` counts how often they were read.

    ``names`` are those of the columns, if they have any. ``noisy`` tells whether the rows have
    known noise, and ``again`` whether they can be read more than once. Blocks on a device are like
    ``device``, an array without rows.
    """

    n: int
    names: Sequence[str] | np.ndarray | None = None
    noisy: bool = False
    device: Array | None = None
    p: int | None = None  # rows, where that is known before they are read
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
        the block is. Where rows have noise, it is given that of the block as ``noise_covariance``;
        and which block it is, if one of ``named`` is ``block=EACH``.
        """
        raise NotImplementedError


#: Stands for the ``Block`` that each call of a function is about.
EACH = Block(-1)


def of_block(named: dict[str, Any], block: Block) -> dict[str, Any]:
    """Named arguments for one block."""
    # A Block that has travelled to a worker is EACH, but no longer the same object.
    return {
        name: block if isinstance(value, Block) and value == EACH else value
        for name, value in named.items()
    }


def plus(a: Summand, b: Summand) -> Summand:
    """a + b, part by part where they are tuples; None stays None."""
    if isinstance(a, tuple):
        return tuple(plus(x, y) for x, y in zip(a, b, strict=True))
    return None if a is None else a + b
