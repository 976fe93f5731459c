"""Readouts: linear maps from the states of any recurrent network to targets, solved rather than trained."""

from autapse.readouts.base import LinearReadout
from autapse.readouts.logistic import Logistic
from autapse.readouts.recursive import RecursiveLeastSquares
from autapse.readouts.ridge import Ridge

__all__ = ["LinearReadout", "Logistic", "RecursiveLeastSquares", "Ridge"]
