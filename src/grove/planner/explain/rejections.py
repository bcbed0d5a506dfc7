"""Describe why the API server rejects pods. A message about an exceeded quota is parsed; others are quoted."""

import re

from grove.planner.actions import PlanStruct

# As the quota admission of Kubernetes writes it: requested, used and limited list the same resources.
_QUOTA = re.compile(
    r"exceeded quota: (?P<name>\S+), requested: (?P<asked>.+?), used: (?P<used>.+?), limited: (?P<hard>.+)"
)


class RejectionText(PlanStruct):
    cause: str
    advice: str


def describe_rejection(about: str, message: str) -> RejectionText:
    """Return the cause as a sentence without a period, and what to do about it."""
    found = _QUOTA.search(message)
    if found is None:
        return RejectionText(
            cause=f"the API server rejects pods of {about}: {message}",
            advice="correct what the message names, in the template or in the cluster",
        )
    asked, used, hard = (_amounts(found[key]) for key in ("asked", "used", "hard"))
    full = [
        f"{used.get(name, '0')} of {limit} {name} are used, a pod asks for {asked.get(name, '0')}"
        for name, limit in hard.items()
    ]
    return RejectionText(
        cause=f"quota {found['name']} rejects pods of {about}: {'; '.join(full)}",
        advice=f"raise quota {found['name']}, or scale down what uses it",
    )


def _amounts(text: str) -> dict[str, str]:
    pairs = (part.strip().rstrip(".").partition("=") for part in text.split(","))
    return {name: amount for name, _, amount in pairs}
