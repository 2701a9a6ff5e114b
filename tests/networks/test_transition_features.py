"""Features of a step that are learned from recorded steps, and those of counted transitions."""

import copy

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor

from visr.errors import UserError
from visr.networks import transition_features
from visr.networks.transition_features.base import TransitionFeatures, of_unroll
from visr.networks.transition_features.encoder import off_diagonal_square, orthonormality
from visr.networks.transition_features.laplacian import LaplacianStates, eigenvectors, slowness
from visr.networks.transition_features.learned import InverseDynamics, SelfPredictive, UnitFeatures
from visr.types import EnvSpec, Transitions, Unroll

STATES = EnvSpec(Discrete(9), num_actions=2)
VECTORS = EnvSpec(Box(-np.inf, np.inf, (2,), np.float32), num_actions=2)
PLANES = EnvSpec(Box(0, 1, (3, 6, 6), np.uint8), num_actions=3)
IMAGES = EnvSpec(Box(0, 255, (1, 24, 24), np.uint8), num_actions=2)
LEARNED = ("phi", "laplacian", "inverse", "self-predictive")


def unroll_of(observation: Tensor, action: Tensor | None = None, w: Tensor | None = None) -> Unroll:
    """Steps through observations [T + 1, B, ...] that neither end nor reset."""
    shape = (len(observation) - 1, observation.shape[1])
    no = torch.zeros(shape, dtype=torch.bool)
    return Unroll(
        observation,
        torch.zeros(shape, dtype=torch.int64) if action is None else action,
        torch.zeros(shape),
        no,
        no,
        no,
        torch.zeros(shape[1], 12) if w is None else w,
        torch.full((shape[1],), -1),
        torch.zeros(shape[1], 0),
    )


def built(kind: str, spec: EnvSpec, updates: int = 60) -> TransitionFeatures:
    torch.manual_seed(0)
    return transition_features.build(kind, spec, 12, 0.9, updates)


def walk(num_states: int = 9, length: int = 200, batch: int = 8) -> Unroll:
    """A random walk on a path of states; action 1 moves right, 0 left."""
    rng = torch.Generator().manual_seed(0)
    action = torch.randint(2, (length, batch), generator=rng)
    state = [torch.randint(num_states, (batch,), generator=rng)]
    for t in range(length):
        state.append((state[-1] + 2 * action[t] - 1).clamp(0, num_states - 1))
    return unroll_of(torch.stack(state), action)


def push(noise: float = 1.0) -> Unroll:
    """Vectors of which the action moves the first number; the second is noise."""
    rng = torch.Generator().manual_seed(0)
    action = torch.randint(2, (100, 8), generator=rng)
    place = torch.cat([torch.zeros(1, 8), (2.0 * action - 1).cumsum(dim=0)])
    return unroll_of(
        torch.stack([place, noise * torch.randn(101, 8, generator=rng)], dim=-1), action
    )


# ---- sums over pairs


def test_only_different_steps_are_pairs():
    pairs = torch.tensor([[9.0, 1.0], [3.0, 9.0]])
    assert off_diagonal_square(pairs) == (1 + 9) / 2


def test_orthonormal_rows_have_the_least_loss():
    # E[b b^T] = I for sqrt(2) e_1 and sqrt(2) e_2 in turn: 1/2 mean (b_i . b_j)^2 - mean |b|^2
    # = 1/2 (pairs that are equal: 49 of 99, each 4) - 2
    rows = 2**0.5 * torch.eye(2).repeat(50, 1)
    assert float(orthonormality(rows)) == pytest.approx(0.5 * 4 * 49 / 99 - 2)
    assert orthonormality(rows) < min(orthonormality(0.5 * rows), orthonormality(1.5 * rows))


# ---- Laplacian


def test_the_first_eigenvector_is_constant_and_the_second_orders_a_path():
    steps = of_unroll(walk())
    rows = eigenvectors(steps, 9, 3)
    torch.testing.assert_close(rows[:, 0].abs(), torch.ones(9), atol=1e-4, rtol=0)
    order = rows[:, 1].argsort().tolist()
    assert order in (list(range(9)), list(range(9))[::-1])


def test_how_often_an_action_was_taken_does_not_matter():
    # a ring of five states, either way round; then some of its steps again
    state, action = torch.arange(5).repeat(2), torch.arange(2).repeat_interleave(5)
    steps = Transitions((state + 2 * action - 1) % 5, state, action)
    often = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0, 3, 7, 7])
    more = Transitions(steps.next_observation[often], state[often], action[often])
    rows = eigenvectors(steps, 5, 5)
    torch.testing.assert_close(rows @ rows.T, eigenvectors(more, 5, 5) @ eigenvectors(more, 5, 5).T)
    assert torch.linalg.matrix_rank(rows) == 5


def test_states_that_were_never_seen_have_no_features():
    states = LaplacianStates(12, 20)
    states.fit(walk())  # of 9 states
    chi = states(Transitions(torch.arange(12)))
    assert chi[:9].abs().sum(dim=1).min() > 0
    assert chi[9:].abs().sum() == 0


def test_enough_laplacian_features_tell_every_state():
    states = LaplacianStates(9, 12)
    states.fit(walk())
    assert torch.linalg.matrix_rank(states(Transitions(torch.arange(9)))) == 9


def test_features_that_change_slowly_from_step_to_step_have_larger_sums():
    states, steps = LaplacianStates(9, 12), of_unroll(walk())
    states.fit(walk())
    found = slowness(states, steps, gamma=0.9)
    assert (found[1:9] > found[2:10]).all()  # one for each eigenvector, the slowest first
    assert found[[0, 10, 11]].abs().max() == 0  # the end, and more features than states
    # the sums of the constant and of the next eigenvector, whose eigenvalue on a path is cos(pi / 9)
    expected = (1 - 0.9 * np.cos(np.pi / 9)) / (1 - 0.9)
    assert float(found[1] / found[2]) == pytest.approx(expected, rel=0.1)


def test_too_many_states_to_count_are_refused():
    with pytest.raises(UserError, match="at most 4,096 states, and there are 5,000"):
        built("laplacian", EnvSpec(Discrete(5_000), 2))


def test_learned_laplacian_features_are_alike_in_states_that_are_close():
    # Two places that no walk joins: features of one place agree, those of different places do not.
    rng = torch.Generator().manual_seed(0)
    centre = torch.tensor([-1.0, 1.0]).repeat(4)[:, None].expand(8, 2)
    features = built("laplacian", VECTORS, 200)
    features.fit(unroll_of(centre + 0.3 * torch.randn(60, 8, 2, generator=rng)))
    here, there = torch.full((1, 2), -1.0), torch.full((1, 2), 1.0)
    chi = features(Transitions(torch.cat([here, here + 0.1, there])))[:, 2:]
    near, far = (chi[0] - chi[1]).norm(), (chi[0] - chi[2]).norm()
    assert near < 0.5 * far


# ---- inverse dynamics and self-prediction


def test_inverse_dynamics_learns_to_tell_the_action():
    features, recorded = built("inverse", VECTORS, 150), push()
    assert isinstance(features, InverseDynamics)
    features.fit(recorded)
    loss = features.loss(recorded, torch.Generator().manual_seed(5))
    assert float(loss) < 0.2  # a guess has log 2 = .69


def test_self_prediction_keeps_features_that_differ_between_states():
    features, recorded = built("self-predictive", STATES, 200), walk()
    assert isinstance(features, SelfPredictive)
    features.fit(recorded)
    chi = features(Transitions(torch.arange(9)))
    assert torch.linalg.matrix_rank(chi, rtol=1e-3) >= 4
    assert (chi[:, None] - chi[None]).norm(dim=-1)[~torch.eye(9, dtype=torch.bool)].min() > 0.3


# ---- phi


def test_phi_points_at_the_task_that_was_pursued():
    # Unrolls of task 0 stay in states 0 to 3, those of task 1 in states 5 to 8.
    rng = torch.Generator().manual_seed(0)
    seen = torch.randint(4, (41, 8), generator=rng) + torch.tensor([0, 5]).repeat(4)
    w = 3.0 * torch.eye(12)[torch.tensor([0, 1]).repeat(4)]
    features = built("phi", STATES, 200)
    features.fit(unroll_of(seen, w=w))
    chi = features(Transitions(torch.arange(9))) / 12**0.5
    torch.testing.assert_close(chi.norm(dim=1), torch.ones(9))
    assert chi[:4, 0].min() > 0.9
    assert chi[5:, 1].min() > 0.9


def test_phi_of_random_actions_is_alike_in_states_of_the_same_unrolls():
    rng = torch.Generator().manual_seed(0)
    seen = torch.randint(4, (41, 8), generator=rng) + torch.tensor([0, 5]).repeat(4)
    features = built("phi", STATES, 200)
    assert isinstance(features, UnitFeatures)
    features.fit(unroll_of(seen))
    cosine = features.phi(torch.arange(9)) @ features.phi(torch.arange(9)).T
    assert cosine[:4, :4].min() > cosine[:4, 5:].max() + 0.3


# ---- all of them


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize("spec", [STATES, VECTORS, PLANES, IMAGES], ids=lambda s: str(s)[24:32])
def test_every_kind_reads_states_vectors_planes_and_images(kind: str, spec: EnvSpec):
    shape, space = spec.observation_space.shape or (), spec.observation_space
    high = 9 if isinstance(space, Discrete) else 2
    seen = torch.randint(high, (5, 4, *shape), generator=torch.Generator().manual_seed(0))
    seen = seen if isinstance(space, Discrete) else seen.to(torch.as_tensor(space.sample()).dtype)
    features = built(kind, spec, updates=2)
    features.fit(unroll_of(seen))
    chi = features(Transitions(seen[1], seen[0], terminated=torch.ones(4, dtype=torch.bool)))
    assert chi.shape == (4, 12)
    assert bool(chi.isfinite().all())
    assert not any(x.requires_grad for x in features.parameters())


@pytest.mark.parametrize("kind", LEARNED)
def test_the_same_steps_and_weights_give_the_same_features(kind: str):
    first = built(kind, VECTORS, 5)
    second = copy.deepcopy(first)
    for features in (first, second):
        torch.rand(3)  # draws of others do not matter
        features.fit(push())
    assert all(torch.equal(a, b) for a, b in zip(first.buffers(), second.buffers(), strict=True))
    steps = Transitions(torch.randn(7, 2))
    assert torch.equal(first(steps), second(steps))


def test_too_few_features_to_learn_are_refused():
    with pytest.raises(UserError, match="num_features = 3 is too small"):
        transition_features.build("inverse", VECTORS, 3, 0.9, 5)
