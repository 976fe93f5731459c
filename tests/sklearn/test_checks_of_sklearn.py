"""scikit-learn's own checks of estimators: X is two-dimensional there, so that its rows are series with one channel."""

import warnings

from sklearn.utils.estimator_checks import parametrize_with_checks

from autapse.sklearn import RecurrentClassifier, RecurrentRegressor

SMALL = {"preset": "none", "hidden_size": 8, "steps": 60, "batch_size": 16, "learning_rate": 0.03, "random_state": 0}
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "a weight of 2 is not the same as two copies of a series, because "
    "the copies get into other batches",
    # test_estimators.py has the same check with the tolerance of float32
    "check_methods_subset_invariance": "torch's products of float32 may differ in the last bit with the number of "
    "rows, and 1e-7 is allowed",
}


@parametrize_with_checks(
    [
        RecurrentClassifier(readout="mean-max", **SMALL),
        RecurrentRegressor(front="frames:size=10", missing="mask", **SMALL),
    ],
    expected_failed_checks=lambda _: EXPECTED,
)
def test_checks_of_scikit_learn(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # the checks cause warnings on purpose
        check(estimator)
