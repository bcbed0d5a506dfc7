"""Match conditions of webhooks: expressions about a write that must all be true before the webhook is asked."""

from collections.abc import Sequence

from grove.api.types.meta import JsonObject
from grove.cluster.schemas.cel import CelProgram, CompileError, EvaluationError, Variables, program


class ConditionError(Exception):
    """A condition could not be evaluated."""


def are_met(expressions: Sequence[str], *, request: JsonObject, obj: JsonObject | None, old: JsonObject | None) -> bool:
    """One that is false decides; otherwise raises `ConditionError` if one cannot be evaluated."""
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
    """Why this is no expression, or nothing."""
    try:
        _program(expression)
    except CompileError as problem:
        return str(problem)
    return ""


def _program(expression: str) -> CelProgram:
    """The library knows one variable; each of ours is the only item of a list that is gone through."""
    source = f"\n{expression}\n"
    for name in ("request", "oldObject", "object"):
        source = f"[self.{name}].map({name},{source})[0]"
    return program(source)
