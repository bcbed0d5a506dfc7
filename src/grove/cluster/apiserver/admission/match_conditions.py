"""Match conditions of webhooks: CEL expressions that must all be true for a webhook to be called."""

from collections.abc import Sequence

from grove.api.types.meta import JsonObject
from grove.cluster.schemas.cel import CelProgram, CompileError, EvaluationError, Variables, get_program


class ConditionError(Exception):
    """A condition could not be evaluated."""


def matches_conditions(
    expressions: Sequence[str], *, request: JsonObject, obj: JsonObject | None, old: JsonObject | None
) -> bool:
    """Return whether all conditions are true. A false one decides; else raises `ConditionError` if one has an error."""
    variables = Variables({"request": request, "object": obj, "oldObject": old})
    error_messages = []
    for expression in expressions:
        try:
            result = _compile(expression).run(variables)
        except (CompileError, EvaluationError) as error:
            error_messages.append(f"expression '{expression}' resulted in error: {error}")
            continue
        if result is False:
            return False
        if result is not True:
            error_messages.append(f"expression '{expression}' resulted in something that is neither true nor false")
    if error_messages:
        raise ConditionError(error_messages[0] if len(error_messages) == 1 else f"[{', '.join(error_messages)}]")
    return True


def find_compile_error(expression: str) -> str:
    """Return the compile error of the expression, or an empty string."""
    try:
        _compile(expression)
    except CompileError as error:
        return str(error)
    return ""


def _compile(expression: str) -> CelProgram:
    """Compile the expression. `self` is the only variable, so each real variable is bound by a one-item `map`."""
    source = f"\n{expression}\n"
    for name in ("request", "oldObject", "object"):
        source = f"[self.{name}].map({name},{source})[0]"
    return get_program(source)
