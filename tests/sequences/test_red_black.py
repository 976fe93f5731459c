"""Where positions lie and who their neighbours are: against a plain dictionary."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autapse.sequences.red_black import RedBlackOrder

CPU = torch.device("cpu")
stencils = st.sets(st.integers(-3, 3).filter(bool), min_size=1, max_size=4).map(lambda s: tuple(sorted(s)))
many_lengths = st.lists(st.integers(0, 7), min_size=0, max_size=5).map(lambda n: sorted(n, reverse=True))


def places(lengths: list[int], two_colours: bool) -> list[tuple[int, int]]:
    """(position, sequence) of each row, by the words of the class's docstring."""
    longest = max(lengths, default=0)
    steps = [*range(0, longest, 2), *range(1, longest, 2)] if two_colours else list(range(longest))
    return [(t, b) for t in steps for b, n in enumerate(lengths) if t < n]


@settings(max_examples=60)
@given(many_lengths, stencils, st.booleans())
def test_rows_and_neighbours(lengths: list[int], stencil: tuple[int, ...], edges: bool) -> None:
    layout = RedBlackOrder(torch.tensor(lengths, dtype=torch.long), stencil, CPU, edges)
    assert layout.two_colours == all(offset % 2 for offset in stencil)
    rows = places(lengths, layout.two_colours)
    where = {place: n for n, place in enumerate(rows)}
    assert layout.total == len(rows)
    assert layout.owner.tolist() == [b for _, b in rows]
    packed = sorted(rows)
    assert layout.packed.tolist() == [packed.index(place) for place in rows]
    for colour, part in enumerate(layout.colours):
        other = layout.others[colour]
        size = other.stop - other.start
        for offset, index in layout.neighbours[colour].items():
            for (t, b), found in zip(rows[part], index.tolist(), strict=True):
                near = where.get((t + offset, b))
                if near is not None:
                    assert found == near - other.start
                elif edges:
                    assert found == size + (b if t + offset < 0 else len(lengths) + b)
                else:
                    assert found == size
    for offset in stencil:
        assert layout.inside[offset][:, 0].tolist() == [(t + offset, b) in where for t, b in rows]
    for b, n in enumerate(lengths):
        assert layout.rows_of(b).tolist() == [where[t, b] for t in range(n)]
        assert layout.ends[b] == (where[n - 1, b] if n else 0)


@settings(max_examples=40)
@given(many_lengths, stencils, st.data())
def test_select(lengths: list[int], stencil: tuple[int, ...], data: st.DataObject) -> None:
    layout = RedBlackOrder(torch.tensor(lengths, dtype=torch.long), stencil, CPU, False)
    chosen = data.draw(st.lists(st.sampled_from(range(len(lengths))), max_size=6).map(sorted)) if lengths else []
    part, rows = layout.select(torch.tensor(chosen, dtype=torch.long))
    assert part.lengths.tolist() == [lengths[b] for b in chosen]
    here = places(lengths, layout.two_colours)
    there = places([lengths[b] for b in chosen], layout.two_colours)
    assert [here[n] for n in rows.tolist()] == [(t, chosen[b]) for t, b in there]


@pytest.mark.parametrize("stencil", [(-1, 1), (-3, -1, 1), (-1, 2), (-2, 2)])
def test_rows_of_one_colour_are_independent_where_there_are_two(stencil: tuple[int, ...]) -> None:
    layout = RedBlackOrder(torch.tensor([6, 3]), stencil, CPU, False)
    assert len(layout.colours) == (2 if layout.two_colours else 1)
    assert layout.free == (5 if layout.two_colours else 9)
