"""A controller beside a memory of vectors, which heads read and write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from autapse import checks
from autapse.cells.addressing import SIMILARITIES, draw, most_probable
from autapse.cells.base import Cell, Note, make_cell, uniform_
from autapse.cells.enclosing import check_place, total
from autapse.cells.heads import Heads
from autapse.cells.named import CELLS, cell_class, spec_of
from autapse.forms import State
from autapse.gradient.function import without_autocast

EMPTY = 1e-6  # every number of a memory that is not learned, before the first step


class MemoryParts(NamedTuple):
    """The state of a `Memory` cell, taken apart. Each tensor may have more leading dimensions."""

    controller: State  # the controller's states, the first one is its output
    reads: Tensor  # [B, read_heads, width]
    memory: Tensor  # [B, slots, width]
    addresses: Tensor  # [B, read_heads + write_heads, slots], those of the read heads first
    log_probability: Tensor | None  # [B, 1] of all draws so far; None unless hard is "sample"


class MemoryWeights(NamedTuple):
    """What a step needs, built once per call."""

    controller: Any  # the result of the controller's prepare()
    reads: Tensor | None  # [read_heads·width, G], what the reads add to the drive; None if the controller computes it


class Memory(Cell):
    """h' = controller([x, r], h); M' = M ∘ (1 − w⊗e) + w⊗a; r' = w·M', w = address(key, M), all from h'

    The neural Turing machine (Graves et al. 2014), the textbook's section 10.7.5. A memory M of `slots` vectors is
    beside a controller, which is any cell. At each step one linear map of the controller's output h' gives each head
    its parameters. The heads choose addresses w, which are weights over the slots. Then the write heads erase (e) and
    add (a), and the read heads read r'. The output is [h', r'], of size hidden_size + read_heads·width.

    Content addressing: w = softmax(β·similarity(key, slot)). Location addressing: the address of the step before is
    moved by up to `shifts` slots and sharpened, wᵞ/Σwᵞ. With both, a gate first mixes the content address with the
    address of the step before. All heads choose by the memory before the step; reads see what this step writes.

    The states are [h, r], the controller's other states, the memory, the addresses (read heads first), and with
    hard="sample" the log-probability of all draws.

    Args:
        hidden_size: units of the controller.
        controller: the cell beside the memory: a name with options, as in "ernn:inner_steps=2", a cell class, or a
            pair of a class and its options. It reads the state of one step before, and its output is its first state.
            It may solve an equation at each step. "feedforward" has no state of its own.
        slots: N, the number of vectors.
        width: W, the size of each.
        read_heads: number of heads that read.
        write_heads: number of heads that write.
        addressing: "content", "location" or "content+location".
        similarity: of a key and a slot: "cosine" or "dot".
        shifts: the largest move of a head in one step.
        hard: "no": heads read and write all slots, weighted by w. "sample" and "straight-through": each head draws one
            slot with the probabilities w. With "sample", training estimates the gradient of w by REINFORCE. With
            "straight-through", the gradient is that of the weights w, as if the slot had not been drawn.
        greedy: with a hard address, take the most probable slot in evaluation mode. False: draw there too.
        initial_memory: the memory before the first step: "constant" (10⁻⁶ everywhere) or "learned".
        initial_address: where heads are before the first step: at the "first" slot, "uniform" over all, or "learned".

    >>> layer = autapse.Recurrent(autapse.cells.Memory, 3, 4, slots=6, width=5)
    >>> output, h_n = layer(torch.zeros(5, 2, 3))
    >>> output.shape, [tuple(state.shape) for state in h_n]
    (torch.Size([5, 2, 9]), [(1, 2, 9), (1, 2, 4), (1, 2, 30), (1, 2, 12)])
    """

    renamed: ClassVar[dict[str, str]] = {"controller": "controller_name"}

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        controller: Any = "lstm",
        slots: int = 32,
        width: int = 16,
        read_heads: int = 1,
        write_heads: int = 1,
        addressing: str = "content+location",
        similarity: str = "cosine",
        shifts: int = 1,
        hard: str = "no",
        greedy: bool = True,
        initial_memory: str = "constant",
        initial_address: str = "first",
        **factory: Any,
    ):
        super().__init__(input_size, hidden_size, bias, **factory)
        self.slots = checks.integer("slots", slots, minimum=1)
        self.width = checks.integer("width", width, minimum=1)
        self.read_heads = checks.integer("read_heads", read_heads, minimum=1)
        self.write_heads = checks.integer("write_heads", write_heads, minimum=1)
        self.addressing = checks.one_of("addressing", addressing, ("content", "location", "content+location"))
        self.similarity = checks.one_of("similarity", similarity, SIMILARITIES)
        self.shifts = checks.integer("shifts", shifts, minimum=1)
        self.hard = checks.one_of("hard", hard, ("no", "sample", "straight-through"))
        self.greedy = checks.boolean("greedy", greedy)
        self.initial_memory = checks.one_of("initial_memory", initial_memory, ("constant", "learned"))
        self.initial_address = checks.one_of("initial_address", initial_address, ("first", "uniform", "learned"))
        self._check_options()
        kind, options = cell_class(controller, "controller")
        self.controller_name = spec_of(kind, options)
        how = (self.by_content, self.by_location, self.similarity, self.shifts)
        self.heads = Heads(self.read_heads, self.write_heads, self.slots, self.width, *how)
        read = self.read_heads * self.width
        self.controller = make_cell(kind, input_size + read, hidden_size, {"bias": bias, **self._factory}, options)
        _check_controller(self.controller)
        self.stencil = self.controller.stencil or (-1,)  # the heads read the memory of the step before
        self.weight_heads = self._parameter(sum(self.heads.sizes), self.controller.output_size)
        self.bias_heads = self._bias(sum(self.heads.sizes))
        self.first_memory = self._parameter(slots, width) if initial_memory == "learned" else None
        self.first_address = self._parameter(self.heads.count, slots) if initial_address == "learned" else None
        self._reset_own()

    def _check_options(self) -> None:
        """An option that has no effect is an error."""
        if not self.by_location:
            for name, value, default in (
                ("shifts", self.shifts, 1),
                ("initial_address", self.initial_address, "first"),
            ):
                if value != default:
                    checks.fail(name, f"be {default!r} with addressing='content', which uses no location", value)
        elif 2 * self.shifts + 1 > self.slots:
            remedy = "Use more slots." if self.shifts == 1 else ""
            checks.fail("shifts", f"be at most (slots − 1)/2 with slots = {self.slots}", self.shifts, remedy)
        if not self.by_content and self.similarity != "cosine":
            checks.fail("similarity", "be 'cosine', the default, with addressing='location'", self.similarity)
        if self.hard == "no" and not self.greedy:
            checks.fail("greedy", "be True with hard='no', which draws nothing", self.greedy)

    @property
    def by_content(self) -> bool:
        """Whether heads look for a key."""
        return self.addressing != "location"

    @property
    def by_location(self) -> bool:
        """Whether heads move from where they are."""
        return self.addressing != "content"

    @property
    def draws(self) -> bool:  # type: ignore[override]
        """Whether a step draws random numbers."""
        return self._draws_slots or self.controller.draws

    @property
    def _draws_slots(self) -> bool:
        return self.hard != "no" and (self.training or not self.greedy)

    @property
    def depends_on_position(self) -> bool:  # type: ignore[override]
        return self.controller.depends_on_position

    # States -----------------------------------------------------------------------------------------------------

    @property
    def state_sizes(self) -> tuple[int, ...]:
        first, *others = self.controller.state_sizes
        drawn = (1,) if self.hard == "sample" else ()
        read, memory, addresses = self.read_heads * self.width, self.slots * self.width, self.heads.count * self.slots
        return (first + read, *others, memory, addresses, *drawn)

    def parts(self, state: State) -> MemoryParts:
        """Take the state apart. Each tensor is [..., size]."""
        rest = list(state)
        chance = rest.pop() if self.hard == "sample" else None
        output, *others, memory, addresses = rest
        h, reads = output.split([self.controller.output_size, self.read_heads * self.width], dim=-1)
        return MemoryParts(
            (h, *others),
            reads.unflatten(-1, (self.read_heads, self.width)),
            memory.unflatten(-1, (self.slots, self.width)),
            addresses.unflatten(-1, (self.heads.count, self.slots)),
            chance,
        )

    def joined(self, parts: MemoryParts) -> State:
        """The inverse of `parts`."""
        (h, *others), reads, memory, addresses, chance = parts
        output = torch.cat([h, reads.flatten(-2)], dim=-1)
        drawn = () if chance is None else (chance,)
        return (output, *others, memory.flatten(-2), addresses.flatten(-2), *drawn)

    # Start ------------------------------------------------------------------------------------------------------

    def reset_parameters(self) -> None:
        """Draw the initial parameters again, those of the controller too."""
        self.controller.reset_parameters()
        self._reset_own()

    @torch.no_grad()
    def _reset_own(self) -> None:
        uniform_(self.hidden_size, *(p for p in (self.weight_heads, self.bias_heads) if p is not None))
        if self.first_memory is not None:
            uniform_(self.width, self.first_memory)
        if self.first_address is not None:  # nearly at the first slot
            self.first_address.normal_(std=0.1)
            self.first_address[:, 0] += 5.0

    def initial_state(self, batch: int, like: Tensor) -> State:
        controller = self.controller.initial_state(batch, like)
        if self.first_memory is None:
            memory = like.new_full((batch, self.slots, self.width), EMPTY)
        else:
            memory = self.first_memory.to(like.dtype).expand(batch, -1, -1)
        reads = like.new_zeros(batch, self.read_heads, self.width)
        chance = like.new_zeros(batch, 1) if self.hard == "sample" else None
        return self.joined(MemoryParts(controller, reads, memory, self._first_addresses(batch, like), chance))

    def _first_addresses(self, batch: int, like: Tensor) -> Tensor:
        if self.first_address is not None:
            return torch.softmax(self.first_address, dim=-1).to(like.dtype).expand(batch, -1, -1)
        shape = (batch, self.heads.count, self.slots)
        if self.initial_address == "uniform":
            return like.new_full(shape, 1 / self.slots)
        addresses = like.new_zeros(shape)
        addresses[..., 0] = 1.0
        return addresses

    # Step -------------------------------------------------------------------------------------------------------

    def _split_affine(self) -> tuple[Tensor, Tensor, Tensor | None] | None:
        """The controller's W for the input, its W for the reads, and b. None if its drive is not W·x + b."""
        affine = self.controller.affine() if type(self.controller).drive is Cell.drive else None
        if affine is None:
            return None
        weight, bias = affine
        return weight[:, : self.input_size], weight[:, self.input_size :], bias

    def drive(self, x: Tensor) -> Tensor:
        affine = self._split_affine()
        return x if affine is None else F.linear(x, affine[0], affine[2])

    def prepare(self) -> MemoryWeights:
        affine = self._split_affine()
        return MemoryWeights(self.controller.prepare(), None if affine is None else affine[1].t())

    @property
    def is_solved(self) -> bool:  # type: ignore[override]
        return self.controller.is_solved

    def step(self, u: Tensor, state: State, weights: MemoryWeights, t: int) -> State:
        return self._step(u, state, weights, lambda u, h: self.controller.step(u, h, weights.controller, t))

    def solved_step(self, weights: MemoryWeights, note: Note, u: Tensor, state: State, t: int) -> State:
        solve = self.controller.solved_step
        return self._step(u, state, weights, lambda u, h: solve(weights.controller, note, u, h, t))

    def _step(
        self, u: Tensor, state: State, weights: MemoryWeights, advance: Callable[[Tensor, State], State]
    ) -> State:
        """One step, given that of the controller."""
        with without_autocast(u.device.type):  # half precision is too coarse for addresses
            return self._advanced(u.to(state[0].dtype), state, weights, advance)

    def _advanced(
        self, u: Tensor, state: State, weights: MemoryWeights, advance: Callable[[Tensor, State], State]
    ) -> State:
        controller, reads, memory, addresses, chance = self.parts(state)
        before = reads.flatten(1)
        if weights.reads is None:
            u = self.controller.drive(torch.cat([u, before], dim=-1))
        else:
            u = torch.addmm(u, before, weights.reads)
        controller = advance(u, controller)
        numbers = F.linear(controller[0], self.weight_heads, self.bias_heads)
        if self.hard == "no":
            memory, addresses, reads = self.heads.access(numbers, memory, addresses)
        else:
            commands = self.heads.commands(numbers)
            soft = self.heads.address(commands, memory, addresses)
            addresses, chance = self._choose(soft, chance)
            memory, addresses, reads = self.heads.use(commands, memory, addresses)
        return self.joined(MemoryParts(controller, reads, memory, addresses, chance))

    def _choose(self, soft: Tensor, chance: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """One slot per head, and the log-probability of all draws so far."""
        chosen = draw(soft.detach()) if self._draws_slots else most_probable(soft)
        if chance is None:
            return chosen + (soft - soft.detach()), None
        if self._draws_slots:
            smallest = torch.finfo(soft.dtype).tiny
            chance = chance + (soft * chosen).sum(-1).clamp(min=smallest).log().sum(-1, keepdim=True)
        return chosen, chance

    def log_probability(self, state: State) -> Tensor | None:
        parts = self.parts(state)
        drawn = None if parts.log_probability is None else parts.log_probability.squeeze(-1)
        return total([drawn, self.controller.log_probability(parts.controller)])

    def penalty(self, state: State) -> Tensor | None:
        return self.controller.penalty(self.parts(state).controller)

    def recurrent_matrices(self) -> list[Tensor]:
        return self.controller.recurrent_matrices()

    def place(self, layer: int, layers: int) -> None:
        check_place("controller", self.controller, layers)


def _check_controller(cell: Cell) -> None:
    """A controller is one step, and its output is its first state."""
    one_state = cell.stencil in ((-1,), (-1, 0), ()) and cell.carried_sizes == cell.state_sizes
    if not one_state or not cell.outputs_state:
        rule = "be a cell that reads at most one state before and whose output is its first state"
        checks.fail("controller", rule, type(cell).__name__, "Try 'lstm' or 'gru'.")


CELLS[Memory.__name__.lower()] = Memory  # a deep cell may have a memory
