"""Match conditions of webhooks: CEL expressions that must all be true for a webhook to be called."""

from collections.abc import Sequence

from grove.api.types.meta import JsonObject
from grove.cluster.schemas.cel import CelProgram, CompileError, EvaluationError, Variables, program


class ConditionError(Exception):
    """A condition could not be evaluated."""


def are_met(expressions: Sequence[str], *, request: JsonObject, obj: JsonObject | None, old: JsonObject | None) -> bool:
    """Return whether all conditions are true. A false one decides; else raises `ConditionError` if one has an error."""
    variables = Variables({"request": request, "object": obj, "oldObject": old})
    problems = []
    for expression in expressions:
        try:
            result = _program(expression).run(variables)
        except (CompileError, EvaluationError) as problem:
            problems.append(f"expression '{expression}' resulted in error: {problem}")
            continue
        if result is False:
            return False
        if result is not True:
            problems.append(f"expression '{expression}' resulted in something that is neither true nor false")
    if problems:
        raise ConditionError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return True


def condition_problem(expression: str) -> str:
    """Return the compile error of the expression, or an empty string."""
    try:
        _program(expression)
    except CompileError as problem:
        return str(problem)
    return ""


def _program(expression: str) -> CelProgram:
    """Compile the expression. `self` is the only variable, so each real variable is bound by a one-item `map`."""
    source = f"\n{expression}\n"
    for name in ("request", "oldObject", "object"):
        source = f"[self.{name}].map({name},{source})[0]"
    return program(source)
