"""An LSTM encoder-decoder recogniser of characters: convolutions, a bidirectional encoder, location-aware
attention, and a CTC head.

Listen, attend and spell: Chan et al. 2016, https://arxiv.org/abs/1508.01211; attention of Chorowski et al.
2015, https://arxiv.org/abs/1506.07503 (equations 8 and 9):
    e_{i,j} = w^T tanh(W s_i + V h_j + U f_{i,j} + b),  f_i = F * alpha_{i-1},  alpha_i = softmax(e_i)
One frame is 40 ms. The defaults are those of the shipped small network.
"""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from limen.models.base.model import Model
from limen.models.speech.attention import Seq2Seq, Seq2SeqOptions, TwoHeads
from limen.models.speech.beam import State
from limen.models.speech.ctc import ALPHABET
from limen.models.speech.encoders import RecurrentEncoder
from limen.models.speech.recurrent import FEWEST_ROWS


class LstmSeq2Seq(Seq2SeqOptions):
    small: ClassVar[dict[str, Any] | None] = {
        "channels": 4,
        "width": 16,
        "layers": 1,
        "decoder_width": 16,
        "attention_width": 8,
    }

    bands: int = Field(default=40, ge=1, le=65_536)
    """Mel bands of the features."""
    channels: int = Field(default=32, ge=1, le=65_536)
    """Channels of the convolutions."""
    width: int = Field(default=128, ge=1, le=65_536)
    """Units of each LSTM layer of the encoder in each direction."""
    layers: int = Field(default=2, ge=1, le=1000)
    """Bidirectional LSTM layers of the encoder."""
    decoder_width: int = Field(default=192, ge=1, le=65_536)
    """Units of the decoder's LSTM."""
    attention_width: int = Field(default=96, ge=1, le=65_536)
    """Size of the space in which the decoder's state is compared with the frames."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of activations dropped after each layer in training."""


class LstmDecoder(nn.Module):
    """Implements `limen.models.speech.attention.Decoder`."""

    def __init__(self, size: int, options: LstmSeq2Seq):
        super().__init__()
        n, a, tokens = options.decoder_width, options.attention_width, len(ALPHABET) + 1
        self.embedding = nn.Embedding(tokens, 64)
        self.cell = nn.LSTMCell(64 + size, n)
        self.of_frames, self.of_state = nn.Linear(size, a), nn.Linear(n, a, bias=False)
        self.location, self.of_location = (
            nn.Conv1d(1, 8, 15, padding=7, bias=False),
            nn.Linear(8, a, bias=False),
        )
        self.energy = nn.Linear(a, 1, bias=False)
        self.dropout = nn.Dropout(options.dropout)
        self.linear = nn.Linear(n + size, tokens)

    def read(self, hidden: Tensor, mask: Tensor) -> State:
        return hidden, self.of_frames(hidden), mask

    def start(self, memory: State) -> State:
        """The initial state: LSTM state and cell, context vector, attention weights."""
        hidden, n = memory[0], self.cell.hidden_size
        zeros = hidden.new_zeros(len(hidden), n)
        return (
            zeros,
            zeros,
            hidden.new_zeros(len(hidden), hidden.shape[2]),
            hidden.new_zeros(hidden.shape[:2]),
        )

    def step(self, tokens: Tensor, state: State, memory: State) -> tuple[Tensor, State]:
        seen, state = self._advance(self.embedding(tokens), state, memory, self._nearby())
        return self.linear(self.dropout(seen)), state

    def forced(self, tokens: Tensor, memory: State) -> Tensor:
        clips = len(tokens)
        if clips < FEWEST_ROWS:  # repeat the last clip
            rows = torch.arange(FEWEST_ROWS, device=tokens.device).clamp_max(clips - 1)
            tokens, memory = tokens[rows], tuple(m[rows] for m in memory)
        state, nearby, seen = self.start(memory), self._nearby(), []
        for given in self.embedding(tokens).unbind(1):
            now, state = self._advance(given, state, memory, nearby)
            seen.append(now)
        written = self.dropout(torch.stack(seen, 1)[:clips])
        return self.linear(F.pad(written, (0, 0, 0, max(FEWEST_ROWS - len(seen), 0))))[:, : len(seen)]

    def _nearby(self) -> Tensor:
        """The product U F, (attention width, kernel): both maps of the location as one."""
        return self.of_location.weight @ self.location.weight[:, 0]

    def _advance(self, given: Tensor, state: State, memory: State, nearby: Tensor) -> tuple[Tensor, State]:
        (h, c, context, weights), (hidden, keys, mask) = state, memory
        h, c = self.cell(torch.cat([given, context], 1), (h, c))
        half = nearby.shape[1] // 2
        where = F.linear(F.pad(weights, (half, half)).unfold(1, nearby.shape[1], 1), nearby)
        energies = self.energy((self.of_state(h).unsqueeze(1) + keys + where).tanh()).squeeze(2)
        weights = energies.masked_fill(~mask, -torch.inf).softmax(1)
        context = (weights.unsqueeze(1) @ hidden).squeeze(1)
        return torch.cat([h, context], 1), (h, c, context, weights)


def lstm_seq2seq(options: LstmSeq2Seq) -> Model:
    encoder = RecurrentEncoder(
        options.bands, options.channels, options.width, options.layers, options.dropout
    )
    return Seq2Seq(TwoHeads(encoder, encoder.size, LstmDecoder(encoder.size, options)), options)
