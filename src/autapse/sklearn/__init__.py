"""Estimators with scikit-learn's interface: fit on arrays, then predict. They need scikit-learn."""

try:
    import sklearn  # noqa: F401
except ImportError:
    raise ImportError("autapse.sklearn needs scikit-learn: pip install 'autapse[sklearn]'") from None

from autapse.sklearn.base import RecurrentEstimator
from autapse.sklearn.classifier import RecurrentClassifier
from autapse.sklearn.forecaster import RecurrentForecaster
from autapse.sklearn.labeler import SequenceLabeler
from autapse.sklearn.regressor import RecurrentRegressor

__all__ = ["RecurrentClassifier", "RecurrentEstimator", "RecurrentForecaster", "RecurrentRegressor", "SequenceLabeler"]
