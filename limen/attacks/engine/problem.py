"""The problem that a search solves: samples, a model, a goal and a budget. Attack = goal x budget x search;
a search knows nothing else.

Autograd is enabled in `Problem` and in the clean pass kept for it (`forward.py`), and nowhere else. Finished
samples leave the batch (`rows`).
"""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from threading import Event

import torch
from torch import Tensor

from limen.attacks.engine.forward import CleanPass, Confirmations, FullPath, forward_pass
from limen.budgets.families.budget import Budget
from limen.core.errors import SampleError, UserError
from limen.core.seeds import Streams
from limen.core.types import GuardedOutputs, Outputs, answers_of, refused_by, select, valid
from limen.goals.base.goal import Goal
from limen.models.base.ensemble import Ensemble
from limen.models.base.model import Model

NO_BUDGET = (
    "needs a budget and has none. Add one, for example budget: {name: linf, eps: 0.03}; `limen list "
    "budgets` shows all."
)


DETECTOR_WEIGHT = 10.0
"""Weight in the loss of a detector's score above its threshold (He et al. 2017,
https://arxiv.org/abs/1706.04701). Scores are between 0 and about 2, and losses of confident answers near 10:
evading the detector must not have less weight than a better answer."""


@dataclass
class Calls:
    """Per sample: numbers of forward passes, of gradients, and of gradients without information."""

    forward: Tensor
    backward: Tensor
    dead: Tensor
    """Gradients that were zero or not finite."""

    @staticmethod
    def none(n: int) -> "Calls":
        return Calls(*(torch.zeros(n, dtype=torch.long) for _ in range(3)))


@dataclass
class Watch:
    """A held-out model that scores the points of a search; the best point of each sample is its result, so a
    perturbation that overfits the surrogates is not chosen. Section 6.3.1 of Olivier 2023."""

    model: Model
    x: Tensor
    """(B, ...) the best point of each sample."""
    best: Tensor
    """(B,) its score."""
    dtype: torch.dtype
    """Precision of the model's samples; that of the search may be higher."""
    every: int = 1
    """Gradients of the attack between two evaluations."""
    gradients: int = 0
    """Gradients of the attack so far."""

    @staticmethod
    def over(model: Model, x: Tensor, dtype: torch.dtype, every: int = 1) -> "Watch":
        return Watch(model, x.clone(), x.new_full((len(x),), -torch.inf), dtype, every)

    @torch.no_grad()
    def observe(self, problem: "Problem", x_adv: Tensor, last: bool = False) -> None:
        self.gradients += 1
        if not last and (self.gradients - 1) % self.every:
            return
        score = problem.goal.score(
            forward_pass(self.model, x_adv.to(self.dtype), problem.lengths, problem.generators)
        ).to(self.best)
        rows = problem.index.to(self.x.device)
        i = (score > self.best[rows]).nonzero().squeeze(1)
        self.best[rows[i]], self.x[rows[i]] = score[i], x_adv[i].detach()


@dataclass
class Problem:
    model: Model
    x: Tensor
    """(B, ...) clean samples."""
    goal: Goal
    budget: Budget | None
    """None: the attack seeks the smallest change it can."""
    generators: Sequence[torch.Generator]
    """One stream per sample."""
    low: Tensor | float
    high: Tensor | float
    """Valid range of samples; tensors broadcast against one sample."""
    y: Tensor | list[str] | None = None
    """True labels or transcripts (needed by universal attacks per class)."""
    lengths: Tensor | None = None
    calls: Calls = field(default_factory=lambda: Calls.none(0))
    index: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.long))
    """Position of each row in the original batch."""
    ids: list[str] = field(default_factory=list)
    """Names of the samples."""
    watch: "Watch | None" = None
    """A held-out model that scores the points."""
    clean: CleanPass | None = None
    """The forward pass over the clean samples, if the first gradient can be computed from it."""
    full: FullPath | None = None
    """The model itself, if the search uses a faster approximation of it."""
    confirmations: Confirmations = field(default_factory=lambda: Confirmations.none(0))
    halt: Event | None = None
    """Once set, no further forward pass starts: the search was interrupted."""

    def __post_init__(self) -> None:
        if len(self.index) != len(self.x):
            n = len(self.x)
            self.index, self.calls, self.confirmations = torch.arange(n), Calls.none(n), Confirmations.none(n)
        self.mask = valid(self.x, self.lengths)
        self._one = torch.ones(len(self.x), dtype=torch.long)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def ball(self) -> Budget:
        """The budget of an attack that needs one."""
        if self.budget is None:
            raise UserError(f"This attack {NO_BUDGET}")
        return self.budget

    def rows(self, keep: Tensor) -> "Problem":
        """The problem of some samples; `keep` holds row numbers (a row may come more than once) or a mask."""
        i = keep.nonzero().squeeze(1) if keep.dtype == torch.bool else keep
        return replace(
            self,
            x=select(self.x, i),
            goal=self.goal.rows(i),
            budget=None if self.budget is None else self.budget.rows(i),
            generators=_streams(self.generators, i.tolist()),
            y=None if self.y is None else select(self.y, i),
            lengths=None if self.lengths is None else select(self.lengths, i),
            index=self.index[i.cpu()],
            ids=select(self.ids, i) if self.ids else [],
        )

    def trimmed(self) -> "Problem":
        """The same clips without the padding that none of them needs."""
        if (
            self.lengths is None
            or self.goal.keeps_padding
            or isinstance(self.low, Tensor)
            or isinstance(self.high, Tensor)
        ):
            return self
        longest = int(self.lengths.max())
        budget = None if self.budget is None else self.budget.cut(longest)
        return replace(self, x=self.x[:, :longest], budget=budget)

    def recentred(self, x: Tensor, budget: Budget | None) -> "Problem":
        """The same goal around other points and with another budget; calls are counted together."""
        return replace(self, x=x, budget=budget, clean=None)

    def clip(self, x_adv: Tensor) -> Tensor:
        """Clip to the range of samples. Clean samples are in it, so this never makes a change larger."""
        if isinstance(self.low, Tensor) or isinstance(self.high, Tensor):
            return torch.minimum(
                torch.maximum(x_adv, torch.as_tensor(self.low).to(x_adv)),
                torch.as_tensor(self.high).to(x_adv),
            )
        return x_adv.clamp(self.low, self.high)

    def project(self, x_adv: Tensor) -> Tensor:
        """Project into the budget, if there is one, and into the range."""
        return self.clip(x_adv) if self.budget is None else self._allowed(x_adv - self.x)

    def step(self, x_adv: Tensor, gradient: Tensor, size: Tensor) -> Tensor:
        """One steepest step of norm `size` (B,), projected."""
        if self.ball.sparse:
            # a coordinate at the end of the range cannot move further: without this the same one would be
            # chosen at every step
            gradient = self.movable(x_adv, gradient)
        return self._allowed(self.ball.step(gradient, size).add_(x_adv).sub_(self.x))

    def movable(self, x_adv: Tensor, gradient: Tensor) -> Tensor:
        """The gradient, zero for values at an end of the range that would be pushed beyond it."""
        free = torch.empty_like(
            gradient
        )  # 1 or 0, not a mask: masked filling takes five times as long as multiplying
        return torch.ne(self.clip(gradient.sign().add_(x_adv)), x_adv, out=free).mul_(gradient)

    def _allowed(self, delta: Tensor) -> Tensor:
        """x + delta within budget and range. In place if possible, because allocating memory is most of the
        cost of a step apart from the model."""
        x_adv = self.ball.project(delta).add_(self.x)
        return (
            self.clip(x_adv)
            if isinstance(self.low, Tensor) or isinstance(self.high, Tensor)
            else x_adv.clamp_(self.low, self.high)
        )

    def start(self) -> Tensor:
        """A random allowed point; padding is left alone."""
        return self.clip(
            self.x + self.ball.start(self.x, self.generators, None if self.mask is None else self.lengths)
        )

    def outputs(self, x_adv: Tensor) -> Outputs:
        if self.halt is not None and self.halt.is_set():
            raise CancelledError
        self.calls.forward.index_add_(0, self.index, self._one)
        return forward_pass(self.model, x_adv, self.lengths, self.generators)

    @property
    def draws(self) -> int:
        """Number of evaluations of a random model that are averaged."""
        return self.model.draws if self.model.random else 1

    @torch.no_grad()
    def reached(self, x_adv: Tensor) -> Tensor:
        """(B,) bool."""
        return self.evaluate(x_adv)[1]

    @torch.no_grad()
    def evaluate(
        self, x_adv: Tensor, loss: Callable[[Outputs], Tensor] | None = None, confirm: bool = True
    ) -> tuple[Tensor, Tensor]:
        """(B,) loss (`loss` replaces the goal's own) and (B,) reached, without gradients. For a model that
        draws at random: mean loss, and whether all draws agree. `confirm` as in `gradient`, but without
        pauses."""
        measure = loss or self.goal.loss
        losses, votes = [], []
        for _ in range(self.draws):
            outputs = self.outputs(x_adv)
            losses.append(self.measured(measure, outputs).to(self.x.dtype))
            votes.append(self.confirmed(outputs, x_adv) if confirm else self._claimed(outputs))
        return _mean(losses), _all(votes)

    def gradient(
        self,
        x_adv: Tensor,
        loss: Callable[[Outputs], Tensor] | None = None,
        through: Callable[[Tensor], Tensor] | None = None,
        confirm: bool = True,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """d loss_i / d x_i for every row, the losses, and which rows have already reached the goal. One
        forward pass serves all three.

        `loss` replaces the goal's own; `through` maps what is varied to samples, which then need not be
        samples (a sticker, a filter). For a model that draws at random: the mean over its draws (EOT, Athalye
        et al. 2018), reached if all draws agree.

        A claimed success that was rejected (see `confirmed`) is checked again some gradients later: a search
        may end a few steps after its first success, but never without one. `confirm=False` takes the claims
        unchecked, for gradients whose third value is not used.
        """
        if self.watch is not None and through is None:
            self.watch.observe(self, x_adv)
        measure = loss or self.goal.loss
        due = self.confirmations.due(self.index) if confirm else None
        gradients, losses, votes = [], [], []
        for _ in range(self.draws):
            with torch.enable_grad():
                leaf, samples, outputs = self._passed(x_adv, through)
                values = self.measured(measure, outputs)
                gradient = _slope(
                    values.sum(), leaf
                )  # sum, not mean: each row's gradient is independent of the batch size
            gradients.append(self._cleaned(gradient if len(leaf) == len(x_adv) else gradient[self.index]))
            losses.append(values.detach().to(self.x.dtype))
            votes.append(
                self.confirmed(outputs, samples.detach(), due) if confirm else self._claimed(outputs)
            )
        return _mean(gradients), _mean(losses), _all(votes)

    def measured(self, loss: Callable[[Outputs], Tensor], outputs: Outputs) -> Tensor:
        """(B,) losses; an error names samples that cannot have one. Behind a detector they are lowered by its
        score above the threshold, which alone gives the gradient of samples whose answer is at the goal
        (Bryniarski et al. 2021, https://arxiv.org/abs/2106.15023)."""
        try:
            values = loss(answers_of(outputs))
        except SampleError as error:
            raise error.named(self.ids) from None
        if isinstance(outputs, GuardedOutputs):
            refused = outputs.refused & self.goal.reached(outputs.answers).to(outputs.refused.device)
            values = torch.where(refused.to(values.device), values.detach(), values)
            values = values - DETECTOR_WEIGHT * outputs.suspicion.clamp_min(0).to(values)
        return values

    def _passed(
        self, x_adv: Tensor, through: Callable[[Tensor], Tensor] | None
    ) -> tuple[Tensor, Tensor, Outputs]:
        """What is varied, the samples computed from it, and the model's outputs. At the clean samples the
        forward pass may exist already; its leaf then holds all samples."""
        known = None if self.clean is None or through is not None else self.clean.take(x_adv, self.index)
        if known is not None:
            leaf, outputs = known
            return leaf, x_adv, outputs if len(leaf) == len(x_adv) else outputs[self.index]
        leaf = x_adv.detach().requires_grad_()
        samples = leaf if through is None else through(leaf)
        return leaf, samples, self.outputs(samples)

    def input_gradients(
        self, x_adv: Tensor, pick: Tensor, base: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Logits (B, K) and the gradients (B, k, ...) of the logits whose numbers `pick` (B, k) holds.
        Classifiers only.

        With `base` (B,), gradients of the differences to that logit. For a model that draws at random: means
        over its draws.
        """
        all_logits, all_gradients = [], []
        for _ in range(self.draws):
            with torch.enable_grad():
                leaf = x_adv.detach().requires_grad_()
                logits = self.outputs(leaf)
                assert isinstance(logits, Tensor)
                chosen = logits.gather(1, pick) - (0 if base is None else logits.gather(1, base[:, None]))
                sums = chosen.sum(0)
                columns = [_slope(value, leaf, again=j + 1 < len(sums)) for j, value in enumerate(sums)]
            all_logits.append(logits.detach())
            cleaned = [self._cleaned(c) for c in columns]
            all_gradients.append(cleaned[0][:, None] if len(cleaned) == 1 else torch.stack(cleaned, 1))
        return _mean(all_logits), _mean(all_gradients)

    @property
    def deterministic(self) -> bool:
        """False for a model that draws at random: success in one draw proves nothing, so no sample leaves
        early."""
        return not self.model.random

    @torch.no_grad()
    def confirmed(self, outputs: Outputs, x_adv: Tensor, due: Tensor | None = None) -> Tensor:
        """(B,) bool: which samples reach the goal, given the model's outputs. Claims that need decoding are
        decoded, and claims of an approximation are checked on the model itself. With `due` (B,), only claims
        of these rows are checked, and those of others do not count."""
        reached, needs_decoding = self._claimed(outputs), self.goal.needs_decoding(outputs)
        if self.full is not None:
            claims = reached.cpu()
        elif needs_decoding is not None:
            claims = reached.cpu() & needs_decoding
        else:
            return reached
        checked = (claims if due is None else claims & due).nonzero().squeeze(1)
        reached = reached & ~claims.to(reached.device)
        if len(checked):
            rows = self.rows(checked)
            confirmed = rows._confirmed(
                outputs[checked] if isinstance(outputs, Tensor) else outputs.rows(checked),
                select(x_adv, checked),
            )
            self.confirmations.record(rows.index, confirmed, pauses=due is not None)
            reached[checked] = confirmed.to(reached.device)
        return reached

    def _confirmed(self, outputs: Outputs, x_adv: Tensor) -> Tensor:
        """(B,) bool, given the outputs of the model that the search evaluates."""
        # decoding these outputs costs less than a pass over the model itself, so it is first
        reached = (
            self.goal.judged(outputs).cpu()
            if self.goal.needs_decoding(outputs) is not None
            else torch.ones(len(self), dtype=torch.bool)
        )
        i = reached.nonzero().squeeze(1)
        if self.full is not None and len(i):
            left = self.rows(i)
            self.calls.forward.index_add_(0, left.index, left._one)
            reached[i] = self.full.confirms(
                left.goal, select(x_adv, i), left.index, left.lengths, left.generators
            ).cpu()
        return reached

    @torch.no_grad()
    def _claimed(self, outputs: Outputs) -> Tensor:
        reached, refused = self.goal.reached(outputs).to(self.x.device), refused_by(outputs)
        return reached if refused is None else reached & ~refused.to(self.x.device)

    def _cleaned(self, gradient: Tensor) -> Tensor:
        """Counts dead gradients, makes non-finite entries zero and leaves padding alone."""
        flat = gradient.flatten(1)
        largest = flat.amax(1).maximum(
            -flat.amin(1)
        )  # no copy of the magnitudes; ten times faster than vector_norm of ord inf
        self.calls.backward.index_add_(0, self.index, self._one)
        if not math.isfinite(largest.log().sum()):  # one is 0, infinite or NaN
            alive = (largest > 0) & (largest < torch.inf)
            self.calls.dead.index_add_(0, self.index, (~alive).long().cpu())
            gradient = gradient.nan_to_num(0.0, 0.0, 0.0)
        return gradient * self.mask if self.mask is not None and gradient.shape == self.x.shape else gradient


def searched(problem: Problem, search: Callable[[Problem], Tensor]) -> Tensor:
    """The result of the search. Searches of classifiers also use logits and may end if only an approximation
    is fooled: those samples are searched again on the model itself."""
    x_adv = search(problem)
    if problem.full is None or problem.model.output != "class":
        return x_adv
    left = (
        (~problem.reached(x_adv).cpu() & problem.confirmations.rejected[problem.index])
        .nonzero()
        .squeeze(1)
        .to(x_adv.device)
    )
    if not len(left):
        return x_adv
    return x_adv.index_copy(0, left, search(replace(problem.rows(left), model=problem.full.model, full=None)))


def _streams(generators: Sequence[torch.Generator], rows: list[int]) -> Sequence[torch.Generator]:
    return generators.rows(rows) if isinstance(generators, Streams) else [generators[i] for i in rows]


def _slope(value: Tensor, leaf: Tensor, again: bool = False) -> Tensor:
    """d value / d leaf; zero if the value does not depend on it (a constant model, a cut graph)."""
    if not value.requires_grad:
        return torch.zeros_like(leaf)
    (slope,) = torch.autograd.grad(value, leaf, retain_graph=again, allow_unused=True, materialize_grads=True)
    return (
        slope.contiguous()
    )  # the gradient has the memory format of `forward_pass`; the search uses that of x


def _mean(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else torch.stack(values).mean(0)


def _all(votes: list[Tensor]) -> Tensor:
    # the final evaluation is one draw: a sample that succeeds in most draws only would often fail it
    return votes[0] if len(votes) == 1 else torch.stack(votes).all(0)


def need_classes(problem: Problem, who: str) -> None:
    """For attacks that read the logits of single classes."""
    if problem.model.refuses:
        raise UserError(
            f"The attack {who} uses logits and cannot evade the detector in front of this model. Use pgd, "
            "fgsm, bim, mi_fgsm or square, which lower its score too."
        )
    if problem.model.output != "class" or any(isinstance(m, Ensemble) for m in problem.model.modules()):
        raise UserError(
            f"The attack {who} needs one classifier, but this model gives transcripts, or there are several. "
            "Use pgd, fgsm, bim, mi_fgsm, cw_l2 or uap, which only need a loss."
        )
