"""Describe why the API server rejects pods. A message about an exceeded quota is parsed; others are quoted."""

import re
from collections.abc import Mapping

from grove.api.values.quantities import parse_milli
from grove.planner.actions import PlanStruct
from grove.planner.explain.cluster_facts import QuotaUse

# As the quota admission of Kubernetes writes it: requested, used and limited list the same resources.
_QUOTA = re.compile(
    r"exceeded quota: (?P<name>\S+), requested: (?P<requested>.+?), used: (?P<used>.+?), limited: (?P<hard>.+)"
)


class RejectionText(PlanStruct):
    cause: str
    advice: str


def is_about_quota(message: str) -> bool:
    return _QUOTA.search(message) is not None


def describe_rejection(about: str, message: str, quotas: Mapping[str, QuotaUse] | None = None) -> RejectionText:
    """Return the cause as a sentence without a period, and what to do about it; "": nothing but wait.

    `quotas`: those of the namespace now. One that was deleted or raised since is not the cause any more.
    """
    found = _QUOTA.search(message)
    if found is None:
        return RejectionText(
            cause=f"the API server rejects pods of {about}: {message}",
            advice="correct what the message names, in the template or in the cluster",
        )
    requested, used, hard = (_amounts(found[key]) for key in ("requested", "used", "hard"))
    if change := _describe_change(found["name"], requested, quotas):
        return RejectionText(cause=f"pods of {about} wait for the next attempt to create them: {change}", advice="")
    full = [
        f"{used.get(name, '0')} of {limit} {name} are used, a pod asks for {requested.get(name, '0')}"
        for name, limit in hard.items()
    ]
    return RejectionText(
        cause=f"quota {found['name']} rejects pods of {about}: {'; '.join(full)}",
        advice=f"raise quota {found['name']}, or scale down what uses it",
    )


def _describe_change(name: str, requested: Mapping[str, str], quotas: Mapping[str, QuotaUse] | None) -> str:
    """Return what changed since the quota rejected the pods; "": nothing, or unknown."""
    if quotas is None:
        return ""
    if name not in quotas:
        return f"quota {name}, which rejected them, no longer exists"
    amounts = {resource: parse_milli(amount) for resource, amount in requested.items()}
    return f"quota {name}, which rejected them, has room now" if quotas[name].has_room(amounts) else ""


def _amounts(text: str) -> dict[str, str]:
    pairs = (part.strip().rstrip(".").partition("=") for part in text.split(","))
    return {name: amount for name, _, amount in pairs}
