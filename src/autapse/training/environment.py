"""What the bits of a run depend on, apart from its config, and the note for each change."""

from __future__ import annotations

from dataclasses import dataclass

from autapse import __version__
from autapse.records import Record
from autapse.results.machine import software


@dataclass(frozen=True, kw_only=True)
class Environment(Record):
    """Where a part of a run was trained."""

    autapse: str
    """Version of autapse."""
    torch: str
    """Version of torch."""
    torch_instructions: str
    """Instruction set that torch uses on the CPU."""
    kernels: str | None
    """Instruction set of autapse's kernels; None if plain PyTorch runs instead (AUTAPSE_NATIVE=0)."""
    threads: int
    """Threads of one process."""

    @classmethod
    def present(cls) -> Environment:
        """The environment of this process."""
        facts = software()
        return cls(
            autapse=__version__,
            torch=str(facts["torch"]),
            torch_instructions=facts["torch_instruction_set"],
            kernels=facts["native"]["instruction_set"],
            threads=facts["threads"],
        )

    def changes(self, now: Environment) -> list[str]:
        """One sentence for each difference that can change the bits."""
        rounding = "the results may differ by rounding"
        # autapse's kernels give the same bits for every number of threads; torch's sums do not.
        by_threads = f"{rounding} in torch's operations, not in autapse's kernels"
        pairs = [
            (f"autapse {self.autapse}", f"autapse {now.autapse}", rounding),
            (f"torch {self.torch}", f"torch {now.torch}", rounding),
            (f"torch on {self.torch_instructions}", f"torch on {now.torch_instructions}", rounding),
            (self._kernels(), now._kernels(), rounding),
            (_threads(self.threads), _threads(now.threads), by_threads),
        ]
        return [f"trained with {old}, continues with {new}: {what}." for old, new, what in pairs if old != new]

    def _kernels(self) -> str:
        return "plain PyTorch" if self.kernels is None else f"autapse's {self.kernels} kernels"


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"
