"""Ctrl-C is noted, and raises only where a step takes too long or somebody asks twice."""

import signal
import threading

import numpy as np
import pytest

from momentmix import GaussianMixture, MomentTensors
from momentmix.support.stopping import breakable, stoppable, stopped


@pytest.fixture(autouse=True)
def python_handles_it():
    """Whatever tests of Spark, which handles Ctrl-C itself, have left behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press():
    signal.raise_signal(signal.SIGINT)


def test_the_first_is_noted_and_the_second_raises():
    with stoppable():
        assert not stopped()
        press()
        assert stopped()
        with pytest.raises(KeyboardInterrupt):
            press()
    assert not stopped()


def test_the_outermost_work_is_stopped_as_a_whole():
    with stoppable():
        with stoppable():
            press()
        assert stopped()
    assert not stopped()
    with pytest.raises(KeyboardInterrupt):
        press()


def test_a_long_step_is_broken_off():
    with stoppable():
        with pytest.raises(KeyboardInterrupt), breakable():
            press()
        assert stopped()


def test_errors_leave_nothing_behind():
    def fail():
        with stoppable():
            press()
            raise ValueError("on the way")

    with pytest.raises(ValueError, match="on the way"):
        fail()
    assert not stopped()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("interrupts", [False, True])
def test_a_handler_of_somebody_else_decides(interrupts):
    came = []

    def handle(number, frame):
        came.append(number)
        if interrupts:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    try:
        with stoppable():
            press()
            assert stopped() == interrupts
        assert signal.getsignal(signal.SIGINT) is handle
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT]


def test_in_another_thread_nothing_is_handled():
    seen = []

    def work():
        with stoppable():
            seen.append(signal.getsignal(signal.SIGINT) is signal.default_int_handler)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True]


def test_a_pass_over_rows_elsewhere_is_broken_off(rng):
    """A fit that has nothing yet is refused as a whole, and leaves the estimator as it was."""
    X = rng.normal(size=(300, 2))

    def batches():
        yield X[:100]
        press()
        yield X[100:]

    fit = GaussianMixture(2, random_state=0).fit(X)
    before = fit.means_
    with pytest.raises(KeyboardInterrupt):
        fit.fit_batches(batches)
    np.testing.assert_array_equal(fit.means_, before)
    with pytest.raises(KeyboardInterrupt):
        MomentTensors.from_batches(batches(), 2)
