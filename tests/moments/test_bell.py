import numpy as np
import pytest

import oracles
from momentmix.moments.bell import bell_derivatives, bell_polynomials


@pytest.mark.parametrize("d", range(1, 9))
def test_recursion_is_the_definition(d, rng):
    x = rng.normal(size=d)
    bell = bell_polynomials([np.array([[a]]) for a in x])
    want = [oracles.bell_by_partitions(x[:k]) for k in range(1, d + 1)]
    np.testing.assert_allclose(np.ravel(bell), want, rtol=1e-12)


def test_missing_cumulants_are_zeros(rng):
    x = rng.normal(size=(2, 3, 4))
    short = bell_polynomials([x[0], x[1], None, None, None])
    zeros = [np.zeros((3, 4))] * 3
    np.testing.assert_allclose(short, bell_polynomials([x[0], x[1], *zeros]), rtol=1e-14)


def test_derivatives(rng):
    x, weights = rng.normal(size=6), [0.5, -1.0, 2.0, 0.0, 0.3, 0.7, 1.1]

    def value(y):
        return weights[0] + sum(
            w * oracles.bell_by_partitions(y[:k]) for k, w in enumerate(weights[1:], 1)
        )

    kappa = [np.array([[a]]) for a in x]
    got = bell_derivatives(kappa, bell_polynomials(kappa), weights)
    got = [float(np.squeeze(g)) for g in got]
    np.testing.assert_allclose(got, oracles.gradient(value, x), rtol=1e-11)


def test_arguments_are_left_alone(rng):
    kappa = list(rng.normal(size=(4, 2, 3)))
    before = [k.copy() for k in kappa]
    bell_derivatives(kappa, bell_polynomials(kappa), [1.0] * 5)
    np.testing.assert_array_equal(kappa, before)
