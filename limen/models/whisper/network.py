"""Whisper's network: an encoder for 30 s of sound and an autoregressive decoder, with the parameter names of
OpenAI's files.

Radford et al. 2022, https://arxiv.org/abs/2212.04356: pre-norm transformer blocks, exact GELU, keys without
bias, output layer tied to the token embedding.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limen.models.base.model import PublishedNames

KeysValues = tuple[Tensor, Tensor]
"""Keys and values, each (B, heads, positions, width of a head)."""


@dataclass(frozen=True)
class Dims:
    mels: int
    width: int
    heads: int
    encoder_layers: int
    decoder_layers: int
    vocabulary: int
    positions: int = 1500
    """Encoder positions, one every 20 ms."""
    context: int = 448
    """Maximum number of tokens of the decoder."""


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def keys_values(self, x: Tensor) -> KeysValues:
        return self._split(self.key(x)), self._split(self.value(x))

    def forward(self, x: Tensor, memory: KeysValues, bias: Tensor | None = None) -> Tensor:
        """`bias` (B, 1, queries or 1, keys) is added to the scores."""
        attended = F.scaled_dot_product_attention(self._split(self.query(x)), *memory, attn_mask=bias)
        return self.out(attended.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, cross: bool):
        super().__init__()
        self.attn, self.attn_ln = Attention(width, heads), nn.LayerNorm(width)
        if cross:
            self.cross_attn, self.cross_attn_ln = Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.mlp_ln = nn.LayerNorm(width)


class Encoder(nn.Module):
    positional_embedding: Tensor
    blocks: Sequence[Block]

    def __init__(self, dims: Dims):
        super().__init__()
        self.conv1 = nn.Conv1d(dims.mels, dims.width, 3, padding=1)
        self.conv2 = nn.Conv1d(dims.width, dims.width, 3, stride=2, padding=1)
        self.register_buffer("positional_embedding", _sinusoids(dims.positions, dims.width))
        self.blocks = nn.ModuleList(
            Block(dims.width, dims.heads, cross=False) for _ in range(dims.encoder_layers)
        )  # type: ignore[assignment]
        self.ln_post = nn.LayerNorm(dims.width)

    def frames(self, mel: Tensor) -> Tensor:
        """Features (B, mels, 2 n) to frames (B, n, width), without positions."""
        return F.gelu(self.conv2(F.gelu(self.conv1(mel)))).mT

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        """Frames with positions added, (B, n, width), to the encoder's output."""
        for block in self.blocks:
            normed = block.attn_ln(x)
            x = x + block.attn(normed, block.attn.keys_values(normed), bias)
            x = x + block.mlp(block.mlp_ln(x))
        return self.ln_post(x)


class Decoder(nn.Module):
    blocks: Sequence[Block]

    def __init__(self, dims: Dims):
        super().__init__()
        self.token_embedding = nn.Embedding(dims.vocabulary, dims.width)
        self.positional_embedding = nn.Parameter(torch.randn(dims.context, dims.width) * 0.01)
        self.blocks = nn.ModuleList(
            Block(dims.width, dims.heads, cross=True) for _ in range(dims.decoder_layers)
        )  # type: ignore[assignment]
        self.ln = nn.LayerNorm(dims.width)

    def forward(
        self,
        tokens: Tensor,
        encoded: list[KeysValues],
        bias: Tensor | None,
        past: list[KeysValues] | None = None,
    ) -> tuple[Tensor, list[KeysValues]]:
        """Tokens (B, L) that follow `past` to the logits of each next token (B, L, vocabulary), and the
        keys and values of all tokens so far. `encoded` are the encoder's keys and values for each layer."""
        n = past[0][0].shape[2] if past else 0
        x = self.token_embedding(tokens) + self.positional_embedding[n : n + tokens.shape[1]]
        causal = torch.full(
            (tokens.shape[1], n + tokens.shape[1]), -math.inf, dtype=x.dtype, device=x.device
        ).triu(n + 1)
        present = []
        for i, block in enumerate(self.blocks):
            normed = block.attn_ln(x)
            memory = block.attn.keys_values(normed)
            if past:
                memory = torch.cat((past[i][0], memory[0]), 2), torch.cat((past[i][1], memory[1]), 2)
            present.append(memory)
            x = x + block.attn(normed, memory, causal if tokens.shape[1] > 1 else None)
            x = x + block.cross_attn(block.cross_attn_ln(x), encoded[i], bias)
            x = x + block.mlp(block.mlp_ln(x))
        return self.ln(x) @ self.token_embedding.weight.T, present


HUGGING_FACE = (
    (r"^model\.", ""),
    (r"^proj_out\.weight$", "decoder.token_embedding.weight"),
    (r"\.layers\.", ".blocks."),
    (r"\.self_attn\.", ".attn."),
    (r"\.encoder_attn\.", ".cross_attn."),
    (r"\.self_attn_layer_norm\.", ".attn_ln."),
    (r"\.encoder_attn_layer_norm\.", ".cross_attn_ln."),
    (r"\.final_layer_norm\.", ".mlp_ln."),
    (r"\.fc1\.", ".mlp.0."),
    (r"\.fc2\.", ".mlp.2."),
    (r"\.q_proj\.", ".query."),
    (r"\.k_proj\.", ".key."),
    (r"\.v_proj\.", ".value."),
    (r"\.out_proj\.", ".out."),
    (r"^encoder\.layer_norm\.", "encoder.ln_post."),
    (r"^decoder\.layer_norm\.", "decoder.ln."),
    (r"\.embed_positions\.weight$", ".positional_embedding"),
    (r"\.embed_tokens\.", ".token_embedding."),
)
"""Conversion of Hugging Face's parameter names to ours, which are OpenAI's."""


class WhisperNetwork(PublishedNames):
    renamed: ClassVar[tuple[tuple[str, str], ...]] = HUGGING_FACE

    def __init__(self, dims: Dims):
        super().__init__()
        self.dims = dims
        self.encoder, self.decoder = Encoder(dims), Decoder(dims)

    def encoder_keys_values(self, x: Tensor) -> list[KeysValues]:
        """Keys and values of the encoder's output (B, n, width) for each decoder layer."""
        return [block.cross_attn.keys_values(x) for block in self.decoder.blocks]


def _sinusoids(positions: int, width: int) -> Tensor:
    """Sines, then cosines, of wavelengths from 2 pi to 20,000 pi positions."""
    rates = torch.exp(-math.log(10_000) * torch.arange(width // 2) / (width // 2 - 1))
    angles = torch.arange(positions)[:, None] * rates
    return torch.cat((angles.sin(), angles.cos()), 1)
