"""Perceptual adversarial similarity score: structural similarity of the aligned pictures.

Rozsa et al. 2016, https://arxiv.org/abs/1605.01775: structural similarity after the homography under which
the two correlate best, so that a picture that was only moved or rotated scores nearly 1. Equal pictures
score 1. The computation is in `limen/perception/similarity.py`.
"""

from typing import ClassVar

from limen.core.types import Samples
from limen.metrics.base.metric import Column, Columns, MetricOptions, per_pair
from limen.perception import similarity


class PassScore(MetricOptions):
    kinds: ClassVar[tuple[str, ...]] = ("picture",)
    on_request: ClassVar[bool] = True

    def columns(self) -> dict[str, Column]:
        return {
            "pass_score": Column(
                "structural similarity of the two pictures after alignment",
                better="higher",
                heading="PASS",
                format="2f",
                needs_attack=True,
            )
        }


def pass_score(samples: Samples, options: PassScore) -> Columns:
    return {
        "pass_score": per_pair(samples, lambda x, x_adv: float(similarity.pass_score(x_adv[None], x[None])))
    }
