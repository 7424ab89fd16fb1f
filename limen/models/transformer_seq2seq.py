"""A transformer encoder-decoder recogniser of characters: strided convolutions, self-attention, an
autoregressive decoder, and a CTC head.

Vaswani et al. 2017, https://arxiv.org/abs/1706.03762; for speech Dong et al. 2018,
https://ieeexplore.ieee.org/document/8462506:
    attention(Q, K, V) = softmax(Q K^T / sqrt(d)) V
Departs from the first paper: layers are normalised before, not after (https://arxiv.org/abs/2002.04745),
which makes training less sensitive; and the encoder's layers also convolve over neighbouring frames, as in
Gulati et al. 2020, https://arxiv.org/abs/2005.08100, which the CTC head of a network of this size needs to
learn. `kernel: 0` omits these convolutions. One frame is 40 ms. The defaults are those of the shipped small
network.
"""

import math
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from limen.audio.mel import LogMel
from limen.models.base.model import Model
from limen.models.speech.attention import Seq2Seq, Seq2SeqOptions, TwoHeads
from limen.models.speech.beam import State
from limen.models.speech.ctc import ALPHABET
from limen.models.speech.encoders import Dropout, Front
from limen.models.speech.packed_clips import padded_size, unpack
from limen.models.speech.transformer_layers import Attention, Convolution, positions


class TransformerSeq2Seq(Seq2SeqOptions):
    small: ClassVar[dict[str, Any] | None] = {
        "channels": 4,
        "width": 16,
        "heads": 2,
        "inner_width": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
    }

    bands: int = Field(default=40, ge=1, le=65_536)
    """Mel bands of the features."""
    channels: int = Field(default=32, ge=1, le=65_536)
    """Channels of the convolutions."""
    width: int = Field(default=128, ge=2, le=65_536, multiple_of=2)
    """Size of the vector of a frame and of a character; a multiple of `heads`."""
    heads: int = Field(default=4, ge=1, le=65_536)
    """Attention heads of each layer."""
    inner_width: int = Field(default=384, ge=1, le=65_536)
    """Hidden units of the feed-forward part of each layer."""
    kernel: int = Field(default=15, ge=0, le=65_536)
    """Kernel of the convolution of each encoder layer, in frames, an odd number; 0: none, a plain
    transformer."""
    encoder_layers: int = Field(default=4, ge=1, le=1000)
    """Layers of the encoder."""
    decoder_layers: int = Field(default=2, ge=1, le=1000)
    """Layers of the decoder."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Share of activations dropped after each part of a layer in training."""

    @model_validator(mode="after")
    def _whole_heads(self) -> "TransformerSeq2Seq":
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads, got {self.width} and {self.heads}.")
        if self.kernel and self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd or 0, got {self.kernel}.")
        return self


class Layer(nn.Module):
    """An encoder layer: self-attention, an optional convolution and two linear maps, each with a residual
    connection."""

    def __init__(self, options: TransformerSeq2Seq):
        super().__init__()
        d = options.width
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(3 if options.kernel else 2)])
        self.itself = Attention(d, options.heads)
        self.convolution = Convolution(d, options.kernel) if options.kernel else None
        self.inner = inner(options)
        self.dropout = Dropout(options.dropout)

    def forward(self, x: Tensor, frames: list[int], mask: Tensor) -> Tensor:
        """Packed clips (N, D) to (N, D); `mask` (B, 1, 1, F) is 0 on the frames of each clip and -inf
        after them."""
        x = x + self.dropout(self.itself.within(self.norms[0](x), frames, mask), frames)
        if self.convolution is not None:
            x = x + self.dropout(self.convolution(self.norms[1](x), frames), frames)
        return x + self.dropout(self.inner(self.norms[-1](x)), frames)


class DecoderLayer(nn.Module):
    """A decoder layer: self-attention, attention to the memory and two linear maps, each with a residual
    connection."""

    def __init__(self, options: TransformerSeq2Seq):
        super().__init__()
        d = options.width
        self.norms = nn.ModuleList([nn.LayerNorm(d) for _ in range(3)])
        self.itself, self.memory = Attention(d, options.heads), Attention(d, options.heads)
        self.inner = inner(options)
        self.dropout = nn.Dropout(options.dropout)

    def forward(
        self, x: Tensor, past: Tensor, mask: Tensor | None, memory: Tensor, memory_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`past` (B, P, 2 D) are keys and values of the tokens before x; returned together with those of
        x, for the next step."""
        y = self.norms[0](x)
        past = torch.cat([past, self.itself.key_value(y)], 1)
        x = x + self.dropout(self.itself(y, past, mask))
        x = x + self.dropout(self.memory(self.norms[1](x), memory, memory_mask))
        return x + self.dropout(self.inner(self.norms[2](x))), past


def inner(options: TransformerSeq2Seq) -> nn.Sequential:
    d, n = options.width, options.inner_width
    return nn.Sequential(nn.Linear(d, n), nn.ReLU(), nn.Dropout(options.dropout), nn.Linear(n, d))


class TransformerEncoder(nn.Module):
    def __init__(self, options: TransformerSeq2Seq):
        super().__init__()
        self.features = LogMel(channels=options.bands)
        self.front = Front(options.bands, options.channels)
        self.linear, self.scale = nn.Linear(self.front.width, options.width), math.sqrt(options.width)
        self.dropout = Dropout(options.dropout)
        self.layers = nn.ModuleList([Layer(options) for _ in range(options.encoder_layers)])
        self.norm = nn.LayerNorm(options.width)

    def forward(self, x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x, frames = self.front(x, lengths, self.features)
        x = self.linear(x) * self.scale  # content must outweigh position, section 3.4 of the paper
        places, own = positions(max(frames), x), torch.tensor(frames, device=x.device)
        x = self.dropout(x + torch.cat([places[:n] for n in frames]), frames)
        beyond = torch.arange(padded_size(max(frames)), device=x.device) >= own[:, None]
        mask = torch.zeros_like(beyond, dtype=x.dtype).masked_fill_(beyond, -torch.inf)[
            :, None, None
        ]  # equal to torch's conversion of a bool mask
        for layer in self.layers:
            x = layer(x, frames, mask)
        return unpack(self.norm(x), frames), own


class TransformerDecoder(nn.Module):
    """Implements `limen.models.speech.attention.Decoder`. The state is one (B, P, 2 D) tensor of past keys
    and values per layer."""

    def __init__(self, options: TransformerSeq2Seq):
        super().__init__()
        self.embedding = nn.Embedding(len(ALPHABET) + 1, options.width)
        self.dropout = nn.Dropout(options.dropout)
        self.layers = nn.ModuleList([DecoderLayer(options) for _ in range(options.decoder_layers)])
        self.norm, self.linear = nn.LayerNorm(options.width), nn.Linear(options.width, len(ALPHABET) + 1)

    def read(self, hidden: Tensor, mask: Tensor) -> State:
        return mask[:, None, None], *(layer.memory.key_value(hidden) for layer in self.layers)  # type: ignore[union-attr, operator]

    def start(self, memory: State) -> State:
        return tuple(m[:, :0] for m in memory[1:])

    def step(self, tokens: Tensor, state: State, memory: State) -> tuple[Tensor, State]:
        logits, state = self._run(tokens[:, None], state, None, memory)
        return logits[:, 0], state

    def forced(self, tokens: Tensor, memory: State) -> Tensor:
        length = tokens.shape[1]
        tokens = F.pad(tokens, (0, padded_size(length) - length))
        before = torch.ones(2 * tokens.shape[1:], dtype=torch.bool, device=tokens.device).tril()
        return self._run(tokens, self.start(memory), before, memory)[0][:, :length]

    def _run(self, tokens: Tensor, state: State, mask: Tensor | None, memory: State) -> tuple[Tensor, State]:
        x, done = self.embedding(tokens), state[0].shape[1]
        x = self.dropout(x + positions(done + x.shape[1], x)[done:])
        later = []
        for layer, past, seen in zip(self.layers, state, memory[1:], strict=True):
            x, past = layer(x, past, mask, seen, memory[0])
            later.append(past)
        return self.linear(self.norm(x)), tuple(later)


def transformer_seq2seq(options: TransformerSeq2Seq) -> Model:
    return Seq2Seq(TwoHeads(TransformerEncoder(options), options.width, TransformerDecoder(options)), options)
