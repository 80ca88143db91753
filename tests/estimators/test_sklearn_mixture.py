"""Scikit-learn's own tests of GaussianMixture, run from its installation on momentmix's class.

Left out are those of its private functions, of the words of its errors, and of what
docs/switching.md names as different; each with its reason.
"""

import inspect
import itertools
from functools import partial

import numpy as np
import pytest

from momentmix import GaussianMixture

theirs = pytest.importorskip("sklearn.mixture.tests.test_gaussian_mixture")


PRIVATE = "asks for private functions or attributes of scikit-learn's"
WORDS = "asks for the words of scikit-learn's errors"
SEARCH = "a fit is a search, and no single EM run of max_iter steps"
ARRAYS = "rows in other array libraries are not taken yet"
LEFT_OUT = {
    "test_check_means": WORDS,
    "test_check_precisions": WORDS,
    "test_check_weights": WORDS,
    "test_compute_log_det_cholesky": PRIVATE,
    "test_gaussian_mixture_all_init_does_not_estimate_gaussian_parameters": PRIVATE,
    "test_gaussian_mixture_array_api_compliance": ARRAYS,
    "test_gaussian_mixture_estimate_log_prob_resp": PRIVATE,
    "test_gaussian_mixture_fit_convergence_warning": SEARCH,
    "test_gaussian_mixture_log_probabilities": PRIVATE,
    "test_gaussian_mixture_precisions_init": PRIVATE,
    "test_gaussian_mixture_precisions_init_diag": PRIVATE,
    "test_gaussian_mixture_raises_where_array_api_not_implemented": ARRAYS,
    "test_gaussian_mixture_setting_best_params": PRIVATE,
    "test_gaussian_suffstat_sk_spherical": PRIVATE,
    "test_multiple_init": "the default of n_init is no single start here",
    "test_regularisation": "reg_covar=0 on degenerate data is a warning here, not an error",
    "test_sample": WORDS,
    "test_suffstat_sk_diag": PRIVATE,
    "test_suffstat_sk_full": PRIVATE,
    "test_suffstat_sk_tied": PRIVATE,
    "test_warm_start": SEARCH,
}
#: They compare likelihoods, which a fit maximises that has no prior.
OF_LIKELIHOODS = ("test_init", "test_monotonic_likelihood", "test_score")
#: What they ask of float32 is an error in its last digit, where ours is another.
IN_DOUBLE = ("test_score", "test_fitted_precision_covariance_concistency")


def cases(function):
    """The arguments that pytest would call a test with."""
    marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    choices = []
    for mark in marks:
        names = mark.args[0]
        names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)
        values = [v if len(names) > 1 else (v,) for v in mark.args[1]]
        choices.append([dict(zip(names, value, strict=True)) for value in values])
    wanted = inspect.signature(function).parameters
    if "global_dtype" in wanted:
        kinds = [np.float64] if function.__name__ in IN_DOUBLE else [np.float32, np.float64]
        choices.append([{"global_dtype": kind} for kind in kinds])
    if "global_random_seed" in wanted:
        choices.append([{"global_random_seed": 42}])
    for chosen in itertools.product(*choices):
        yield {name: value for part in chosen for name, value in part.items()}


NAMES = [name for name in dir(theirs) if name.startswith("test_") and name not in LEFT_OUT]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_as_scikit_learn_does(name, monkeypatch):
    ours = partial(GaussianMixture, prior=None) if name in OF_LIKELIHOODS else GaussianMixture
    monkeypatch.setattr(theirs, "GaussianMixture", ours)
    function = getattr(theirs, name)
    for arguments in cases(function):
        function(**arguments)
