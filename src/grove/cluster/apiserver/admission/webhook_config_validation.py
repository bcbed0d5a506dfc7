"""Strategy of webhook configurations: defaults and validation."""

import re

import msgspec

from grove.api.types.meta import JsonObject
from grove.api.validation.field_errors import FieldError, duplicate, invalid, not_supported, required
from grove.cluster.apiserver.admission.match_conditions import find_compile_error
from grove.cluster.apiserver.codec.label_selectors import LabelSelector, validate_selector
from grove.cluster.apiserver.registry.metadata import (
    build_unreadable_error,
    find_dns_subdomain_error,
    find_label_key_error,
)
from grove.cluster.built_in_resources import ResourceInfo

_REVIEW_VERSIONS = ("v1", "v1beta1")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_MAX_TIMEOUT_SECONDS = 30
_MAX_CONDITIONS = 64
_FORMAT = "; desired format: https://host[/path]"
_URL = re.compile(
    r"((?P<scheme>[^:/?#]+):)?(//(?P<host>[^/?#]*))?[^?#]*(\?(?P<query>[^#]*))?(#(?P<fragment>.*))?", re.DOTALL
)
_URL_PARTS = ("scheme", "host", "query", "fragment")

_Texts = list[str] | None


class _Rule(msgspec.Struct, rename="camel"):
    operations: _Texts = None
    api_groups: _Texts = None
    api_versions: _Texts = None
    resources: _Texts = None
    scope: str | None = None


class _Service(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    path: str | None = None
    port: int | None = None


class _ClientConfig(msgspec.Struct, rename="camel"):
    url: str | None = None
    service: _Service | None = None
    ca_bundle: str | None = None


class _Condition(msgspec.Struct):
    name: str = ""
    expression: str = ""


class _Webhook(msgspec.Struct, rename="camel"):
    name: str = ""
    client_config: _ClientConfig = msgspec.field(default_factory=_ClientConfig)
    rules: list[_Rule] | None = None
    failure_policy: str | None = None
    match_policy: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: str | None = None
    timeout_seconds: int | None = None
    admission_review_versions: _Texts = None
    reinvocation_policy: str | None = None
    match_conditions: list[_Condition] | None = None


class _Configuration(msgspec.Struct):
    webhooks: list[_Webhook] | None = None


def prepare_webhooks(resource_info: ResourceInfo, obj: JsonObject) -> JsonObject:
    """Return the configuration with defaults. Raises 400 for wrong types."""
    try:
        msgspec.convert(obj, _Configuration)
    except msgspec.ValidationError as error:
        raise build_unreadable_error(resource_info, f"json: {error}") from None
    webhooks = obj.get("webhooks")
    if not webhooks:
        return obj
    is_mutating = resource_info.kind == "MutatingWebhookConfiguration"
    return {**obj, "webhooks": [_with_defaults(webhook, is_mutating) for webhook in webhooks]}


def _with_defaults(webhook: JsonObject, is_mutating: bool) -> JsonObject:
    found = {
        "clientConfig": {},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
        **({"reinvocationPolicy": "Never"} if is_mutating else {}),
        **webhook,
    }
    if service := found["clientConfig"].get("service"):
        found["clientConfig"] = {**found["clientConfig"], "service": {"port": 443, **service}}
    if rules := found.get("rules"):
        found["rules"] = [{"scope": "*", **rule} for rule in rules]
    return found


def validate_webhooks(obj: JsonObject) -> list[FieldError]:
    configuration = msgspec.convert(obj, _Configuration)
    errors: list[FieldError] = []
    names: dict[str, None] = {}
    for index, webhook in enumerate(configuration.webhooks or ()):
        where = f"webhooks[{index}]"
        errors += _validate_webhook(webhook, where, is_mutating=obj["kind"] == "MutatingWebhookConfiguration")
        if webhook.name in names:
            errors.append(duplicate(f"{where}.name", webhook.name, ""))
        elif webhook.name:
            names[webhook.name] = None
    return errors


def _validate_webhook(webhook: _Webhook, where: str, *, is_mutating: bool) -> list[FieldError]:
    errors = _validate_name(webhook.name, f"{where}.name")
    for index, rule in enumerate(webhook.rules or ()):
        errors += _validate_rule(rule, f"{where}.rules[{index}]")
    errors += _validate_choice(webhook.failure_policy, ("Fail", "Ignore"), f"{where}.failurePolicy")
    errors += _validate_choice(webhook.match_policy, ("Equivalent", "Exact"), f"{where}.matchPolicy")
    if webhook.side_effects is None:
        errors.append(required(f"{where}.sideEffects", "must specify one of None, NoneOnDryRun"))
    errors += _validate_choice(webhook.side_effects, ("None", "NoneOnDryRun"), f"{where}.sideEffects")
    seconds = webhook.timeout_seconds
    if seconds is not None and not 1 <= seconds <= _MAX_TIMEOUT_SECONDS:
        error_message = f"the timeout value must be between 1 and {_MAX_TIMEOUT_SECONDS} seconds"
        errors.append(invalid(f"{where}.timeoutSeconds", seconds, error_message))
    if is_mutating:
        errors += _validate_choice(webhook.reinvocation_policy, ("IfNeeded", "Never"), f"{where}.reinvocationPolicy")
    errors += validate_selector(webhook.namespace_selector, f"{where}.namespaceSelector")
    errors += validate_selector(webhook.object_selector, f"{where}.objectSelector")
    errors += _validate_client_config(webhook.client_config, f"{where}.clientConfig")
    errors += _validate_match_conditions(webhook.match_conditions or [], f"{where}.matchConditions")
    return errors + _validate_review_versions(
        webhook.admission_review_versions or [], f"{where}.admissionReviewVersions"
    )


def _validate_name(name: str, where: str) -> list[FieldError]:
    if not name:
        return [required(where, "")]
    if error_message := find_dns_subdomain_error(name):
        return [invalid(where, name, error_message)]
    if name.count(".") < 2:
        return [invalid(where, name, "should be a domain with at least three segments separated by dots")]
    return []


def _validate_choice(value: str | None, choices: tuple[str, ...], where: str) -> list[FieldError]:
    return [] if value is None or value in choices else [not_supported(where, value, choices)]


def _validate_rule(rule: _Rule, where: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if not rule.operations:
        errors.append(required(f"{where}.operations", ""))
    for index, operation in enumerate(rule.operations or ()):
        errors += _validate_choice(operation, _OPERATIONS, f"{where}.operations[{index}]")
    for field, values, what in (
        ("apiGroups", rule.api_groups, "API groups"),
        ("apiVersions", rule.api_versions, "API versions"),
        ("resources", rule.resources, ""),
    ):
        if not values:
            errors.append(required(f"{where}.{field}", ""))
        elif what and "*" in values and len(values) > 1:
            errors.append(invalid(f"{where}.{field}", values, f"if '*' is present, must not specify other {what}"))
    errors += [
        required(f"{where}.apiVersions[{index}]", "") for index, one in enumerate(rule.api_versions or ()) if not one
    ]
    return errors + _validate_choice(rule.scope, _SCOPES, f"{where}.scope")


def _validate_client_config(config: _ClientConfig, where: str) -> list[FieldError]:
    if (config.url is None) is (config.service is None):
        return [required(where, "exactly one of url or service is required")]
    if config.url is not None:
        return _validate_url(config.url, f"{where}.url")
    service = config.service or _Service()
    named = {"name": service.name, "namespace": service.namespace}
    errors = [required(f"{where}.service.{field}", "") for field, value in named.items() if not value]
    if service.port is not None and not 1 <= service.port <= 65535:
        error_message = "port is not valid: must be between 1 and 65535, inclusive"
        errors.append(invalid(f"{where}.service.port", service.port, error_message))
    return errors


def _validate_url(url: str, where: str) -> list[FieldError]:
    parts = _URL.fullmatch(url)
    scheme, host, query, fragment = (parts[name] or "" for name in _URL_PARTS) if parts else ("", "", "", "")
    user, at, _ = host.rpartition("@")
    errors = []
    if scheme != "https":
        errors.append(invalid(where, scheme, f"'https' is the only allowed URL scheme{_FORMAT}"))
    if not host:
        errors.append(invalid(where, "", f"host must be specified{_FORMAT}"))
    if at:
        errors.append(invalid(where, user, "user information is not permitted in the URL"))
    if fragment:
        errors.append(invalid(where, fragment, "fragments are not permitted in the URL"))
    if query:
        errors.append(invalid(where, query, "query parameters are not permitted in the URL"))
    return errors


def _validate_match_conditions(conditions: list[_Condition], where: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(invalid(where, len(conditions), f"must have at most {_MAX_CONDITIONS} items"))
    names: dict[str, None] = {}
    for index, condition in enumerate(conditions[:_MAX_CONDITIONS]):
        place = f"{where}[{index}]"
        if not condition.expression.strip():
            errors.append(required(f"{place}.expression", ""))
        elif error_message := find_compile_error(condition.expression):
            errors.append(invalid(f"{place}.expression", condition.expression, f"compilation failed: {error_message}"))
        if not condition.name:
            errors.append(required(f"{place}.name", ""))
        elif condition.name in names:
            errors.append(duplicate(f"{place}.name", condition.name, ""))
        elif error_message := find_label_key_error(condition.name):
            errors.append(invalid(f"{place}.name", condition.name, error_message))
        names[condition.name] = None
    return errors


def _validate_review_versions(versions: list[str], where: str) -> list[FieldError]:
    supported = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        return [required(where, f"must specify one of {supported}")]
    if not any(version in _REVIEW_VERSIONS for version in versions):
        return [invalid(where, versions, f"must include at least one of {supported}")]
    return []
