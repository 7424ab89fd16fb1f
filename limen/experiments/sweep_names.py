"""Options by dotted name, as a sweep gives them: attack.budget.eps, defense.quality, defense.jpeg.quality."""

from itertools import pairwise
from typing import Any

from limen.core.errors import UserError


def has_option(parts: dict[str, Any], path: str) -> bool:
    """True if the option with this dotted name exists in the resolved parts of a cell."""
    holder, key = _holder_of(parts, path)
    return isinstance(holder, dict) and key in holder


def set_option(parts: dict[str, Any], path: str, value: Any) -> None:
    """Set an option that exists (`has_option`), in place."""
    holder, key = _holder_of(parts, path)
    holder[key] = value


def _holder_of(parts: dict[str, Any], path: str) -> tuple[Any, str]:
    """The mapping that holds the option, or None, and the option's key in it.

    A list (of defences) is entered by position or name; without either, the only member with the option is
    taken."""
    steps = path.split(".")
    holder: Any = parts
    for step, following in pairwise(steps):
        if isinstance(holder, list):
            holder = _member(holder, step, path) if step in _member_names(holder) else None
        else:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if isinstance(holder, list) and following not in _member_names(holder):
            holder = _member_with(holder, following, path)
    return holder, steps[-1]


def _member_names(members: list[dict[str, Any]]) -> set[str]:
    """Positions and names by which a dotted name may refer to a member of the list."""
    return {str(i) for i in range(len(members))} | {member["name"] for member in members}


def _member(members: list[dict[str, Any]], step: str, path: str) -> dict[str, Any]:
    """The member with this position or name."""
    if step.isdigit():
        return members[int(step)]
    return _only([i for i, member in enumerate(members) if member["name"] == step], members, path)


def _member_with(members: list[dict[str, Any]], option: str, path: str) -> dict[str, Any] | None:
    """The only member that has this option; None if none has it."""
    found = [i for i, member in enumerate(members) if option in member]
    return _only(found, members, path) if found else None


def _only(found: list[int], members: list[dict[str, Any]], path: str) -> dict[str, Any]:
    if len(found) > 1:
        names = [members[i]["name"] for i in found]
        choices = names if len(set(names)) == len(names) else [str(i) for i in found]
        part, _, option = path.partition(".")
        paths = " or ".join(f"{part}.{choice}.{option.rpartition('.')[2]}" for choice in choices)
        raise UserError(f"sweep: {path} is ambiguous: {', '.join(names)} have it. Write {paths}.")
    return members[found[0]]
