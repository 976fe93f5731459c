"""Attention against loops written from its equations; all steps at once against one after the other."""

import math

import pytest
import torch

from autapse.checks import InputError
from autapse.models import Conditions, Decoder, Elements, EncoderDecoder, Padded, Teacher
from autapse.models.attention import Attention, make_scoring
from autapse.models.attention_weights import additive_weights, monotonic_weights
from autapse.models.walk import DecoderWalk
from tolerance import close

KINDS = ("additive:size=3", "multiplicative:size=3", "monotonic:windows=2")
H, M = 5, 4
LENGTHS = torch.tensor([6, 2, 0])
Y = Padded(torch.tensor([[0, 2, 1, 2], [2, -100, -100, -100], [1, 1, 0, -100]]), torch.tensor([4, 1, 3]))


def memory(sources=3, steps=6):
    """The outputs of an encoder: zero after the end of each source."""
    inside = torch.arange(steps) < LENGTHS[:sources, None]
    return torch.randn(sources, steps, M, dtype=torch.float64) * inside[..., None]


def attention(kind, when="after"):
    return Attention(kind, H, M, when, dtype=torch.float64)


@torch.no_grad()
def energy(scoring, kind, query, states):
    """Energies [T][S] for one source, as the equations have them."""
    if kind.startswith("additive"):
        hidden = [[scoring.query(q) + scoring.key(m) for m in states] for q in query]
        return [[float(scoring.vector @ torch.tanh(h)) for h in row] for row in hidden]
    if kind.startswith("multiplicative"):
        general = scoring.query.weight.T @ scoring.key.weight
        return [[float(q @ general @ m) / math.sqrt(3) for m in states] for q in query]
    places, rows = [0.0, 0.0], []
    for q in query:
        a, b, step = scoring.parameters_of(q).view(3, 2).tolist()
        places = [k + math.exp(s) for k, s in zip(places, step, strict=True)]
        rows.append(
            [
                math.log(sum(math.exp(a[k] - math.exp(b[k]) * (places[k] - s) ** 2) for k in range(2)))
                for s in range(1, len(states) + 1)
            ]
        )
    return rows


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_the_softmax_of_the_energies_over_the_steps_of_the_source(kind):
    att, states, query = attention(kind), memory(), torch.randn(3, 4, H, dtype=torch.float64)
    record = []
    features, _ = att.over(states, LENGTHS, record).after(query, None)
    for n, length in enumerate(LENGTHS.tolist()):
        rows = torch.tensor(energy(att.scoring, kind, query[n], states[n, :length]), dtype=torch.float64)
        weights = rows.view(4, length).exp()
        weights = weights / weights.sum(1, keepdim=True)
        close(record[0][n, :, :length], weights)
        assert (record[0][n, :, length:] == 0).all()
        mean = weights @ states[n, :length]
        wanted = torch.tanh(query[n] + mean @ att.attended.weight.T + att.attended.bias)
        close(features[n], wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_without_steps_gives_zeros_and_finite_gradients(kind):
    att, states = attention(kind), memory()
    before = att.over(states[2:], LENGTHS[2:]).before(torch.randn(1, H).double(), None)[0]
    assert (before == 0).all()
    features, _ = att.over(states, LENGTHS).after(torch.randn(3, 4, H).double(), None)
    features.sum().backward()
    assert all(p.grad.isfinite().all() for p in att.parameters())
    nothing = att.over(states[:, :0], None).after(torch.randn(3, 4, H).double(), None)[0]
    assert nothing.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_agree_with_finite_differences(kind):
    att, states = attention(kind), memory().requires_grad_()
    query = torch.randn(3, 2, H, dtype=torch.float64).requires_grad_()

    def features(query, states, *_):
        return att.over(states, LENGTHS).after(query, None)[0]

    assert torch.autograd.gradcheck(features, (query, states, *att.parameters()))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own, in its first use of dual numbers
@pytest.mark.parametrize(
    ("function", "shapes", "sizes"),
    [(additive_weights, ((2, 5, 3), (2, 6, 3), (3,)), ()), (monotonic_weights, ((2, 5, 3),) * 3, (6,))],
    ids=["additive", "monotonic"],
)
def test_weights_have_forward_derivatives_and_run_under_vmap(function, shapes, sizes):
    given = tuple(torch.randn(*shape).double() for shape in shapes)
    moves = tuple(torch.randn_like(part) for part in given)

    def weights(*given):
        return function(*given, *sizes, torch.tensor([5, 2]), LENGTHS[:2])

    def moved(by):
        return weights(*(x + by * m for x, m in zip(given, moves, strict=True)))

    value, tangent = torch.func.jvp(weights, given, moves)
    close(value, weights(*given))
    assert ((moved(1e-6) - moved(-1e-6)) / 2e-6 - tangent).abs().max() < 1e-8
    *first, last = given
    mapped = torch.func.vmap(weights, in_dims=(None, None, 0))(*first, torch.stack([last, -last]))
    close(mapped[1], weights(*first, -last))


def make(kind, when, cell="gru", **settings):
    """A decoder and its attention to three sources."""
    attended = M if when == "before" else 0
    decoder = Decoder(cell, Elements(symbols=3, longest=6), H, attended_size=attended, dtype=torch.float64, **settings)
    return decoder.eval(), attention(kind, when)


def step_by_step(decoder, given):
    """The log-likelihood of Y, each step after the one before it."""
    wanted = decoder.wanted(Y)
    fed, walk = decoder.fed(wanted), DecoderWalk(decoder, given, 3, wanted.lengths)
    return decoder.log_likelihood(torch.stack([walk(fed[:, t]) for t in range(5)], dim=1), wanted, given)


@pytest.mark.parametrize("cell", ["gru", "lstm", "ernn:inner_steps=2", "orthogonalrnn"])
@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_gives_what_all_steps_at_once_give(kind, cell):
    decoder, att = make(kind, "after", cell, context_size=2)
    given = Conditions(torch.randn(3, 2).double(), attend=att.over(memory(), LENGTHS))
    teacher = Teacher().log_likelihood(decoder, Y, given, 0.0)
    close(step_by_step(decoder, given), teacher)
    with torch.no_grad():  # by a stream of the layer
        close(step_by_step(decoder, given), teacher.detach())


@pytest.mark.parametrize("kind", KINDS)
def test_before_the_layer_reads_what_its_last_output_attended_to(kind):
    """One sequence after the other, with torch's GRU cell."""
    decoder, att = make(kind, "before", context_size=2)
    context, states = torch.randn(3, 2).double(), memory()
    made = Teacher().log_likelihood(decoder, Y, Conditions(context, attend=att.over(states, LENGTHS)), 0.0)
    layer = decoder.layer
    cell = torch.nn.GRUCell(layer.input_size, H, dtype=torch.float64)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(cell, name, getattr(layer, f"{name}_l0"))
    for n in range(3):
        symbols, length = Y.values[n, : Y.lengths[n]].tolist(), int(LENGTHS[n])
        h, fed = decoder.bridge.map(context[n]), decoder.previous.start
        queries = []
        for t, symbol in enumerate([*symbols, 3]):
            queries.append(h)
            attended = torch.zeros(M, dtype=torch.float64)
            if length:
                row = energy(att.scoring, kind, queries, states[n, :length])[-1]
                attended = torch.tensor(row, dtype=torch.float64).softmax(0) @ states[n, :length]
            h = cell(torch.cat([fed, context[n], attended])[None], h[None])[0]
            features = torch.tanh(h + att.attended.weight @ attended + att.attended.bias)
            close(made[n, t], decoder.head.linear(features).log_softmax(0)[symbol])
            fed = decoder.previous(torch.tensor(symbol)) if symbol < 3 else fed


@pytest.mark.parametrize("when", ["after", "before"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_a_whole_model_agree_with_finite_differences(kind, when):
    model = EncoderDecoder(
        "gru",
        Elements(symbols=3, longest=6),
        2,
        hidden_size=3,
        encoder_size=2,
        bidirectional=True,
        attention=kind,
        attend=when,
        embedding_size=2,
        condition="none",
        dtype=torch.float64,
    )
    x = torch.randn(3, 4, 2, dtype=torch.float64).requires_grad_()
    every = (x, *model.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: model(x, [4, 1, 0], targets=Y).sum(), every, fast_mode=True)


@pytest.mark.parametrize("when", ["after", "before"])
@pytest.mark.parametrize("kind", KINDS)
def test_reordered_sequences_keep_their_source(kind, when):
    """What beam search needs: after `select`, each row continues as the row that it was."""
    decoder, att = make(kind, when)
    given = Conditions(attend=att.over(memory(), LENGTHS))
    fed = torch.randn(4, 3, decoder.previous.size).double()
    with torch.no_grad():
        plain, moved = (DecoderWalk(decoder, given, 3) for _ in range(2))
        wanted = [plain(fed[t]) for t in range(4)]
        order = torch.tensor([2, 0, 0])
        for t in range(4):
            if t == 2:
                moved.select(order)
            close(moved(fed[t] if t < 2 else fed[t][order]), wanted[t] if t < 2 else wanted[t][order])


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("dot", "attention must be one of additive, multiplicative, monotonic; got 'dot'"),
        ("additive:units=3", "attention must be additive with options from: size"),
        ("multiplicative:units=3", "attention must be multiplicative with options from: size"),
        ("monotonic:windows=0", "windows must be an integer of at least 1; got 0"),
        (3, "attention must be text, such as additive:size=64; got 3"),
    ],
)
def test_bad_settings_are_one_clear_line(kind, words):
    with pytest.raises(InputError, match=words):
        make_scoring(kind, H, M)
