"""Admission webhooks: selects the webhooks of a write and applies their responses.

Verbs are synchronous. A verb that needs the response of a webhook raises `PendingCallsError` before it stores anything.
The API server calls the webhooks and executes the verb again with their responses (`apiserver/api_server.py`).
"""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from random import Random
from typing import Any

import msgspec

from grove.api.types.admission import Operation
from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.admission.match_conditions import ConditionError, matches_conditions
from grove.cluster.apiserver.admission.webhook_request import (
    Address,
    Call,
    CallFailure,
    CallResult,
    PendingCallsError,
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
_DEFAULT_TIMEOUT = 10
_NO_NETWORK = "the embedded cluster does not route to Services: set clientConfig.url, or change the failurePolicy"


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
        """Return whether it writes a webhook configuration. No webhook reviews it: broken ones must be removable."""
        return self.resource_info is MUTATING or self.resource_info is VALIDATING


class WebhookSession:
    """The webhook responses for one request, while its verb is executed repeatedly.

    Random numbers and the time are the same in each execution, so that the requests to webhooks do not change.
    """

    def __init__(self, seed: int, instant: datetime) -> None:
        self._seed = seed
        self.instant = instant
        self.results: dict[tuple[str, bytes], CallResult] = {}

    def new_random(self) -> Random:
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
        self._mutating = _WebhookSource(store.table(MUTATING))
        self._validating = _WebhookSource(store.table(VALIDATING))

    @property
    def has_mutating(self) -> bool:
        return bool(self._mutating.hooks())

    @property
    def has_validating(self) -> bool:
        return bool(self._validating.hooks())

    def mutate(
        self, write: AdmissionWrite, webhook_session: WebhookSession | None, warnings: list[str]
    ) -> JsonObject | None:
        """Return the object after all mutating webhooks, which are called in sequence. Raises `StatusError`."""
        hooks = self._mutating.hooks()
        if write.is_configuration:
            return write.object
        # Webhooks with reinvocationPolicy IfNeeded run again if a later one changed the object.
        seen: dict[int, None] = {}
        again: dict[int, None] = {}
        for index, hook in enumerate(hooks):
            if not self._matches(hook, write):
                continue
            changed = _apply_patch(hook, write, self._get_result(hook, write, webhook_session, warnings))
            if changed != write.object:
                again.update(seen)
                write = msgspec.structs.replace(write, object=changed)
            if hook.spec.get("reinvocationPolicy") == "IfNeeded":
                seen[index] = None
        for index in sorted(again):
            hook = hooks[index]
            if self._matches(hook, write):
                changed = _apply_patch(hook, write, self._get_result(hook, write, webhook_session, warnings))
                write = msgspec.structs.replace(write, object=changed)
        return write.object

    def validate(self, write: AdmissionWrite, webhook_session: WebhookSession | None, warnings: list[str]) -> None:
        """Call all validating webhooks at once. Raise the error of the first that denies the write."""
        hooks = self._validating.hooks()
        if write.is_configuration:
            return
        matching = [hook for hook in hooks if self._matches(hook, write)]
        calls = [self._build_call(hook, write) for hook in matching]
        if missing := tuple(
            call for call in calls if webhook_session is None or call.key not in webhook_session.results
        ):
            raise PendingCallsError(missing)
        for hook in matching:
            self._get_result(hook, write, webhook_session, warnings)

    def _get_result(
        self, hook: _Hook, write: AdmissionWrite, webhook_session: WebhookSession | None, warnings: list[str]
    ) -> WebhookResult:
        """Return the result of a webhook that allows the write. Raises `StatusError` if it denies it or failed."""
        call = self._build_call(hook, write)
        result = None if webhook_session is None else webhook_session.results.get(call.key)
        match result:
            case None:
                raise PendingCallsError((call,))
            case CallFailure(why=why):
                if hook.fails_open:
                    return WebhookResult(is_allowed=True)
                raise _internal_error(f'failed calling webhook "{hook.name}": {why}')
            case WebhookResult(is_allowed=True):
                warnings += result.warnings
                return result
            case WebhookResult():
                warnings += result.warnings
                raise _denied_error(hook.name, result.status)

    def _build_call(self, hook: _Hook, write: AdmissionWrite) -> Call:
        spec = hook.spec
        if write.is_dry and spec.get("sideEffects") not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        return Call(
            webhook=hook.name,
            is_mutating=hook.is_mutating,
            address=self._resolve_address(spec["clientConfig"]),
            ca_bundle=spec["clientConfig"].get("caBundle") or "",
            timeout_seconds=spec.get("timeoutSeconds", _DEFAULT_TIMEOUT),
            request=msgspec.json.encode(_build_request(write)),
        )

    def _resolve_address(self, config: JsonObject) -> Address:
        """Return the address of a webhook. The only Services that can be reached have the type ExternalName."""
        service = config.get("service")
        if service is None:
            return Address(shown=config["url"], url=config["url"])
        name, namespace, port = service["name"], service["namespace"], service.get("port", 443)
        host = f"{name}.{namespace}.svc"
        path = (service.get("path") or "").lstrip("/")
        shown = f"https://{host}:{port}/{path}"
        entry = self._store.table(_SERVICES).find(namespace, name)
        if entry is None:
            return Address(shown=shown, error_message=f'service "{name}" not found')
        spec = entry.obj["spec"]
        if spec.get("type") != "ExternalName":
            return Address(shown=shown, error_message=_NO_NETWORK)
        return Address(shown=shown, url=f"https://{spec['externalName']}:{port}/{path}", tls_name=host)

    def _matches(self, hook: _Hook, write: AdmissionWrite) -> bool:
        spec = hook.spec
        if not any(_rule_matches(rule, write) for rule in spec.get("rules") or ()):
            return False
        if not self._matches_namespace(spec.get("namespaceSelector"), write):
            return False
        if not _matches_object(spec.get("objectSelector"), write):
            return False
        return _matches_conditions(hook, write)

    def _matches_namespace(self, selector: JsonObject | None, write: AdmissionWrite) -> bool:
        if not selector:
            return True
        if write.resource_info is NAMESPACES:
            obj = write.object or write.old or {}
            return selects(selector, obj)
        if not write.namespace:
            return True
        entry = self._store.table(NAMESPACES).find("", write.namespace)
        return entry is not None and selects(selector, entry.obj)


class _WebhookSource:
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


def _rule_matches(rule: JsonObject, write: AdmissionWrite) -> bool:
    resource_info = write.resource_info
    return (
        _matches_scope(rule.get("scope", "*"), write)
        and _includes(rule["operations"], write.operation.value)
        and _includes(rule["apiGroups"], resource_info.group)
        and _includes(rule["apiVersions"], resource_info.version)
        and any(_matches_resource(resource, write) for resource in rule["resources"])
    )


def _matches_scope(scope: str, write: AdmissionWrite) -> bool:
    return scope == "*" or (scope == "Namespaced") is write.resource_info.namespaced


def _includes(items: Iterable[str], wanted: str) -> bool:
    return any(item in ("*", wanted) for item in items)


def _matches_resource(text: str, write: AdmissionWrite) -> bool:
    resource, _, subresource = text.partition("/")
    return resource in ("*", write.resource_info.plural) and subresource in ("*", write.subresource)


def _matches_object(selector: JsonObject | None, write: AdmissionWrite) -> bool:
    """Return whether the selector matches the object, or the old object of an update."""
    if not selector:
        return True
    return any(obj is not None and selects(selector, obj) for obj in (write.object, write.old))


def _matches_conditions(hook: _Hook, write: AdmissionWrite) -> bool:
    conditions = hook.spec.get("matchConditions")
    if not conditions:
        return True
    expressions = tuple(condition["expression"] for condition in conditions)
    try:
        return matches_conditions(expressions, request=_build_request(write), obj=write.object, old=write.old)
    except ConditionError as error:
        if hook.fails_open:
            return False
        raise forbidden(write.resource_info, write.name, str(error)) from None


# --- requests --------------------------------------------------------------------------------------------------------


def _build_request(write: AdmissionWrite) -> JsonObject:
    """Return the request of an AdmissionReview without its uid."""
    resource_info = write.resource_info
    kind = _group_version_kind(write.api_version, write.kind)
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
        "userInfo": write.user.to_wire(),
        "object": write.object,
        "oldObject": write.old,
        "dryRun": write.is_dry,
        "options": write.options,
    }


@lru_cache(maxsize=256)
def _group_version_kind(api_version: str, kind: str) -> JsonObject:
    group, _, version = api_version.rpartition("/")
    return {"group": group, "version": version, "kind": kind}


# --- results ---------------------------------------------------------------------------------------------------------


def _apply_patch(hook: _Hook, write: AdmissionWrite, result: WebhookResult) -> JsonObject | None:
    if not result.patch:
        return write.object
    if write.object is None:
        message = f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this'
        raise _internal_error(f"{message} operation")
    try:
        changed: Any = apply_json_patch(write.object, result.patch)
    except (PatchInvalidError, PatchConflictError, PatchTooLongError) as error:
        raise _internal_error(str(error)) from None
    if not isinstance(changed, dict) or not isinstance(changed.get("metadata"), dict):
        raise _internal_error(f'admission webhook "{hook.name}" returned an invalid object')
    return changed


def _internal_error(why: str) -> StatusError:
    """Return the error of a real API server for a webhook that failed."""
    details = {"causes": [{"message": why}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {why}", details)


class _DeniedError(StatusError):
    """A denial with the status that the webhook returned."""

    def __init__(self, status: JsonObject, message: str) -> None:
        code = status.get("code")
        super().__init__(code if isinstance(code, int) and code >= 400 else 400, "", message)
        self._webhook_status = status

    def status(self) -> JsonObject:
        fields = {key: self._webhook_status[key] for key in ("reason", "details") if self._webhook_status.get(key)}
        head: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return {**head, "message": self.message, **fields, "code": self.code}


def _denied_error(name: str, returned: JsonObject | None) -> StatusError:
    status = returned or {}
    why = status.get("message") or status.get("reason")
    denied = f'admission webhook "{name}" denied the request'
    return _DeniedError(status, f"{denied}: {why}" if why else f"{denied} without explanation")
