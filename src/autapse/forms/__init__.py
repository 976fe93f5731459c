"""The few recurrence forms that all cells parametrise; each has its reference step and its Jacobian."""

from autapse.forms.activations import ACTIVATIONS, Activation, modrelu
from autapse.forms.base import Form, State
from autapse.forms.chain import Chain
from autapse.forms.gru import GatedRecurrent
from autapse.forms.leaky import Leaky
from autapse.forms.lstm import LongShortTerm
from autapse.forms.shared_gate import SharedGate
from autapse.forms.ugrnn import UpdateGate

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Chain",
    "Form",
    "GatedRecurrent",
    "Leaky",
    "LongShortTerm",
    "SharedGate",
    "State",
    "UpdateGate",
    "modrelu",
]
