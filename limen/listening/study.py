"""The study file: items, listeners, steps, exclusion rules and hypotheses.

A study is one YAML file and its audio. The hash of its content is recorded before the first answer, so later
changes of exclusion rules and hypotheses are detected.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from limen.core.components import names, spec_of
from limen.core.errors import UserError
from limen.core.options import Options, parse_options
from limen.core.yaml import read_yaml
from limen.data.base.tables import read_rows

Condition = str


class Item(Options):
    """A clip in one or more conditions."""

    id: str = Field(min_length=1, max_length=200)
    """Name in the results."""
    files: dict[Condition, str] = Field(min_length=1)
    """Audio of each condition: {clean: audio/yes.wav, adversarial: audio/yes_adv.wav}; paths from the study
    file's folder."""
    answer: str | None = None
    """The spoken text: the right answer of an identification."""
    group: str | None = None
    """Only listeners of this group hear it; null: all do."""
    factors: dict[str, str | float | int | bool] = Field(default_factory=dict)
    """Keys to group results by: {loudness: low, class: yes}."""


Name = Annotated[str, Field(min_length=1, max_length=200)]
SHARED = ("STUDY_ID", "SESSION_ID", "assignmentId", "hitId")
"""Parameters of recruitment sites that identify a study or a visit, not a person: different people have the
same value, or one person several."""
UNFILLED = re.compile(r"\{\{.*\}\}|\$\{.*\}|\[.*\]|<.*>|%\w+%|.*ID_NOT_AVAILABLE")
"""Values that do not identify anyone: a placeholder that the recruitment site did not fill in, and that of
Mechanical Turk in a preview."""


class Recruitment(Options):
    """Recruitment: identification of listeners, completion codes and redirection."""

    person: list[Name] = Field(
        default=["PROLIFIC_PID", "workerId", "participantId", "participant_id", "participant"]
    )
    """Parameters of the address that identify a listener (Prolific, Mechanical Turk, CloudResearch, ...; add
    the name that your site uses). The first one present identifies a returning listener. Stored as personal
    data, apart from the answers."""
    parameters: list[Name] = Field(default=list(SHARED))
    """Further parameters of the address, stored in the same way. They never identify a listener."""
    preview: list[str] = Field(default=[])
    """Values of these parameters that mark a preview of the study on a recruitment site: the visitor sees the
    first pages, and nothing is stored. ASSIGNMENT_ID_NOT_AVAILABLE and placeholders that were not filled in
    ({{%PROLIFIC_PID%}}) always mark a preview."""
    codes: Literal["study", "listener"] = "study"
    """study: every listener who finishes gets the same completion code, as recruitment sites expect.
    listener: each gets a different one."""
    code: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_-]{4,64}$")
    """The completion code of the study; null: one is generated when the study is first served."""
    redirect: str | None = Field(default=None, pattern=r"^https?://[^\s]+$")
    """Address that listeners are redirected to at the end; {code} is replaced by the completion code,
    {PROLIFIC_PID} and so on by their parameters."""

    @model_validator(mode="after")
    def _persons(self) -> "Recruitment":
        if shared := sorted({name.lower() for name in self.person} & {name.lower() for name in SHARED}):
            raise ValueError(
                f"person holds {', '.join(shared)}, which different people share. Give the parameter that "
                "identifies one person, and move this one to parameters."
            )
        if self.code is not None and self.codes == "listener":
            raise ValueError(
                "code is the completion code of the study, but codes is listener: give only one of the two."
            )
        return self

    @property
    def kept(self) -> list[str]:
        """All parameters of the address that are stored."""
        return list(dict.fromkeys([*self.person, *self.parameters]))

    def read(self, address: Mapping[str, str]) -> dict[str, str]:
        """The parameters of an address that are stored, with their values."""
        return {name: value for name in self.kept if (value := address.get(name, "").strip())}

    def who(self, address: Mapping[str, str]) -> tuple[str, str] | None:
        """Name and value of the parameter that identifies a person."""
        return next(((name, value) for name in self.person if (value := address.get(name, "").strip())), None)

    def previews(self, address: Mapping[str, str]) -> bool:
        """Whether the address is that of a preview."""
        return any(
            value in self.preview or UNFILLED.fullmatch(value) for value in self.read(address).values()
        )


class Rule(Options):
    """An exclusion rule. Rules are applied in order, exactly as written."""

    name: Literal[
        "incomplete",
        "catch_confidence",
        "sentinels",
        "checks",
        "headphones",
        "too_fast",
        "unheard",
        "constant_answers",
        "hidden_reference",
        "mid_anchor",
        "implausible",
    ]
    """incomplete: did not reach the end. catch_confidence: answered a catch trial with one of `values` as
    confidence. sentinels: more than `most` wrong sentinels. checks: more than `most` failed checks
    (attention, headphones). headphones: more than `most` wrong screens of the headphone check. too_fast: the
    median time of a trial is below `seconds`. unheard: more than `most` trials without proof that every sound
    was played. constant_answers: the same answer to all trials of a type. hidden_reference and mid_anchor are
    the post-screening of ITU-R BS.1534-3, section 4.1.2, for MUSHRA: the hidden reference rated below
    `score`, or `anchor` rated above `score`, in more than the `share` of the trials. Items whose anchor more
    than a quarter of all listeners rate above `score` are not counted for mid_anchor: their anchor is not
    degraded enough. implausible: right in ABX far more often than others in the same condition, and most of
    it in less time than the sounds last, like a program that compares samples."""
    values: list[str] = Field(default=["high"])
    most: int = Field(default=0, ge=0)
    seconds: float = Field(default=1.0, gt=0)
    score: float = Field(default=90.0, ge=0, le=100)
    share: float = Field(default=0.15, ge=0, lt=1)
    anchor: str = Field(default="low-pass 7 kHz", min_length=1)


def _known_trial(name: str) -> str:
    if name not in names("trials"):
        raise ValueError(f"there is no trial type {name!r}. There are: {', '.join(names('trials'))}.")
    return name


class Hypothesis(Options):
    """A hypothesis fixed before the first answer, which the results page answers."""

    name: str = Field(min_length=1)
    kind: Literal["above_chance", "equivalent", "different"] = "above_chance"
    """above_chance: more right answers than by guessing. equivalent: the share of right answers is within
    `bound` of chance. different: ratings or shares differ between conditions. All generalise over listeners
    and items."""
    trial: Annotated[str, AfterValidator(_known_trial)]
    """The trial type it is about; `limen list trials` shows them."""
    by: str | None = None
    """Test for each value of this factor (or `group`, `condition`); null: over all answers."""
    bound: float = Field(default=0.1, gt=0, lt=0.5)
    effect: float = Field(default=0.65, gt=0, lt=1)
    """Share of right answers that should be detected with `power`; `limen listen check` computes the number
    of listeners needed."""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    power: float = Field(default=0.8, gt=0, lt=1)


Step = Annotated[
    dict[str, Any], BeforeValidator(lambda v: {"name": v} if isinstance(v, str) else v), spec_of("trials")
]
"""A spec of a trial type: "consent", or {name: abx, trials: 6}."""


class Study(Options):
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")
    """Short name: lower-case letters, digits, - and _."""
    title: str = Field(default="Listening study", max_length=200)
    """Heading of every page."""
    contact: str = Field(default="", max_length=200)
    """Contact address shown to listeners."""
    seed: int = 0
    """Determines orders, choices and right answers: give a number that cannot be guessed, as `limen listen
    new` does."""
    listeners: int = Field(default=20, ge=1, le=100_000)
    """Number of listeners wanted. The study closes when this many have finished."""
    items: list[Item] = Field(default_factory=list)
    """The clips: a list, or the name of a CSV file with the columns id, answer, group, `file:CONDITION` for
    every condition, and any other column as a factor."""
    groups: list[str] = Field(default_factory=list)
    """Groups of listeners, each of which hears the items of its own `group`; a new listener joins the
    group with the fewest. Default: those of the items, in order."""
    steps: list[Step] = Field(min_length=1)
    """Steps of the study, in order."""
    power_dbfs: float | None = Field(default=-26.0, le=0)
    """Mean power of every sound, in dB of full scale; null leaves sounds unchanged."""
    dither: bool = True
    """If a screen plays several sounds, independent noise of one 16-bit step (93 dB below full scale) is
    added to each, so that equal sounds are not equal files; a program that compares their samples can still
    identify X. false plays the exact samples."""
    recruitment: Recruitment = Recruitment()
    exclude: list[Rule] = Field(default=[Rule(name="incomplete")])
    hypotheses: list[Hypothesis] = Field(default_factory=list)

    @model_validator(mode="after")
    def _known_groups(self) -> "Study":
        if repeated := sorted(i for i, times in Counter(item.id for item in self.items).items() if times > 1):
            raise ValueError(
                f"items need different ids, but {', '.join(repeated[:5])} are used more than once."
            )
        known = set(self.cells)
        if known != {""} and (lost := sorted({i.group for i in self.items if i.group} - known)):
            raise ValueError(f"items belong to groups that are not listed in groups: {', '.join(lost)}.")
        return self

    @property
    def cells(self) -> list[str]:
        """The groups of listeners; one nameless group if there are none."""
        return self.groups or list(dict.fromkeys(i.group for i in self.items if i.group)) or [""]

    def items_of(self, group: str) -> list[Item]:
        return [i for i in self.items if i.group is None or i.group == group]

    def fingerprint(self) -> str:
        """sha256 of the content; independent of the formatting of the file."""
        return hashlib.sha256(json.dumps(self.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def clips_of(items: Sequence[Item], contents: Mapping[str, str] | None = None) -> dict[str, str]:
    """Item -> name of its clip. Items that share a file are the same clip, as are those that share a copy of
    it if `contents` gives the content of each file: they are no independent sample of clips."""
    first: dict[str, str] = {}
    out: dict[str, str] = {}
    for item in items:
        inside = [(contents or {}).get(file, file) for file in item.files.values()]
        out[item.id] = next((first[c] for c in inside if c in first), item.id)
        first |= dict.fromkeys(inside, out[item.id])
    return out


def read_study(path: str | Path) -> Study:
    """The study of a file; a UserError if the file is not valid."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such study file. `limen listen new {path}` writes one.")
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise UserError(
            f"{path}: expected a study file with keys and values (name, items, steps, ...), got "
            f"{type(content).__name__}."
        )
    if isinstance(content.get("items"), str):
        content["items"] = read_items(path.parent / content["items"])
    return parse_options(Study, content, str(path))


def read_items(path: Path) -> list[dict[str, Any]]:
    """Items of a CSV file: id, answer, group, file:CONDITION, ...; every other column is a factor."""
    if not path.is_file():
        raise UserError(f"{path}: there is no such table of items.")
    columns, rows = read_rows(path)
    conditions = [c for c in columns if c.startswith("file:")]
    if "id" not in columns or not conditions:
        raise UserError(
            f"{path}: expected the columns id and file:CONDITION (file:clean, ...), got "
            f"{', '.join(columns) or 'none'}."
        )
    plain = {"id", "answer", "group", *conditions}
    return [
        {
            "id": row["id"],
            "answer": row.get("answer") or None,
            "group": row.get("group") or None,
            "files": {c.removeprefix("file:"): row[c] for c in conditions if row[c]},
            "factors": {c: row[c] for c in columns if c not in plain and row[c]},
        }
        for _, row in rows
    ]
