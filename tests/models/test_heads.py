"""Densities agree with torch.distributions, samples with their moments, and what is missing is summed over."""

import math

import pytest
import torch
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import Independent, MixtureSameFamily, Normal

from autapse.checks import InputError
from autapse.models.heads import Categorical, Draw, Mixture, chances_of
from tolerance import close

FEATURES = 4


def mixture(components=3, values=2, binary=0):
    head = Mixture(FEATURES, values, binary, components, mean=[1.0, -2.0][:values], scale=[2.0, 0.5][:values])
    return head.double()


def reference(head, features):
    weights, means, deviations, _ = head._parameters_of(features)
    normal = Normal(head.mean + head.scale * means, head.scale * deviations.exp())
    return MixtureSameFamily(TorchCategorical(logits=weights), Independent(normal, 1))


@pytest.mark.parametrize("components", [1, 3])
def test_the_density_is_that_of_torch(components):
    head, features, y = mixture(components), torch.randn(5, 7, FEATURES).double(), torch.randn(5, 7, 2).double()
    expected = reference(head, features).log_prob(y)
    close(head.log_likelihood(features, y), expected)
    close(head.expected(features), reference(head, features).mean)


def test_a_missing_value_is_integrated_over():
    head, features = mixture(), torch.randn(1, FEATURES).double()
    y = torch.tensor([[0.7, math.nan]]).double()
    grid = torch.linspace(-40, 40, 20_001).double()
    whole = torch.stack([torch.full_like(grid, 0.7), grid], dim=1)
    integral = torch.trapezoid(head.log_likelihood(features.expand(len(grid), -1), whole).exp(), grid)
    torch.testing.assert_close(head.log_likelihood(features, y).exp()[0], integral, rtol=1e-6, atol=0)
    nothing = torch.full((1, 2), math.nan).double()
    torch.testing.assert_close(head.log_likelihood(features, nothing), torch.zeros(1).double())


def test_binary_columns_are_bernoulli():
    head, features = mixture(binary=2), torch.randn(6, FEATURES).double()
    values = torch.randn(6, 2).double()
    total = sum(
        head.log_likelihood(features, torch.cat([values, torch.tensor([[a, b]]).expand(6, 2)], dim=1)).exp()
        for a in (0.0, 1.0)
        for b in (0.0, 1.0)
    )
    close(total, reference(head, features).log_prob(values).exp())


def test_samples_have_the_moments_of_the_density():
    head, count = mixture(binary=1), 40_000
    features = torch.randn(1, FEATURES).double()
    drawn = head.sample(features.expand(count, -1), Draw(generator=torch.Generator().manual_seed(0)))
    expected, spread = reference(head, features), drawn.std(0) / math.sqrt(count)
    assert (drawn[:, :2].mean(0) - expected.mean[0]).abs().le(5 * spread[:2]).all()
    torch.testing.assert_close(drawn[:, :2].var(0), expected.variance[0], rtol=0.1, atol=0)
    assert set(drawn[:, 2].tolist()) == {0.0, 1.0}
    assert (drawn[:, 2].mean() - head.expected(features)[0, 2]).abs() <= 5 * spread[2]


def test_a_symbol_that_is_missing_has_no_part():
    head = Categorical(FEATURES, 5).double()
    features, y = torch.randn(3, FEATURES).double(), torch.tensor([0, -100, 4])
    expected = torch.log_softmax(head.linear(features), -1)
    result = head.log_likelihood(features, y)
    torch.testing.assert_close(result, torch.stack([expected[0, 0], expected[1, 0] * 0, expected[2, 4]]))


def test_top_k_and_top_p_keep_the_most_likely_symbols():
    logits = torch.tensor([0.1, 0.5, 0.25, 0.15], dtype=torch.float64).log()
    close(chances_of(logits, Draw(top_k=2)), torch.tensor([0, 2 / 3, 1 / 3, 0], dtype=torch.float64))
    kept = chances_of(logits, Draw(top_p=0.8))  # 0.5 + 0.25 < 0.8, so the third one is kept too
    close(kept, torch.tensor([0, 5 / 9, 2.5 / 9, 1.5 / 9], dtype=torch.float64))
    assert chances_of(logits, Draw(top_p=1e-9)).argmax() == 1
    sharp = chances_of(logits, Draw(temperature=1e-4))
    close(sharp, torch.tensor([0.0, 1, 0, 0], dtype=torch.float64))


def test_values_cannot_be_restricted():
    with pytest.raises(InputError, match="top_k, top_p must be None for values"):
        mixture().sample(torch.zeros(1, FEATURES).double(), Draw(top_k=3))


@pytest.mark.parametrize(
    ("settings", "words"), [({"temperature": 0}, "temperature"), ({"top_p": 1.5}, "top_p"), ({"top_k": 0}, "top_k")]
)
def test_draws_are_checked(settings, words):
    with pytest.raises(InputError, match=words):
        Draw(**settings)
