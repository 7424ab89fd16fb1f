"""The registry of components is the file system: `limen/attacks/pgd.py` defines the function `pgd`, which
experiment files call "pgd".

Other packages add components through entry points: the group "limen.attacks" maps a name to a module that
defines the function.
"""

import difflib
import importlib
import importlib.metadata
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import ModuleType
from typing import Any, Literal, get_type_hints

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from limen.core.errors import UserError
from limen.core.options import Options, parse_options, short_repr


@dataclass(frozen=True)
class Kind:
    """One kind of component. `limen list attacks` lists the kind `attacks`; other packages add to it through
    the entry-point group `limen.attacks`."""

    singular: str
    package: str
    """Import path of the folder that holds one file per component."""
    used_in: Literal["experiment", "study", "report", "command"] = "experiment"
    """The kind of file whose entries name components of this kind. Sections of the report are all used;
    engines are named on the command line."""


KINDS: dict[str, Kind] = {
    "data": Kind("data set", "limen.data"),
    "models": Kind("model", "limen.models"),
    "defenses": Kind("defense", "limen.defenses"),
    "goals": Kind("goal", "limen.goals"),
    "budgets": Kind("budget", "limen.budgets"),
    "attacks": Kind("attack", "limen.attacks"),
    "objectives": Kind("objective", "limen.objectives"),
    "metrics": Kind("metric", "limen.metrics"),
    "tasks": Kind("task", "limen.tasks"),
    "engines": Kind("engine", "limen.experiments.engines", "command"),
    "degradations": Kind("axis", "limen.degradations", "study"),
    "trials": Kind("trial type", "limen.trials", "study"),
    "sections": Kind("section", "limen.report.sections", "report"),
}


SENTENCE = re.compile(r".+?[.!?](?<!al\.)(?<!e\.g\.)(?<!i\.e\.)(?=\s+[A-Z(])")
"""A first sentence, if another one follows it."""


@dataclass(frozen=True)
class Component:
    """A function, the options class it takes, and the module that defines both."""

    kind: str
    name: str
    function: Callable[..., Any]
    options: type[Options]
    module: ModuleType

    @property
    def summary(self) -> str:
        """First sentence of the module's docstring."""
        paragraph = " ".join((self.module.__doc__ or "").strip().split("\n\n")[0].split())
        found = SENTENCE.match(paragraph)
        return found[0] if found else paragraph

    @property
    def main_option(self) -> str:
        """The option that "name:value" sets: the only one without a default, or the only one."""
        fields = self.options.model_fields
        main = [name for name, field in fields.items() if field.is_required()] or list(fields)
        if len(main) != 1:
            some = f"{main[0]}: ..." if main else "..."
            raise UserError(
                f"The {KINDS[self.kind].singular} {self.name} has {len(fields)} options, so "
                f'"{self.name}:value" is ambiguous. Write {{name: {self.name}, {some}}}.'
            )
        return main[0]

    def spec(self, options: Options) -> dict[str, Any]:
        """The spec {name: ..., option: value, ...} with every default written out."""
        return {"name": self.name, **options.model_dump(mode="json")}

    def parse(self, values: Mapping[str, Any]) -> Options:
        return parse_options(self.options, values, f"{KINDS[self.kind].singular} {self.name}")


@cache
def module_paths(kind: str) -> dict[str, str]:
    """Component name -> import path of its module: files of this package and entry points of others.

    A component with much machinery has a folder of its own, models/whisper/whisper.py. Other folders hold
    code that components share.
    """
    package = importlib.import_module(KINDS[kind].package)
    own = {}
    for found in pkgutil.iter_modules(package.__path__):
        if not found.ispkg:
            own[found.name] = f"{package.__name__}.{found.name}"
        elif os.path.exists(os.path.join(package.__path__[0], found.name, f"{found.name}.py")):
            own[found.name] = f"{package.__name__}.{found.name}.{found.name}"
    others = {e.name: e.value for e in importlib.metadata.entry_points(group=f"limen.{kind}")}
    return {**others, **own}


def names(kind: str) -> list[str]:
    return sorted(module_paths(kind))


@cache
def load(kind: str, name: str) -> Component:
    if name not in module_paths(kind):
        raise UserError(_unknown(kind, name))
    module = importlib.import_module(module_paths(kind)[name])
    function = getattr(module, name)
    # sections of the report take no options
    return Component(kind, name, function, get_type_hints(function).get("options", Options), module)


def _unknown(kind: str, name: str) -> str:
    """Error message for an unknown name."""
    close = difflib.get_close_matches(str(name), names(kind), n=1)
    hint = f' Did you mean "{close[0]}"?' if close else ""
    return f'There is no {KINDS[kind].singular} "{name[:80]}".{hint} There are: {", ".join(names(kind))}.'


def parse(kind: str, spec: Any) -> tuple[Component, Options]:
    """The component and its validated options, from "pgd", {"name": "pgd", "steps": 10}, "linf:0.03" or an
    options object."""
    if isinstance(spec, Options):
        return _component_of(kind, spec), spec
    if isinstance(spec, str):
        spec = {"name": spec}
    if not isinstance(spec, Mapping) or not isinstance(spec.get("name"), str):
        who = f"{'An' if KINDS[kind].singular[0] in 'aeiou' else 'A'} {KINDS[kind].singular}"
        first = load(kind, names(kind)[0])
        needs_value = any(field.is_required() for field in first.options.model_fields.values())
        short = f'"{first.name}:value"' if needs_value else "as its name"
        raise UserError(f"{who} is written {{name: {first.name}, ...}} or {short}; got {short_repr(spec)}.")
    name, colon, value = spec["name"].partition(":")
    component = load(kind, name)
    given = {k: v for k, v in spec.items() if k != "name"}
    return component, component.parse({component.main_option: value, **given} if colon else given)


def _component_of(kind: str, options: Options) -> Component:
    """The component that takes options of this class."""
    for name in names(kind):
        if (component := load(kind, name)).options is type(options):
            return component
    raise UserError(
        f"{type(options).__name__} holds the options of no {KINDS[kind].singular}. There are: "
        f"{', '.join(names(kind))}."
    )


@dataclass(frozen=True)
class SpecOf:
    """Validates an option that holds the spec of a component, and marks it in the JSON schema:
    {"component": kind}."""

    kind: str

    def check(self, value: Any) -> None:
        """Raises a UserError if the value is no spec of this kind."""
        parse(self.kind, value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def checked(value: Any) -> Any:
            try:
                self.check(value)
            except UserError as error:
                raise ValueError(str(error)) from None
            return value

        return core_schema.no_info_after_validator_function(checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "component": self.kind}


def spec_of(kind: str) -> SpecOf:
    """Validator of an option that holds the spec of a component of this kind: `inner: Annotated[dict[str,
    Any], spec_of("attacks")]`."""
    return SpecOf(kind)


def import_function(path: str, who: str) -> Callable[..., Any]:
    """Import a function given as "package.module:function"; `who` names the option in the error message."""
    place, _, name = path.partition(":")
    # a console command does not search the working folder, where users keep their code
    sys.path.insert(0, os.getcwd())
    try:
        return getattr(importlib.import_module(place), name)
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"{who} {path!r} was not found ({error}). Write it as package.module:function."
        ) from None
    finally:
        sys.path.remove(os.getcwd())


class SpecFactory(ModuleType):
    """Package whose attributes build specs: `limen.budgets.snr(snr_db=30)` and `limen.budgets.snr(30)` give
    {"name": "snr", "snr_db": 30}."""

    def __setattr__(self, name: str, value: Any) -> None:
        # importing a file sets the module as an attribute of its package; keep the function that builds specs
        kind = self.__name__.rpartition(".")[2]
        if isinstance(value, ModuleType) and name in names(kind):
            value = partial(_spec, kind, name)
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        kind = self.__name__.rpartition(".")[2]
        if name.startswith("_"):
            raise AttributeError(f"{self.__name__} has no {name!r}")
        if name not in names(kind):
            raise AttributeError(_unknown(kind, name))
        return partial(_spec, kind, name)


def _spec(kind: str, component: str, /, *value: Any, **options: Any) -> dict[str, Any]:
    """{"name": component, ...}. A positional value sets the main option."""
    if len(value) > 1:
        raise UserError(
            f"limen.{kind}.{component} takes one value, and options by name; got {len(value)} values."
        )
    return {"name": component, **({load(kind, component).main_option: value[0]} if value else {}), **options}
