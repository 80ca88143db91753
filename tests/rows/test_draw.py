"""Rows drawn from blocks: the same whatever the sequence, and right on average."""

import pickle
from functools import reduce
from itertools import permutations
from operator import add

import numpy as np
import pytest

from momentmix.blocks.block_rows import Block
from momentmix.rows.elsewhere import draw_from


def blocks(rng, count=4, p=50, n=2):
    return [(rng.normal(size=(p, n)), rng.uniform(0.1, 5, p)) for _ in range(count)]


def content(draw, most):
    draw = draw.lowest(most)
    order = np.argsort(draw.numbers)
    return draw.limit, draw.rows.X[order], draw.weights[order]


@pytest.mark.parametrize("of", [None, 4])
def test_the_sequence_does_not_matter(rng, of):
    most = 30
    draws = [draw_from(X, w, most, Block(i, of)) for i, (X, w) in enumerate(blocks(rng))]
    limit, rows, weights = content(reduce(add, draws), most)
    assert len(rows) == most
    for order in permutations(range(4)):
        a, b, c, d = (draws[i] for i in order)
        for merged in (reduce(add, (a, b, c, d)), (a + b) + (c + d)):
            again = content(merged, most)
            assert again[0] == limit
            np.testing.assert_array_equal(again[1], rows)
            np.testing.assert_array_equal(again[2], weights)


def test_sums_over_draws_are_right_on_average(rng):
    """For rows of very different weights, one of which is most of the whole."""
    X, w = rng.normal(size=(200, 1)), rng.exponential(size=200) ** 2
    w[7] = w.sum()
    totals = []
    for i in range(600):
        draw = draw_from(X, w, 40, Block(i)).lowest(40)
        assert len(draw.rows) == 40
        totals.append([draw.counts.sum(), draw.counts @ draw.rows.X[:, 0]])
    totals = np.array(totals)
    errors = totals.std(axis=0) / np.sqrt(len(totals))
    assert np.all(np.abs(totals.mean(axis=0) - [w.sum(), w @ X[:, 0]]) < 3.5 * errors)


def test_where_all_rows_are_drawn_each_counts_for_itself(rng):
    given = blocks(rng)
    draw = reduce(add, [draw_from(X, w, 1000, Block(i)) for i, (X, w) in enumerate(given)])
    assert draw.whole
    np.testing.assert_array_equal(draw.counts, np.concatenate([w for _, w in given]))
    np.testing.assert_array_equal(draw.rows.X, np.concatenate([X for X, _ in given]))


def test_rows_that_do_not_count_are_left_out():
    X = np.array([[1.0, 2.0], [np.nan, np.nan], [np.nan, 3.0], [4.0, 5.0]])
    draw = draw_from(X, np.array([1.0, 1.0, 1.0, 0.0]), 10, Block(0))
    np.testing.assert_array_equal(draw.rows.X, X[[0, 2]])


def test_rows_of_equal_weight_are_drawn_without_a_number_for_each():
    """As often as with a number for each: all alike, from blocks of any size, right on average."""
    sizes, most = (30, 150, 60), 40
    counted, totals, places = np.zeros(3), [], np.zeros(240)
    for i in range(800):
        parts, at = [], 0
        for j, p in enumerate(sizes):
            X = np.arange(at, at + p, dtype=float)[:, None]
            parts.append(draw_from(X, None, most, Block(3 * i + j)))
            at += p
        draw = reduce(add, parts).lowest(most)
        assert len(draw.rows) == most
        assert np.all(draw.numbers < draw.limit)
        rows = draw.rows.X[:, 0].astype(int)
        places[rows] += 1
        counted += np.histogram(rows, [0, 30, 180, 240])[0]
        totals.append(draw.counts.sum())
    np.testing.assert_allclose(counted / counted.sum(), np.array(sizes) / 240, atol=0.01)
    expected = 800 * most / 240
    assert np.all(np.abs(places - expected) < 5 * np.sqrt(expected))
    error = np.std(totals) / np.sqrt(len(totals))
    assert abs(np.mean(totals) - 240) < 3.5 * error


def test_no_more_rows_travel_than_are_asked_for(rng):
    X = rng.normal(size=(500, 2))
    draw = draw_from(X, np.ones(500), 20, Block(0))  # of blocks that nobody has counted
    assert len(draw.rows) == 500
    assert len(draw_from(X, None, 20, Block(0)).rows) == 20
    sent = pickle.loads(pickle.dumps(draw))
    assert len(sent.rows) == 20
    assert sent.limit > sent.numbers.max()


def test_noise_goes_with_its_rows(rng):
    X = rng.normal(size=(30, 2))
    own = rng.uniform(1, 2, (30, 2))
    common, other = (draw_from(X, None, 100, Block(i), 0.5) for i in (0, 1))
    assert (common + other).rows.noise.shared
    mixed = common + draw_from(X, None, 100, Block(2), own)
    assert not mixed.rows.noise.shared
    found = {tuple(row): tuple(v) for row, v in zip(mixed.rows.X, mixed.rows.noise_variances(),
                                                    strict=True)}  # fmt: skip
    assert len(mixed.rows) == 60
    assert all(found[tuple(row)] == tuple(v) for row, v in zip(X, own, strict=True))
    exact = draw_from(X + 9, None, 100, Block(3)) + draw_from(X, None, 100, Block(4), own)
    variances = dict(zip(map(tuple, exact.rows.X), exact.rows.noise_variances(), strict=True))
    assert not np.any(variances[tuple(X[0] + 9)])
