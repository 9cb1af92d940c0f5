"""Context encoders: empty without transitions, PEARL's posterior in closed form, order where it should matter."""

from __future__ import annotations

import pytest
import torch

from pacesetter.errors import ConfigError
from pacesetter.methods.meta.context import kl_to_prior, make_context, product_of_gaussians

KINDS = ("gru", "attention", "pearl", "sums")


def encoder(kind, bars=5):
    torch.manual_seed(0)
    return make_context(kind, tokens=3, bars=bars, width=8, latent=2)


@pytest.mark.parametrize("kind", KINDS)
def test_without_transitions_it_says_nothing_whatever_the_tokens(kind):
    tokens, valid = torch.randn(4, 5, 3), torch.zeros(4, 5)
    torch.testing.assert_close(encoder(kind)(tokens * valid[..., None], valid), torch.zeros(4, 8))


@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_transition_changes_it(kind):
    valid = torch.tensor([[0.0, 0, 0, 1, 1]])
    tokens = torch.randn(1, 5, 3) * valid[..., None]
    other = tokens.clone()
    other[:, -1] += 1
    assert (encoder(kind)(tokens, valid) - encoder(kind)(other, valid)).abs().max() > 1e-4


def test_pearl_and_sums_do_not_know_the_order_and_the_others_do():
    tokens, valid = torch.randn(2, 5, 3), torch.ones(2, 5)
    change = {k: (encoder(k)(tokens, valid) - encoder(k)(tokens.flip(1), valid)).abs().max().item() for k in KINDS}
    assert max(change["pearl"], change["sums"]) < 1e-6
    assert min(change["gru"], change["attention"]) > 1e-4


def test_sums_spread_alike_after_few_and_many_transitions_and_a_lasting_mean_grows_by_the_root():
    torch.manual_seed(1)
    context, noise, valid = encoder("sums", bars=64), torch.randn(4_000, 64, 3), torch.ones(4_000, 64)
    few = valid.clone()
    few[:, :-4] = 0
    spreads = [context(noise, some).std(0) for some in (few, valid)]
    torch.testing.assert_close(spreads[0], spreads[1], rtol=0.1, atol=0.0)
    shift = torch.tensor([0.0, 0.0, 0.1])  # of the return that followed
    moved = [(context(noise + shift, some) - context(noise, some)).mean(0) for some in (few, valid)]
    torch.testing.assert_close(moved[1], 4 * moved[0])


def test_the_posterior_is_the_product_of_the_prior_and_the_factors():
    """Against the density itself: the logarithm of the product, less that of the answer, is one constant."""
    means, variances = torch.tensor([[[0.5], [-1.0], [3.0]]]), torch.tensor([[[0.5], [2.0], [1.0]]])
    valid = torch.tensor([[1.0, 1.0, 0.0]])
    mean, variance = product_of_gaussians(means, variances, valid)
    x = torch.linspace(-2, 2, 9)

    def log_density(m, v):
        return torch.distributions.Normal(m, v**0.5).log_prob(x)

    product = log_density(torch.tensor(0.0), torch.tensor(1.0))
    for place in (0, 1):  # the third was not made
        product = product + log_density(means[0, place, 0], variances[0, place, 0])
    gap = product - log_density(mean[0, 0], variance[0, 0])
    assert (gap - gap[0]).abs().max() < 1e-5
    assert variance.item() == pytest.approx(1 / (1 + 2 + 0.5))


def test_the_divergence_is_that_of_torch():
    mean, variance = torch.randn(3, 2), torch.rand(3, 2) + 0.1
    normal = torch.distributions.Normal
    expected = torch.distributions.kl_divergence(normal(mean, variance.sqrt()), normal(0.0, 1.0)).sum(-1)
    torch.testing.assert_close(kl_to_prior(mean, variance), expected)


def test_a_draw_of_the_latent_is_its_mean_and_deviation():
    context, tokens, valid = encoder("pearl"), torch.randn(1, 5, 3), torch.ones(1, 5)
    mean, variance = context.posterior(tokens, valid)
    noise = torch.tensor([[1.0, -2.0]])
    torch.testing.assert_close(context(tokens, valid, noise), context.join(mean + variance.sqrt() * noise))


def test_attention_shares_are_of_the_episode_alone():
    valid = torch.tensor([[0.0, 0, 1, 1, 1], [0, 0, 0, 0, 0]])
    shares = encoder("attention").weights(torch.randn(2, 5, 3), valid)
    torch.testing.assert_close(shares.sum(1), torch.tensor([1.0, 0.0]))
    assert shares[0, :2].abs().max() == 0


def test_a_width_that_heads_do_not_divide_is_refused():
    with pytest.raises(ConfigError, match=r"agent\.context_width=6 must be a multiple of 4"):
        make_context("attention", 3, 5, 6, 2)
