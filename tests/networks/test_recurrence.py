"""The LSTM: unrolls equal single steps, and its memory is cleared where an episode starts."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from visr.networks.deep import Lstm

LENGTH, BATCH, INPUTS, SIZE = 40, 3, 7, 6


def new_lstm(num_inputs: int = INPUTS, size: int = SIZE) -> Lstm:
    torch.manual_seed(0)
    return Lstm(num_inputs, size)


def experience() -> tuple[Tensor, Tensor, Tensor]:
    """Inputs, episode starts at different times in different environments, and an old memory."""
    torch.manual_seed(1)
    starts = torch.zeros(LENGTH, BATCH, dtype=torch.bool)
    starts[0, 0] = starts[17, 0] = starts[18, 0] = starts[25, 1] = starts[39, 2] = True
    return torch.randn(LENGTH, BATCH, INPUTS), starts, torch.randn(BATCH, 2 * SIZE)


def test_an_unroll_equals_acting_step_by_step():
    lstm, (inputs, starts, memory) = new_lstm(), experience()
    outputs, last = lstm(inputs, starts, memory)
    assert outputs.shape == (LENGTH, BATCH, SIZE)
    for t in range(LENGTH):
        output, memory = lstm(inputs[t : t + 1], starts[t : t + 1], memory)
        torch.testing.assert_close(output[0], outputs[t])
    torch.testing.assert_close(memory, last)


def test_within_an_episode_the_lstm_equals_torchs_cell():
    lstm, (inputs, _, memory) = new_lstm(), experience()
    cell = nn.LSTMCell(INPUTS, SIZE)
    with torch.no_grad():
        cell.weight_ih.copy_(lstm.input)
        cell.weight_hh.copy_(lstm.recurrent)
        cell.bias_ih.copy_(lstm.bias)
        cell.bias_hh.zero_()
    outputs, last = lstm(inputs, torch.zeros(LENGTH, BATCH, dtype=torch.bool), memory)
    h, c = memory[:, :SIZE], memory[:, SIZE:]
    for t in range(LENGTH):
        h, c = cell(inputs[t], (h, c))
        torch.testing.assert_close(outputs[t], h)
    torch.testing.assert_close(last, torch.cat([h, c], dim=-1))


def test_one_step_by_hand():
    # Without inputs and with fresh biases the gates are s(0) = 1/2, and the forget gate s(1):
    # c' = s(1) c + 1/2 tanh(0) = s(1) c     h' = 1/2 tanh(c')
    lstm = new_lstm(num_inputs=2, size=1)
    nothing, goes_on = torch.zeros(1, 1, 2), torch.zeros(1, 1, dtype=torch.bool)
    _, memory = lstm(nothing, goes_on, torch.tensor([[0.0, 2.0]]))
    c = 2 / (1 + math.exp(-1))
    torch.testing.assert_close(memory, torch.tensor([[math.tanh(c) / 2, c]]))
    _, memory = lstm(nothing, ~goes_on, torch.tensor([[5.0, 2.0]]))
    torch.testing.assert_close(memory, torch.zeros(1, 2))


def test_outputs_after_a_start_do_not_depend_on_earlier_steps():
    lstm, (inputs, starts, memory) = new_lstm(), experience()
    outputs, last = lstm(inputs, starts, memory)
    other = inputs.clone()
    other[:18] = torch.randn(18, BATCH, INPUTS)
    changed, other_last = lstm(other, starts, memory + 1)
    assert torch.equal(changed[18:, 0], outputs[18:, 0])
    assert torch.equal(changed[25:, 1], outputs[25:, 1])
    assert torch.equal(other_last, last)
    # Before its start, the output of the second environment depends on its memory.
    assert not torch.isclose(changed[18:25, 1], outputs[18:25, 1]).all(dim=-1).any()


def test_no_gradient_flows_back_across_a_start():
    lstm, (inputs, starts, memory) = new_lstm(), experience()
    inputs.requires_grad_()
    memory.requires_grad_()
    outputs, _ = lstm(inputs, starts, memory)
    outputs[-1, 1].sum().backward()
    assert inputs.grad is not None
    assert memory.grad is not None
    reached = inputs.grad.abs().sum(dim=-1) > 0
    assert reached[:, 1].tolist() == [t >= 25 for t in range(LENGTH)]
    assert not reached[:, [0, 2]].any()
    assert not memory.grad.any()


def test_the_lstm_has_the_papers_size():
    # 256 of a torso and 18 actions: 4 * 256 (274 + 256 + 1), facts of IMPALA's large network
    assert sum(p.numel() for p in Lstm(256 + 18).parameters()) == 543_744
