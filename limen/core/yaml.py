"""YAML and JSON files as plain data (text, finite numbers, true, false, null, lists, mappings with text keys)
within size limits.

A few lines of aliases can expand to gigabytes, so the values of a file are counted with every alias expanded
before anything is built.
"""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.scanner import ScannerError

from limen.core.errors import UserError

MAX_MIB = 2
"""Largest file. Ours have up to 6 KiB; an item of a study takes 200 bytes."""
MAX_VALUES = 100_000
"""Most values in a file, aliases expanded."""
MAX_DEPTH = 60
"""Deepest nesting of lists and mappings."""
INTEGER_LIMIT = 2**63
"""Integers must fit in 64 bits, as in other programs that read such files."""

_TAG = "tag:yaml.org,2002:"
_PLAIN = {_TAG + name for name in ("str", "int", "float", "bool", "null", "seq", "map")}


class _Yaml(yaml.SafeLoader):
    """Loader for YAML 1.2: only true and false are booleans (yes, no, on and off are spoken commands), 1e-3
    is a number, a date is text, and duplicate keys are errors."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ConstructorError(
                None,
                None,
                f"lists and mappings are nested deeper than {MAX_DEPTH}",
                self.peek_event().start_mark,
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        keys: set[str] = set()
        for key, _ in node.value:
            if key.tag not in (_TAG + "str", _TAG + "merge"):
                wanted = (
                    f'text; put it in quotes: "{key.value}"' if isinstance(key, yaml.ScalarNode) else "text"
                )
                raise ConstructorError(None, None, f"a key must be {wanted}", key.start_mark)
            if key.value in keys:
                raise ConstructorError(
                    None, None, f"the key {key.value!r} appears twice in one mapping", key.start_mark
                )
            keys.add(key.value)
        return node

    def scan_flow_scalar_non_spaces(self, double: bool, start_mark: Any) -> Any:
        try:
            return super().scan_flow_scalar_non_spaces(double, start_mark)
        except (OverflowError, ValueError):  # of chr()
            raise ScannerError(
                None, None, "an escape (\\U...) goes beyond the last character, \\U0010FFFF", self.get_mark()
            ) from None

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError):  # !!int "", !!bool maybe, a number of 5,000 digits
            raise ConstructorError(
                None, None, f"{str(node.value)[:40]!r} is no {node.tag.replace(_TAG, '!!')}", node.start_mark
            ) from None

    def refuse(self, node: Any) -> Any:
        tag = str(node.tag).replace(_TAG, "!!")
        raise ConstructorError(
            None,
            None,
            f"the tag {tag} is not for data; write text, a number, a list or a mapping",
            node.start_mark,
        )


_Yaml.yaml_constructors = {
    tag: constructor for tag, constructor in yaml.SafeLoader.yaml_constructors.items() if tag in _PLAIN
}
_Yaml.add_constructor(None, _Yaml.refuse)  # type: ignore[type-var]
_Yaml.yaml_implicit_resolvers = {
    first: [
        (tag, pattern) for tag, pattern in resolvers if tag.removeprefix(_TAG) in ("int", "null", "merge")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Yaml.add_implicit_resolver(_TAG + "bool", re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_Yaml.add_implicit_resolver(
    _TAG + "float", re.compile(r"^[-+]?(\.\d+|\d+\.\d*|\d+(?=[eE]))([eE][-+]?\d+)?$"), list("-+.0123456789")
)


def read_yaml(path: Path) -> Any:
    """Content of a YAML file, or of a *.json file. A UserError reports a mistake and its place."""
    json_file = path.suffix.lower() == ".json"
    try:
        if (size := path.stat().st_size) > MAX_MIB * 2**20:
            raise ValueError(f"it has {size / 2**20:,.1f} MiB, the limit is {MAX_MIB} MiB")
        text = path.read_bytes().decode("utf-8-sig")
        content = _from_json(text) if json_file else _from_yaml(text, path.name)
        _check(content)
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} cannot be read: it is not UTF-8 text ({error.reason} at byte {error.start}). Save it "
            "as UTF-8."
        ) from None
    except RecursionError:  # raised by the JSON reader after a thousand brackets
        raise UserError(
            f"{path} cannot be read: lists and mappings are nested deeper than {MAX_DEPTH}."
        ) from None
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read as {'JSON' if json_file else 'YAML'}: {str(error).rstrip('.')}."
        ) from None
    return content


def _from_json(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            twice = next(key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1)
            raise ValueError(f"the key {twice!r} appears twice in one mapping")
        return content

    return json.loads(text, object_pairs_hook=once)


def _from_yaml(text: str, name: str) -> Any:
    loader = _Yaml(text)
    loader.name = name  # in messages
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _weigh(node, 0, {})
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _weigh(node: Any, depth: int, known: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """Number of values of a node with every alias expanded, and its depth."""
    if id(node) not in known:
        known[id(node)] = None
        inside = node.value if isinstance(node, yaml.CollectionNode) else ()
        if depth > MAX_DEPTH:
            raise ConstructorError(
                None, None, f"aliases (*name) nest deeper than {MAX_DEPTH}", node.start_mark
            )
        weights = [
            _weigh(part, depth + 1, known)
            for one in inside
            for part in (one if isinstance(one, tuple) else (one,))
        ]
        known[id(node)] = 1 + sum(w for w, _ in weights), 1 + max((h for _, h in weights), default=0)
    weight = known[id(node)]
    if weight is None:
        raise ConstructorError(None, None, "an anchor (&name) contains itself", node.start_mark)
    if depth + weight[1] > MAX_DEPTH + 1:
        raise ConstructorError(None, None, f"aliases (*name) nest deeper than {MAX_DEPTH}", node.start_mark)
    if weight[0] > MAX_VALUES:
        raise ConstructorError(
            None,
            None,
            f"with aliases (*name) expanded it has more than {MAX_VALUES:,} values",
            node.start_mark,
        )
    return weight


def _check(content: Any) -> None:
    """Refuse values that JSON and YAML escapes allow but other programs cannot store."""
    waiting: list[tuple[str, Any, int]] = [("", content, 0)]
    count = 0
    while waiting:
        place, value, depth = waiting.pop()
        count += 1
        if depth > MAX_DEPTH or count > MAX_VALUES:
            raise ValueError(
                f"it has more than {MAX_VALUES:,} values"
                if count > MAX_VALUES
                else f"lists and mappings are nested deeper than {MAX_DEPTH}"
            )
        if trouble := _trouble(value):
            raise ValueError(f"{place.lstrip('.') or 'the content'}: {trouble}")
        waiting += [(f"{place}{step}", part, depth + 1) for step, part in _parts(value)]


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield f".{key[:40]}", key
            yield f".{key[:40]}", part
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield f"[{number}]", part


def _trouble(value: Any) -> str | None:
    if isinstance(value, str):
        if "\0" in value:
            return "text must not contain the character NUL"
        try:
            value.encode()
        except UnicodeEncodeError:
            return "text must not contain half a surrogate pair (\\ud800)"
    if isinstance(value, int) and abs(value) >= INTEGER_LIMIT:
        return "an integer must fit in 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return f"a number must be finite, got {value}"
    return None
