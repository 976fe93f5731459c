"""The forms: the few kinds of steps that all cells have, each with its reference step and its Jacobian."""

from autapse.forms.activations import ACTIVATIONS, Activation, modrelu
from autapse.forms.base import Affine, Form, Scanned, State
from autapse.forms.chaos_free import ChaosFree
from autapse.forms.complex import ComplexModulus
from autapse.forms.crossing import Crossing
from autapse.forms.delays import Delays
from autapse.forms.gru import GatedRecurrent, GlobalGates
from autapse.forms.integrated import INTEGRATORS, Integrated
from autapse.forms.leaky import Leaky
from autapse.forms.linear import LinearRecurrence
from autapse.forms.lstm import LongShortTerm
from autapse.forms.pre_activation import PreActivation
from autapse.forms.shared_gate import SharedGate
from autapse.forms.transitions import Transitions
from autapse.forms.ugrnn import UpdateGate
from autapse.native.operands import KERNELS

__all__ = [
    "ACTIVATIONS",
    "INTEGRATORS",
    "Activation",
    "Affine",
    "ChaosFree",
    "ComplexModulus",
    "Crossing",
    "Delays",
    "Form",
    "GatedRecurrent",
    "GlobalGates",
    "Integrated",
    "Leaky",
    "LinearRecurrence",
    "LongShortTerm",
    "PreActivation",
    "Scanned",
    "SharedGate",
    "State",
    "Transitions",
    "UpdateGate",
    "modrelu",
]

# The forms that have a kernel, in the order of native/src/abi.h.
KERNELS[:] = (
    *(Leaky, Transitions, SharedGate, UpdateGate, GatedRecurrent, LongShortTerm, Delays, PreActivation),
    *(LinearRecurrence, ChaosFree, ComplexModulus, Crossing),
)
