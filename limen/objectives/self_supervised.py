"""Contrastive pre-training of an encoder, which must identify the quantised content of its masked frames
among distractors. The truth of the samples is not used.

wav2vec 2.0, Baevski et al. 2020, https://arxiv.org/abs/2006.11477, equations 2 to 4:
    L = L_m + alpha (1 - perplexity / number of codes)
L_m is the mean contrastive loss over the masked frames of a clip; the second term rewards the even use of all
codes over the batch. Masks, distractors and codes are drawn from torch's global generator, as dropout is.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from limen.core.errors import UserError
from limen.core.types import Batch, Output
from limen.models.base.model import Model
from limen.models.speech.self_supervised import Encoded, distractors, spans
from limen.objectives.base.objective import ObjectiveOptions


class SelfSupervised(ObjectiveOptions):
    outputs: ClassVar[tuple[Output, ...]] = ("embedding",)
    default_for: ClassVar[tuple[Output, ...]] = ("embedding",)


def self_supervised(
    model: Model, batch: Batch, streams: Sequence[torch.Generator], options: SelfSupervised
) -> Tensor:
    encoded = model(batch.x, batch.lengths, streams)
    if not isinstance(encoded, Encoded):
        raise UserError(
            "The objective self_supervised needs an encoder with a quantiser, such as {name: wav2vec2_small, "
            "head: pretraining}."
        )
    quantizer, config = encoded.network.quantizer, encoded.network.config
    shape, device = encoded.extracted.shape[:2], encoded.extracted.device
    mask = spans(torch.rand(shape, device=device), encoded.frames, encoded.starts, encoded.length)
    negatives = distractors(torch.rand((*shape, config.num_negatives), device=device), mask)
    logits = encoded.code_logits()
    picked = F.gumbel_softmax(logits, tau=quantizer.temperature, hard=True)
    loss = encoded.contrastive(encoded.mixed_targets(picked), picked.argmax(3), negatives, mask)
    share = (logits.softmax(3) * mask[:, :, None, None]).sum((0, 1)) / mask.sum()  # how often a code is used
    perplexity = (-torch.xlogy(share, share).sum(1)).exp().sum()
    return loss + config.diversity_loss_weight * (1 - perplexity / share.numel())
