"""Common Expression Language: the only module that uses the CEL library.

There are two environments: one checks the types of expressions against a schema (`cel_types.py`) when a CRD is written;
the other evaluates them without types. `cel_library.py` has the functions that Kubernetes adds.
"""

import re
from collections.abc import Mapping
from functools import cache, cached_property, lru_cache
from typing import Any

import msgspec
from cel_expr_python import cel  # type: ignore[import-untyped]
from cel_expr_python.ext import ext_optional, ext_strings  # type: ignore[import-untyped]

from grove.cluster.schemas.cel_library import FUNCTIONS, CelType, Overload

# The package of the types that Kubernetes adds.
PACKAGE = "kubernetes"
# The version of the string extension that Kubernetes uses.
_STRINGS_VERSION = 2
_ERROR_LINE = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*?)((?:\n \|.*)*)(?=\nERROR: |\Z)")
_NO_OVERLOAD = re.compile(r"found no matching overload for '(\w+)' applied to '\((.*)\)'")
_STRUCT_NAME = re.compile(r"(undefined field '[^']*') not found in struct '[^']*'")
_NO_KEY = re.compile(r'Key not found in map : "?(.*?)"?$')
_NO_FUNCTION = re.compile(r"No overload found in reference resolve step for (\S+)")
_STATUS = re.compile(r"^[A-Z_]+: ")
_STATUS_END = re.compile(r" \[[A-Z_]+\]$")


class CompileError(Exception):
    """The expression does not compile. The message has the text of a real API server."""


class EvaluationError(Exception):
    """The evaluation of the expression failed for this value."""


class Variables:
    """The variables of an expression, as values of `cel_values.py`. `old` has one value or none."""

    def __init__(self, value: Any, old: tuple[Any, ...] = ()) -> None:
        self._value = value
        self._old = old

    @cached_property
    def activation(self) -> Any:
        """The activation, built once for all expressions about the same value."""
        data: dict[str, Any] = {"self": self._value, "oldSelves": list(self._old)}
        if self._old:
            data["oldSelf"] = self._old[0]
        return _runtime().Activation(data)


class CelProgram:
    """A compiled expression."""

    def __init__(self, text: str, *, is_old_optional: bool = False) -> None:
        self._compile = _compile(_runtime(), _wrap(text) if is_old_optional else text, is_wrapped=is_old_optional)

    def check_functions(self) -> None:
        """Raise `CompileError` for a function that compiles but cannot be evaluated: only an evaluation shows that."""
        try:
            self.run(Variables(None))
        except EvaluationError as error:
            if match := _NO_FUNCTION.search(str(error)):
                message = f"{match[1]} is not supported by the embedded cluster"
                raise CompileError(message) from None

    def run(self, variables: Variables) -> Any:
        """Evaluate the expression. Raises `EvaluationError`."""
        try:
            result = self._compile.eval(variables.activation)
        except RuntimeError as error:
            raise EvaluationError(_to_api_server_text(str(error))) from None
        if result.type().name() == "ERROR":
            raise EvaluationError(_to_api_server_text(str(result.plain_value())))
        return result.plain_value()


@lru_cache(maxsize=4096)
def get_program(text: str, *, is_old_optional: bool = False) -> CelProgram:
    """Return the compiled expression, from a cache. Raises `CompileError`."""
    return CelProgram(text, is_old_optional=is_old_optional)


class TypedVariables(msgspec.Struct, frozen=True):
    """The type of `self` and `oldSelf`, with the descriptors of the messages that it is made of."""

    type: Any
    pool: Any


def check(text: str, typed: TypedVariables, *, is_old_optional: bool = False) -> str:
    """Return the name of the result type, in capitals. Raises `CompileError`."""
    old = {"oldSelves": cel.Type.List(typed.type)} if is_old_optional else {"oldSelf": typed.type}
    environment = _environment(_checked_type, {"self": typed.type, **old}, typed.pool, FUNCTIONS)
    source = _wrap(text) if is_old_optional else text
    return str(_compile(environment, source, is_wrapped=is_old_optional).return_type().name())


def _wrap(text: str) -> str:
    """Wrap the expression so that `oldSelf` is an optional. CEL has no other way to pass one."""
    return f"[oldSelves[?0]].map(oldSelf,\n{text}\n)[0]"


def _compile(environment: Any, text: str, *, is_wrapped: bool) -> Any:
    try:
        return environment.compile(text)
    except RuntimeError as error:
        message = _STATUS_END.sub("", _STATUS.sub("", str(error)))
        raise CompileError(_to_go_text(message, line_offset=-1 if is_wrapped else 0)) from None


def _to_go_text(message: str, *, line_offset: int) -> str:
    """Return the compile errors as the Go library prints them: sorted by place, with its type names."""
    found = []
    for match in _ERROR_LINE.finditer(message):
        line, column, what, rest = int(match[1]) + line_offset, int(match[2]), match[3], match[4]
        what = _STRUCT_NAME.sub(r"\1", what).replace("null_type", "null")
        if overload := _NO_OVERLOAD.fullmatch(what):
            name, types = overload[1], overload[2]
            source = rest.partition("| ")[2].partition("\n")[0]
            if re.search(rf"\.\s*{re.escape(name)}\s*$", source[: column - 1]):
                first, _, others = types.partition(", ")
                what = f"found no matching overload for '{name}' applied to '{first}.({others})'"
        found.append((line, column, f"ERROR: <input>:{line}:{column}: {what}{rest}"))
    return "\n".join(text for _, _, text in sorted(found)) if found else message


@cache
def _runtime() -> Any:
    variables = dict.fromkeys(("self", "oldSelf", "oldSelves"), cel.Type.DYN)
    return _environment(_plain_type, variables, None, _merge_overloads())


def _merge_overloads() -> dict[str, list[Overload]]:
    """Return the functions for evaluation. Without types, overloads with the same number of parameters are merged."""
    merged: dict[str, list[Overload]] = {}
    for name, overloads in FUNCTIONS.items():
        alike: dict[tuple[bool, int], list[Overload]] = {}
        for overload in overloads:
            alike.setdefault((overload.is_member, len(overload.parameters)), []).append(overload)
        merged[name] = [_merge(group) for group in alike.values()]
    return merged


def _merge(group: list[Overload]) -> Overload:
    if len(group) == 1:
        return group[0]
    columns = zip(*(one.parameters for one in group), strict=True)
    parameters = tuple(kinds[0] if len(set(kinds)) == 1 else CelType.ANY for kinds in columns)
    return msgspec.structs.replace(group[0], parameters=parameters)


def _environment(type_of: Any, variables: Mapping[str, Any], pool: Any, functions: Mapping[str, list[Overload]]) -> Any:
    declared = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(f"{name}_{index}", type_of(each.result), [*map(type_of, each.parameters)], each.is_member,
                             each.function)
                for index, each in enumerate(overloads)
            ],
        )
        for name, overloads in functions.items()
    ]  # fmt: skip
    extensions = [
        ext_strings.ExtStrings(_STRINGS_VERSION), ext_optional.ExtOptional(), cel.CelExtension("kubernetes", declared),
    ]  # fmt: skip
    return cel.NewEnv(descriptor_pool=pool, config=_libraries(), variables=dict(variables), extensions=extensions)


@cache
def _libraries() -> Any:
    """Return the configuration with the extensions of the library."""
    lines = "\n".join(f"- name: {name}" for name in ("lists", "sets", "two-var-comprehensions"))
    return cel.NewEnvConfigFromYaml(f"name: kubernetes\nextensions:\n{lines}\n")


@cache
def _checked_type(kind: CelType) -> Any:
    named = _NAMED.get(kind)
    return cel.Type(f"{PACKAGE}.{kind.value}") if named is None else named


@cache
def _plain_type(kind: CelType) -> Any:
    return _NAMED.get(kind, cel.Type.DYN)


_NAMED: dict[CelType, Any] = {
    CelType.ANY: cel.Type.DYN,
    CelType.BOOL: cel.Type.BOOL,
    CelType.INT: cel.Type.INT,
    CelType.DOUBLE: cel.Type.DOUBLE,
    CelType.STRING: cel.Type.STRING,
    CelType.LIST: cel.Type.List(cel.Type.DYN),
    CelType.STRINGS: cel.Type.List(cel.Type.STRING),
    CelType.MAP: cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
}


def _to_api_server_text(error_message: str) -> str:
    """Return the evaluation error as a real API server prints it."""
    message = _STATUS_END.sub("", _STATUS.sub("", error_message))
    if match := _NO_KEY.search(message):
        return f"no such key: {match[1]}"
    if "divide by zero" in message:
        return "division by zero"
    if message.startswith("No matching overloads"):
        return "no such overload"
    return message
