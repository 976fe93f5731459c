import pytest
import torch

import autapse
from autapse import checks
from autapse.layers.registry import LAYERS, parse_network
from autapse.models import MODELS, Classifier, QuestionAnswering, Regressor, SequenceModel, Tagger

LENGTHS = [6, 2, 4]


def padded():
    return torch.randn(3, 6, 2, generator=torch.Generator().manual_seed(0))


ONE_WAY = [(cell, False) for cell in LAYERS]
BOTH_WAYS = [(cell, True) for cell, layer in LAYERS.items() if max(layer.cell_type.stencil, default=0) <= 0]


@pytest.mark.parametrize(("cell", "bidirectional"), [*ONE_WAY, *BOTH_WAYS])
@pytest.mark.parametrize("sizes", [5, [5, 4]])
def test_a_padded_batch_is_each_sequence_alone(cell, bidirectional, sizes):
    torch.manual_seed(0)
    x = padded()
    model = Classifier(cell, 2, 3, hidden_size=sizes, bidirectional=bidirectional)
    alone = torch.cat([model(x[n : n + 1, :length]) for n, length in enumerate(LENGTHS)])
    torch.testing.assert_close(model(x, LENGTHS), alone, rtol=1e-5, atol=1e-6)


def test_the_head_reads_torchs_last_state():
    torch.manual_seed(0)
    model, x = Regressor("lstm", 2, 1, hidden_size=4, num_layers=2, bidirectional=True), padded()
    twin = torch.nn.LSTM(2, 4, num_layers=2, bidirectional=True, batch_first=True)
    twin.load_state_dict(model.layer.state_dict())
    _, (h_n, _) = twin(x)
    torch.testing.assert_close(model(x), model.head(torch.cat([h_n[-2], h_n[-1]], dim=-1)))


def test_a_tagger_speaks_at_every_position():
    torch.manual_seed(0)
    model, x = Tagger("gru", 2, 3, hidden_size=4), padded()
    twin = torch.nn.GRU(2, 4, batch_first=True)
    twin.load_state_dict(model.layer.state_dict())
    torch.testing.assert_close(model(x), model.head(twin(x)[0]))
    assert torch.equal(model.predict(x), model(x).argmax(-1))


@pytest.mark.parametrize("kind", [Classifier, Regressor, Tagger])
def test_predict_is_without_dropout_and_keeps_the_mode(kind):
    torch.manual_seed(0)
    model: SequenceModel = kind("gru", 2, 3, hidden_size=8, num_layers=2, dropout=0.9).train()
    first, second = model.predict(padded()), model.predict(padded())
    assert torch.equal(first, second)
    assert model.training
    assert not first.requires_grad


def test_cells_with_options():
    layer, options = parse_network("leakyrnn:tau=(1,50):learn_tau=false")
    assert layer.__name__ == "LeakyRNN"
    assert options == {"tau": (1, 50), "learn_tau": False}
    assert parse_network("ernn:max_length=None:eta=per_step")[1] == {"max_length": None, "eta": "per_step"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("grru", "cell must be one of .*; got 'grru'. Did you mean 'gru'"),
        ("ernn:iner_steps=2", "Did you mean 'inner_steps'"),
        ("ernn:inner_steps", "as in ernn:option=value"),
        ("irnn:x=1", "options from: none"),
    ],
)
def test_bad_cells(spec, message):
    with pytest.raises(checks.InputError, match=message):
        parse_network(spec)


def test_a_regressor_answers_in_the_unit_of_its_targets():
    torch.manual_seed(0)
    plain = Regressor("rin", 3, 2, hidden_size=5)
    scaled = Regressor("rin", 3, 2, hidden_size=5, target_mean=(100.0, -3.0), target_scale=(20.0, 0.5))
    scaled.load_state_dict(plain.state_dict(), strict=False)
    x = torch.randn(4, 6, 3)
    expected = torch.tensor([100.0, -3.0]) + torch.tensor([20.0, 0.5]) * plain(x)
    torch.testing.assert_close(scaled(x), expected)
    with pytest.raises(checks.InputError, match="target_mean, target_scale must have 2 entries"):
        Regressor("rin", 3, 2, hidden_size=5, target_mean=(1.0,))


def test_a_layer_that_is_made_already_serves_as_it_is():
    torch.manual_seed(0)
    x, lengths = torch.randn(4, 6, 3), [6, 2, 5, 1]
    layer = autapse.GRU(3, 4, num_layers=2, bidirectional=True)
    for given in (layer, autapse.Recurrent(autapse.cells.RIN, 3, 4, batch_first=True)):
        classifier, tagger = Classifier(given, 3, 2), Tagger(given, 3, 2)
        assert classifier.layer is given
        output, h_n = given(x, lengths=lengths) if given.batch_first else given(x.transpose(0, 1), lengths=lengths)
        output = output if given.batch_first else output.transpose(0, 1)
        torch.testing.assert_close(tagger(x, lengths), tagger.head(output))
        last = torch.cat(list(h_n[-given.directions :]), dim=-1)
        torch.testing.assert_close(classifier(x, lengths), classifier.head(last))


def test_a_cell_class_serves_as_a_network():
    model = Classifier(autapse.cells.RIN, 3, 2, hidden_size=5, num_layers=2)
    assert repr(model.layer) == "Recurrent(RIN, 3, 5, num_layers=2, batch_first=True)"
    assert model(torch.randn(4, 6, 3)).shape == (4, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Classifier(autapse.GRU(3, 4), 2, 2), "cell must have input_size 2, the number of features .*; got 3"),
        (lambda: Classifier(autapse.GRU(3, 4), 3, 2, hidden_size=9), "hidden_size must be omitted if cell is a layer"),
        (lambda: Classifier(torch.nn.GRU(3, 4), 3, 2), "cell must be a cell class or a layer class"),
        (lambda: Classifier(None, 3, 2), "cell must be a cell class or a layer class"),
        (lambda: Classifier(autapse.cells.GRU(3, 4), 3, 2), "layer class .* got GRU.3, 4.. Pass the class itself"),
        (lambda: QuestionAnswering(autapse.GRU(3, 4), 1, 2, embedding_size=[3]), "model makes three layers of it"),
    ],
)
def test_networks_that_do_not_fit_are_named(make, message):
    with pytest.raises(checks.InputError, match=message):
        make()


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    ("given", "got"),
    [
        (None, "'NoneType'"),
        ("text", "'str'"),
        ([[[1.0]]], "'list'"),
        (3, "'int'"),
        (torch.zeros(2, 3, 4), "(2, 3, 4)"),
        (torch.zeros(3), "(3,)"),
    ],
)
def test_what_is_no_sequence_is_named(kind, given, got):
    columns = 2 if kind == "question answering" else 1
    model = MODELS[kind]("gru", 1, 5, hidden_size=4, vocabularies=[5], embedding_size=[3])
    # `predict` also takes lists, and that of a forecaster takes whole series, with its own messages.
    other = isinstance(given, list) or kind == "forecasting"
    for call in (model,) if other else (model, model.predict):
        with pytest.raises(checks.InputError) as caught:
            call(given)
        assert str(caught.value).startswith(f"input must be a tensor of shape (B, T, {columns}); got {got}.")
        assert isinstance(caught.value, RuntimeError if isinstance(given, torch.Tensor) else TypeError)


def test_layers_without_end():
    with pytest.raises(checks.InputError, match=r"num_layers must be .* at most 1000; got 1001"):
        Classifier("gru", 1, 2, hidden_size=1, num_layers=1001)
