"""The learning rate over the steps, and one step of the optimizer against torch's own."""

import math
from typing import Any

import pytest

pytestmark = pytest.mark.trainer


def schedule(**settings: Any) -> list[float]:
    from trainyard.trainers.torchtune.optimisation import Schedule

    made = Schedule(**{"lr": 1.0, "name": "cosine", "warmup_steps": 0, "total_steps": 8, **settings})
    return [made.at(step) for step in range(1, made.total_steps + 1)]


def test_the_rate_rises_in_a_line_and_falls_along_a_cosine() -> None:
    rates = schedule(warmup_steps=2, total_steps=10)
    assert rates[:3] == [0.5, 1.0, 1.0]
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert rates[6] == pytest.approx(0.5)
    assert 0 < rates[-1] < 0.1


def test_a_line_and_a_constant() -> None:
    assert schedule(name="linear", total_steps=4) == [1.0, 0.75, 0.5, 0.25]
    assert schedule(name="constant", warmup_steps=2, total_steps=4) == [0.5, 1.0, 1.0, 1.0]


def test_a_warm_up_longer_than_the_training_only_rises() -> None:
    assert schedule(warmup_steps=100, total_steps=3) == [0.01, 0.02, 0.03]


@pytest.mark.parametrize("clip", [None, 0.5])
def test_a_step_is_torchs_own_on_the_mean_of_the_targets(clip: float | None) -> None:
    import torch

    from trainyard.trainers.torchtune.config import Config, ModelConfig
    from trainyard.trainers.torchtune.optimisation import Optimisation
    from trainyard.trainers.torchtune.process_group import ProcessGroup

    torch.manual_seed(0)
    first = [torch.nn.Parameter(torch.randn(3, 4)), torch.nn.Parameter(torch.randn(5))]
    second = [torch.nn.Parameter(parameter.detach().clone()) for parameter in first]
    config = Config(method="lora", model=ModelConfig(), clip_grad_norm=clip)
    ours, theirs = Optimisation(first, config, ProcessGroup()), torch.optim.AdamW(second, lr=0.1, weight_decay=0.01)
    for factor in (1.0, 3.0):
        ours.begin()
        for targets in (2, 4):  # Two passes, six targets: each pass gives the sum over its own.
            loss = targets * factor * (first[0].square().sum() + first[1].sum())
            loss.backward()
            ours.add(loss, targets=targets, tokens=10)
        figures = ours.finish(0.1, stop=False)
        theirs.zero_grad()
        mean = factor * (second[0].square().sum() + second[1].sum())
        mean.backward()
        norm = torch.nn.utils.clip_grad_norm_(second, clip or math.inf)
        theirs.step()
        assert figures.loss == pytest.approx(mean.item(), rel=1e-5)
        assert figures.grad_norm == pytest.approx(norm.item(), rel=1e-5)
        assert (figures.targets, figures.tokens, figures.must_stop) == (6, 20, False)
        for mine, other in zip(first, second, strict=True):
            assert (mine - other).abs().max() < 1e-6
    ours.begin()
    assert ours.finish(0.1, stop=True).must_stop


def test_who_we_are_is_read_from_what_torchrun_set() -> None:
    from trainyard.contract.errors import ConfigError
    from trainyard.trainers.torchtune.process_group import ProcessGroup, from_environ

    assert from_environ({}) == ProcessGroup()
    set_by_torchrun = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    assert from_environ(set_by_torchrun) == ProcessGroup(rank=3, world_size=4, local_rank=1, local_world_size=2)
    with pytest.raises(ConfigError, match="WORLD_SIZE='four'"):
        from_environ({**set_by_torchrun, "WORLD_SIZE": "four"})


def test_the_smoothed_loss_is_the_mean_of_its_neighbours() -> None:
    from trainyard.trainers.torchtune.picture import smooth

    assert list(smooth([1.0, 2.0, 3.0, 10.0], 3)) == [1.5, 2.0, 5.0, 6.5]
