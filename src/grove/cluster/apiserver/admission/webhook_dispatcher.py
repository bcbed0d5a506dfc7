"""Webhook configurations honoured: who is asked about a write, and what the verdicts do to it.

Verbs are carried out in one go and never wait. A write that needs an answer that is not there yet ends with
`UnansweredError` before it has stored anything; whoever serves the request asks, and has the verb carried out again
with what was answered (`cluster/apiserver/api_server.py`).
"""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from random import Random
from typing import Any

import msgspec

from grove.api.types.admission import Operation
from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.admission.match_conditions import ConditionError, are_met
from grove.cluster.apiserver.admission.webhook_request import (
    Address,
    Call,
    NoVerdict,
    Outcome,
    UnansweredError,
    WebhookResult,
)
from grove.cluster.apiserver.auth.user_info import UserInfo
from grove.cluster.apiserver.codec.label_selectors import selects
from grove.cluster.apiserver.status_errors import StatusError, bad_request, forbidden
from grove.cluster.built_in_resources import BY_QUALIFIED, NAMESPACES, ResourceInfo
from grove.cluster.patches import PatchConflictError, PatchInvalidError, PatchTooLongError
from grove.cluster.patches.json_patch import apply_json_patch
from grove.cluster.storage.store import Storage, Table

MUTATING = BY_QUALIFIED["mutatingwebhookconfigurations.admissionregistration.k8s.io"]
VALIDATING = BY_QUALIFIED["validatingwebhookconfigurations.admissionregistration.k8s.io"]
_SERVICES = BY_QUALIFIED["services"]
_USUAL_TIMEOUT = 10
_NO_NETWORK = "the embedded cluster has no network of Services; give the webhook a url, or change its failurePolicy"


class AdmissionWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write as webhooks see it. `object` is None for a delete, `old` is None for a create."""

    operation: Operation
    resource_info: ResourceInfo
    # Those of the body if it differs from the resource: a Scale, a Binding.
    api_version: str
    kind: str
    namespace: str
    name: str
    user: UserInfo
    subresource: str = ""
    object: JsonObject | None = None
    old: JsonObject | None = None
    is_dry: bool = False
    options: JsonObject = {}

    @property
    def is_configuration(self) -> bool:
        """Whether a webhook configuration is written. No webhook is called then: a broken one must be removable."""
        return self.resource_info is MUTATING or self.resource_info is VALIDATING


class Inquiry:
    """The webhook responses for one request, while its verb is executed repeatedly.

    Random numbers and the time are the same in each execution, so that the requests to webhooks do not change.
    """

    def __init__(self, seed: int, instant: datetime) -> None:
        self._seed = seed
        self.instant = instant
        self.answers: dict[tuple[str, bytes], Outcome] = {}

    def chance(self) -> Random:
        return Random(self._seed)


class _Hook(msgspec.Struct, frozen=True):
    """One webhook of a configuration."""

    name: str
    is_mutating: bool
    spec: JsonObject

    @property
    def fails_open(self) -> bool:
        return bool(self.spec.get("failurePolicy") == "Ignore")


class WebhookDispatcher:
    """The dispatcher for all webhooks of a cluster."""

    def __init__(self, store: Storage) -> None:
        self._store = store
        self._mutating = _Source(store.table(MUTATING))
        self._validating = _Source(store.table(VALIDATING))

    @property
    def has_mutating(self) -> bool:
        return bool(self._mutating.hooks())

    @property
    def has_validating(self) -> bool:
        return bool(self._validating.hooks())

    def mutated(self, write: AdmissionWrite, webhook_session: Inquiry | None, warnings: list[str]) -> JsonObject | None:
        """Return the object after all mutating webhooks, which are called in sequence. Raises `StatusError`."""
        hooks = self._mutating.hooks()
        if write.is_configuration:
            return write.object
        # Webhooks with reinvocationPolicy IfNeeded run again if a later one changed the object.
        seen: dict[int, None] = {}
        again: dict[int, None] = {}
        for index, hook in enumerate(hooks):
            if not self._is_meant(hook, write):
                continue
            changed = _patched(hook, write, self._verdict(hook, write, webhook_session, warnings))
            if changed != write.object:
                again.update(seen)
                write = msgspec.structs.replace(write, object=changed)
            if hook.spec.get("reinvocationPolicy") == "IfNeeded":
                seen[index] = None
        for index in sorted(again):
            hook = hooks[index]
            if self._is_meant(hook, write):
                changed = _patched(hook, write, self._verdict(hook, write, webhook_session, warnings))
                write = msgspec.structs.replace(write, object=changed)
        return write.object

    def validate(self, write: AdmissionWrite, webhook_session: Inquiry | None, warnings: list[str]) -> None:
        """Call all validating webhooks at once. Raise the error of the first that denies the write."""
        hooks = self._validating.hooks()
        if write.is_configuration:
            return
        meant = [hook for hook in hooks if self._is_meant(hook, write)]
        calls = [self._call(hook, write) for hook in meant]
        if missing := tuple(
            call for call in calls if webhook_session is None or call.key not in webhook_session.answers
        ):
            raise UnansweredError(missing)
        for hook in meant:
            self._verdict(hook, write, webhook_session, warnings)

    def _verdict(
        self, hook: _Hook, write: AdmissionWrite, webhook_session: Inquiry | None, warnings: list[str]
    ) -> WebhookResult:
        """Return the result of a webhook that allows the write. Raises `StatusError` if it denies it or failed."""
        call = self._call(hook, write)
        outcome = None if webhook_session is None else webhook_session.answers.get(call.key)
        match outcome:
            case None:
                raise UnansweredError((call,))
            case NoVerdict(why=why):
                if hook.fails_open:
                    return WebhookResult(is_allowed=True)
                raise _internal(f'failed calling webhook "{hook.name}": {why}')
            case WebhookResult(is_allowed=True):
                warnings += outcome.warnings
                return outcome
            case WebhookResult():
                warnings += outcome.warnings
                raise _denied(hook.name, outcome.status)

    def _call(self, hook: _Hook, write: AdmissionWrite) -> Call:
        spec = hook.spec
        if write.is_dry and spec.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        return Call(
            webhook=hook.name,
            is_mutating=hook.is_mutating,
            address=self._address(spec["clientConfig"]),
            ca_bundle=spec["clientConfig"].get("caBundle") or "",
            timeout_seconds=spec.get("timeoutSeconds", _USUAL_TIMEOUT),
            question=msgspec.json.encode(_question(write)),
        )

    def _address(self, config: JsonObject) -> Address:
        """Return the address of a webhook. Of Services only those of type ExternalName can be reached here."""
        service = config.get("service")
        if service is None:
            return Address(shown=config["url"], url=config["url"])
        name, namespace, port = service["name"], service["namespace"], service.get("port", 443)
        host = f"{name}.{namespace}.svc"
        path = (service.get("path") or "").lstrip("/")
        shown = f"https://{host}:{port}/{path}"
        entry = self._store.table(_SERVICES).find(namespace, name)
        if entry is None:
            return Address(shown=shown, problem=f'service "{name}" not found')
        spec = entry.obj["spec"]
        if spec.get("type") != "ExternalName":
            return Address(shown=shown, problem=_NO_NETWORK)
        return Address(shown=shown, url=f"https://{spec['externalName']}:{port}/{path}", tls_name=host)

    def _is_meant(self, hook: _Hook, write: AdmissionWrite) -> bool:
        spec = hook.spec
        if not any(_is_about(rule, write) for rule in spec.get("rules") or ()):
            return False
        if not self._has_namespace(spec.get("namespaceSelector"), write):
            return False
        if not _has_labels(spec.get("objectSelector"), write):
            return False
        return _meets_conditions(hook, write)

    def _has_namespace(self, selector: JsonObject | None, write: AdmissionWrite) -> bool:
        if not selector:
            return True
        if write.resource_info is NAMESPACES:
            obj = write.object or write.old or {}
            return selects(selector, obj)
        if not write.namespace:
            return True
        entry = self._store.table(NAMESPACES).find("", write.namespace)
        return entry is not None and selects(selector, entry.obj)


class _Source:
    """The webhooks of all configurations of one kind, in the order of the configuration names."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._read_at = -1
        self._hooks: tuple[_Hook, ...] = ()

    def hooks(self) -> tuple[_Hook, ...]:
        if self._table.end != self._read_at:
            self._read_at = self._table.end
            is_mutating = self._table.resource_info is MUTATING
            self._hooks = tuple(
                _Hook(webhook["name"], is_mutating, webhook)
                for entry in self._table.entries("")
                for webhook in entry.obj.get("webhooks") or ()
            )
        return self._hooks


def _is_about(rule: JsonObject, write: AdmissionWrite) -> bool:
    resource_info = write.resource_info
    return (
        _has_scope(rule.get("scope", "*"), write)
        and _has(rule["operations"], write.operation.value)
        and _has(rule["apiGroups"], resource_info.group)
        and _has(rule["apiVersions"], resource_info.version)
        and any(_is_resource(resource, write) for resource in rule["resources"])
    )


def _has_scope(scope: str, write: AdmissionWrite) -> bool:
    return scope == "*" or (scope == "Namespaced") is write.resource_info.namespaced


def _has(items: Iterable[str], wanted: str) -> bool:
    return any(item in ("*", wanted) for item in items)


def _is_resource(text: str, write: AdmissionWrite) -> bool:
    resource, _, subresource = text.partition("/")
    return resource in ("*", write.resource_info.plural) and subresource in ("*", write.subresource)


def _has_labels(selector: JsonObject | None, write: AdmissionWrite) -> bool:
    """Return whether the selector matches the object, or the old object of an update."""
    if not selector:
        return True
    return any(obj is not None and selects(selector, obj) for obj in (write.object, write.old))


def _meets_conditions(hook: _Hook, write: AdmissionWrite) -> bool:
    conditions = hook.spec.get("matchConditions")
    if not conditions:
        return True
    expressions = tuple(condition["expression"] for condition in conditions)
    try:
        return are_met(expressions, request=_question(write), obj=write.object, old=write.old)
    except ConditionError as problem:
        if hook.fails_open:
            return False
        raise forbidden(write.resource_info, write.name, str(problem)) from None


# --- requests --------------------------------------------------------------------------------------------------------


def _question(write: AdmissionWrite) -> JsonObject:
    """Return the request of an AdmissionReview without its uid."""
    resource_info = write.resource_info
    kind = _kind(write.api_version, write.kind)
    resource = {"group": resource_info.group, "version": resource_info.version, "resource": resource_info.plural}
    question: JsonObject = {"kind": kind, "resource": resource}
    if write.subresource:
        question["subResource"] = write.subresource
    question |= {"requestKind": kind, "requestResource": resource}
    if write.subresource:
        question["requestSubResource"] = write.subresource
    if write.name:
        question["name"] = write.name
    if write.namespace:
        question["namespace"] = write.namespace
    return question | {
        "operation": write.operation.value,
        "userInfo": write.user.wire(),
        "object": write.object,
        "oldObject": write.old,
        "dryRun": write.is_dry,
        "options": write.options,
    }


@lru_cache(maxsize=256)
def _kind(api_version: str, kind: str) -> JsonObject:
    group, _, version = api_version.rpartition("/")
    return {"group": group, "version": version, "kind": kind}


# --- results ---------------------------------------------------------------------------------------------------------


def _patched(hook: _Hook, write: AdmissionWrite, verdict: WebhookResult) -> JsonObject | None:
    if not verdict.patch:
        return write.object
    if write.object is None:
        words = f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this'
        raise _internal(f"{words} operation")
    try:
        changed: Any = apply_json_patch(write.object, verdict.patch)
    except (PatchInvalidError, PatchConflictError, PatchTooLongError) as problem:
        raise _internal(str(problem)) from None
    if not isinstance(changed, dict) or not isinstance(changed.get("metadata"), dict):
        raise _internal(f'admission webhook "{hook.name}" made something of the object that is none')
    return changed


def _internal(why: str) -> StatusError:
    """Return the error of a real API server for a webhook that failed."""
    details = {"causes": [{"message": why}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {why}", details)


class _DeniedError(StatusError):
    """A denial with the status that the webhook returned."""

    def __init__(self, given: JsonObject, message: str) -> None:
        code = given.get("code")
        is_refusal = isinstance(code, int) and code >= 400
        super().__init__(code if isinstance(code, int) and is_refusal else 400, "", message)
        self._given = given

    def status(self) -> JsonObject:
        kept = {key: self._given[key] for key in ("reason", "details") if self._given.get(key)}
        head: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return {**head, "message": self.message, **kept, "code": self.code}


def _denied(name: str, given: JsonObject | None) -> StatusError:
    status = given or {}
    why = status.get("message") or status.get("reason")
    denied = f'admission webhook "{name}" denied the request'
    return _DeniedError(status, f"{denied}: {why}" if why else f"{denied} without explanation")
