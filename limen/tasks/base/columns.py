"""Columns that tasks add to what the metrics measure, and what each one counts."""

from limen.metrics.base.metric import Column

TASK_COLUMNS = {
    "already": Column("the clean sample was at the attack's goal before anything was changed", binary=True),
    "success": Column(
        "the attack brought the sample to its goal, of those that were not there before",
        better="lower",
        binary=True,
        unless="already",
    ),
    "correct": Column("the adversarial answer is still the truth", better="higher", binary=True),
    "fooled": Column("the attack changed the answer", better="lower", binary=True),
    "over_the_air": Column(
        "share of fresh draws of the transforms in which the attack reached its goal",
        better="lower",
        share=True,
    ),
    "clean_over_the_air": Column(
        "share of these draws in which the transforms alone reached it", better="lower", share=True
    ),
    "clean_refused": Column("a detector refuses the clean sample", better="lower", binary=True),
    "refused": Column("a detector refuses the adversarial sample", better="higher", binary=True),
    "forward_calls": Column("forward passes of the attack"),
    "backward_calls": Column("gradients of the attack"),
    "dead_gradients": Column("gradients that were zero or not finite", better="lower"),
}
