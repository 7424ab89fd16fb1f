"""Masked spans, distractors, contrastive loss and outputs with features, for self-supervised encoders.

wav2vec 2.0, Baevski et al. 2020, https://arxiv.org/abs/2006.11477, equation 3, for a masked frame t with K
distractors:
    L_m = -log exp(cos(c_t, q_t) / kappa) / sum over q in {q_t, distractors} of exp(cos(c_t, q) / kappa)
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from limen.core.errors import UserError
from limen.models.speech.ctc import CtcTranscripts


def spans(draws: Tensor, frames: Tensor, starts: float, length: int) -> Tensor:
    """The mask of random spans, (B, F) bool: each frame starts a masked span of `length` frames with
    probability `starts`; every clip has at least one span.

    `draws` (B, F) are uniform numbers; spans stay within the (B,) frames of their clip, and a clip shorter
    than a span is masked entirely.
    """
    place = torch.arange(draws.shape[1], device=draws.device)
    allowed = (place <= (frames.to(draws.device)[:, None] - length)) | (place == 0)
    draws = draws.masked_fill(~allowed, torch.inf)
    begins = (draws < starts) | (place == draws.argmin(1, keepdim=True))
    mask = F.max_pool1d(F.pad(begins.to(draws.dtype), (length - 1, 0)), length, 1) > 0
    return mask & (place < frames.to(draws.device)[:, None])


def distractors(draws: Tensor, mask: Tensor) -> Tensor:
    """Indices of distractors (B, F, K): for each masked frame, K of the other masked frames of its clip.
    `draws` (B, F, K) are uniform numbers."""
    count, rank = mask.sum(1)[:, None, None], mask.long().cumsum(1)[:, :, None] - 1
    drawn = (draws * (count - 1)).long()
    drawn = drawn + (drawn >= rank)  # skips the frame itself; all others are equally likely
    places = mask.long().argsort(
        dim=1, descending=True, stable=True
    )  # indices of the masked frames, in order
    return places.gather(1, drawn.clamp(0, mask.shape[1] - 1).flatten(1)).view_as(drawn)


class FeatureTranscripts(CtcTranscripts):
    """CTC transcripts with the last hidden states of the recogniser."""

    def __init__(
        self,
        features: Tensor,
        log_probs: Tensor,
        frames: Tensor,
        alphabet: str,
        *,
        frame_s: float = 0.02,
        beam: int | None = None,
    ):
        super().__init__(log_probs, frames, alphabet, frame_s=frame_s, beam=beam)
        self.features = features
        """(B, F, C); zero after the frames of each clip."""

    def rows(self, index: Tensor) -> "FeatureTranscripts":
        i = index.to(self.features.device)
        return FeatureTranscripts(
            self.features[i],
            self.log_probs[i],
            self.frames[i],
            self.alphabet,
            frame_s=self.frame_s,
            beam=self.beam,
        )


class Encoded:
    """The outputs of a self-supervised encoder without a head: features and their quantised targets. The
    transcripts are empty."""

    exact = True

    def __init__(self, network: Any, extracted: Tensor, frames: Tensor, starts: float, length: int):
        self.network, self.extracted, self.frames = network, extracted, frames
        """Wav2Vec2ForPreTraining, the outputs of its convolutions (B, F, C), and the (B,) frames of each
        clip."""
        self.starts, self.length = starts, length
        self._features: Tensor | None = None

    @property
    def features(self) -> Tensor:
        """(B, F, C) hidden states of the last layer; zero after the frames of each clip."""
        if self._features is None:
            self._features = contextual(self.network.wav2vec2, self.extracted, self.frames)
        return self._features

    def codes(self) -> Tensor:
        """(B, F, G) most likely entry of each codebook."""
        return self.code_logits().argmax(3)

    def targets(self, codes: Tensor) -> Tensor:
        """(B, F, P) quantised frames in the space in which they are compared with contexts."""
        quantizer = self.network.quantizer
        one_hot = F.one_hot(codes, quantizer.num_vars).to(self.extracted.dtype)
        return self.mixed_targets(one_hot)

    def drawn(self, streams: Sequence[torch.Generator], starts: float, length: int) -> tuple[Tensor, Tensor]:
        """Random masks (B, F) and distractors (B, F, K); they are independent of the batch."""
        wide, k = self.extracted.shape[1], self.network.config.num_negatives
        begins, others = torch.ones(len(self.frames), wide), torch.zeros(len(self.frames), wide, k)
        for i, (n, g) in enumerate(zip(self.frames.tolist(), streams, strict=True)):
            begins[i, :n], others[i, :n] = torch.rand(n, generator=g), torch.rand(n, k, generator=g)
        mask = spans(begins.to(self.extracted), self.frames, starts, length)
        return mask, distractors(others.to(self.extracted), mask)

    def contrastive(
        self, targets: Tensor, codes: Tensor, negatives: Tensor, mask: Tensor, hide: bool = True
    ) -> Tensor:
        """(B,) mean of L_m over the masked frames. `hide`: mask these frames in the encoder's input, as in
        training."""
        true, chosen = self._similarities(targets, codes, negatives, mask, hide)
        losses = torch.cat([true[:, :, None], chosen], 2).logsumexp(2) - true
        return (losses * mask).sum(1) / mask.sum(1)

    def identified_frames(self, streams: Sequence[torch.Generator]) -> list[tuple[int, int]]:
        """For each clip, the number of masked frames that are closer to their own target than to every
        distractor, and the number of masked frames."""
        mask, negatives = self.drawn(streams, self.starts, self.length)
        codes = self.codes()
        true, chosen = self._similarities(self.targets(codes), codes, negatives, mask, hide=True)
        right = (true > chosen.amax(2)) & mask
        return list(zip(right.sum(1).tolist(), mask.sum(1).tolist(), strict=True))

    def _similarities(
        self, targets: Tensor, codes: Tensor, negatives: Tensor, mask: Tensor, hide: bool
    ) -> tuple[Tensor, Tensor]:
        """Similarities cos / kappa of each context with its own target (B, F), and with the distractors
        (B, F, K)."""
        context = (
            contextual(self.network.wav2vec2, self.extracted, self.frames, mask) if hide else self.features
        )
        context = F.normalize(self.network.project_hid(context), dim=2)
        logits = (
            context
            @ F.normalize(targets.to(context), dim=2).mT
            / self.network.config.contrastive_logits_temperature
        )
        same = (codes[:, :, None] == codes[:, None]).all(3)  # distractors with the true codes are excluded
        chosen = logits.masked_fill(same, -torch.inf).gather(2, negatives)
        return logits.diagonal(dim1=1, dim2=2), chosen

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        raise UserError(
            "A self-supervised encoder without a head gives no likelihood of a text. Attack it with the goal "
            '"feature" or "contrastive", or use a model that was fine-tuned from it.'
        )

    def texts(self) -> list[str]:
        return [""] * len(self.frames)

    def would_transcribe(self, texts: Sequence[str], first: int | Sequence[int] | None = None) -> Tensor:
        return torch.tensor([text == "" for text in texts], device=self.extracted.device)

    def rows(self, index: Tensor) -> "Encoded":
        i = index.to(self.extracted.device)
        return Encoded(self.network, self.extracted[i], self.frames[i], self.starts, self.length)

    def code_logits(self) -> Tensor:
        """(B, F, G, V) scores of the entries of each codebook."""
        quantizer = self.network.quantizer
        normed = self.network.wav2vec2.feature_projection.layer_norm(self.extracted)
        return quantizer.weight_proj(normed).unflatten(2, (quantizer.num_groups, quantizer.num_vars))

    def mixed_targets(self, weights: Tensor) -> Tensor:
        """Targets (B, F, P) of weighted sums of codes, with weights (B, F, G, V)."""
        quantizer = self.network.quantizer
        vectors = quantizer.codevectors.view(quantizer.num_groups, quantizer.num_vars, -1)
        return self.network.project_q(torch.einsum("bfgv,gvd->bfgd", weights, vectors).flatten(2))


def contextual(wav2vec2: Any, extracted: Tensor, frames: Tensor, mask: Tensor | None = None) -> Tensor:
    """Outputs of the convolutions (B, F, C) to hidden states of the last layer (B, F, H), with the frames in
    `mask` masked.

    The library's own forward pass draws its masks from numpy's global generator; here they are an argument.
    """
    hidden, _ = wav2vec2.feature_projection(extracted)
    if mask is not None:
        hidden = torch.where(mask[:, :, None], wav2vec2.masked_spec_embed.to(hidden), hidden)
    mine = torch.arange(hidden.shape[1], device=hidden.device) < frames.to(hidden.device)[:, None]
    if bool(mine.all()):
        return wav2vec2.encoder(hidden).last_hidden_state
    return wav2vec2.encoder(hidden, attention_mask=mine).last_hidden_state * mine[:, :, None]
