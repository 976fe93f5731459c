"""InnerSteps: K learned steps towards an equilibrium."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from autapse import checks

START = 1e-2  # initial η, as in the ERNN paper


class InnerSteps(nn.Module):
    """h⁽ᵏ⁾ = (1 − η_t⁽ᵏ⁾)·h⁽ᵏ⁻¹⁾ + η_t⁽ᵏ⁾·φ(h⁽ᵏ⁻¹⁾), k = 1…K

    ERNN paper, equation 9. The base of cells that take such steps; not for direct use.
    """

    inner_steps: int | None
    etas: ClassVar[tuple[str, ...]] = ("shared", "per_position", "per_step")
    rate_name: ClassVar[str] = "inner_rate"  # of the parameter that holds η
    _factory: dict[str, Any]

    def _make_rate(self, inner_steps: int | None, eta: Any, max_length: int | None) -> None:
        """Check and store the options, and make the parameter η: [], [max_length, 1] or [max_length, K]."""
        self.inner_steps = None if inner_steps is None else checks.integer("inner_steps", inner_steps, minimum=1)
        is_number = isinstance(eta, int | float) and not isinstance(eta, bool)
        self.eta = checks.number("eta", eta) if is_number else checks.one_of("eta", eta, self.etas)
        self.varies = eta in ("per_position", "per_step")  # whether η depends on the position
        if (max_length is not None) != self.varies:
            names = " or ".join(f'"{name}"' for name in self.etas if name != "shared")
            rule = f'be given with eta="{eta}"' if self.varies else f"be used with eta={names} only"
            checks.fail("max_length", rule, max_length, "It is the number of positions that have their own η.")
        self.max_length = None if max_length is None else checks.integer("max_length", max_length, minimum=1)
        if self.inner_steps is None or is_number:
            self.register_parameter(self.rate_name, None)
            return
        columns = self.inner_steps if eta == "per_step" else 1
        shape = () if self.max_length is None else (self.max_length, columns)
        self.register_parameter(self.rate_name, nn.Parameter(torch.empty(shape, **self._factory)))
        self.reset_rate()

    @property
    def _eta(self) -> Tensor | None:
        return getattr(self, self.rate_name)

    @torch.no_grad()
    def reset_rate(self) -> None:
        """Set every η to its initial value."""
        if self._eta is not None:
            self._eta.fill_(START)

    def rates(self) -> float | Tensor:
        """η as a number, [], or [max_length, K], whose last row is used for all later positions."""
        eta = self._eta
        if eta is None:
            return float(self.eta)
        return eta.expand(-1, self.inner_steps or 1) if self.varies else eta

    def take_steps(self, phi: Callable[[Tensor], Tensor], h: Tensor, t: int) -> Tensor:
        """The state after the inner steps at position t."""
        eta = self.rates()
        for k in range(self.inner_steps or 0):
            now = rate_at(eta, t, k)
            h = (1 - now) * h + now * phi(h)
        return h


def rate_at(rates: float | Tensor, t: int, k: int) -> float | Tensor:
    """η_t⁽ᵏ⁾ from what `InnerSteps.rates` returns. The last position and inner step hold for later ones."""
    if isinstance(rates, Tensor) and rates.dim() == 2:
        return rates[min(t, len(rates) - 1), min(k, rates.shape[1] - 1)]
    return rates
