"""Compare installed webhook configurations with the desired ones: what to create and patch. Pure.

For an operator behind a Service, the installation applied the configurations, and the operator only writes `caBundle`.
For an operator at a URL (outside of the cluster), the operator manages the whole configurations.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from grove.admission.webhook_certificates import contains
from grove.api.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from grove.api.types.meta import JsonObject
from grove.api.types.webhookconfiguration import WebhookConfiguration
from grove.installation.webhook_configurations import MUTATING_NAMES, VALIDATING_NAMES, ServiceTarget, Target, UrlTarget


class InstalledConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """An installed configuration with one of Grove's names."""

    resource: Resource[WebhookConfiguration]
    configuration: WebhookConfiguration

    @property
    def name(self) -> str:
        return self.configuration.metadata.name


class CreateConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    resource: Resource[WebhookConfiguration]
    body: JsonObject

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


class PatchConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON patch for one version of the configuration."""

    resource: Resource[WebhookConfiguration]
    name: str
    patch: list[JsonObject]
    # No webhook had a CA bundle: the configuration was just applied.
    is_first: bool = False


Correction = CreateConfiguration | PatchConfiguration


def select_installed(
    mutating: Iterable[WebhookConfiguration], validating: Iterable[WebhookConfiguration]
) -> tuple[InstalledConfiguration, ...]:  # fmt: skip
    """Return the configurations with Grove's names, in a fixed order."""
    return (
        *_build_configurations(MUTATING_WEBHOOKS, mutating, MUTATING_NAMES),
        *_build_configurations(VALIDATING_WEBHOOKS, validating, VALIDATING_NAMES),
    )


def compute_corrections(
    installed: tuple[InstalledConfiguration, ...], target: Target, desired: tuple[JsonObject, ...], ca_bundle: str
) -> Iterator[Correction]:
    """Yield the corrections. `desired` is used for a URL target only."""
    match target:
        case ServiceTarget():
            for one in installed:
                yield from _injection(one, target, ca_bundle)
        case UrlTarget():
            present = {(one.resource.kind, one.name): one for one in installed}
            for body in desired:
                resource = _resource_of(body)
                found = present.get((resource.kind, body["metadata"]["name"]))
                if found is None:
                    yield CreateConfiguration(resource=resource, body=body)
                elif not is_of_a_service(found):
                    yield from _replacement(found, body)


def is_trusted(installed: tuple[InstalledConfiguration, ...], target: Target, authority: bytes) -> bool:
    """Return whether every webhook of this target trusts the CA."""
    bundles = [
        _bundle(webhook) for one in installed for webhook in one.configuration.webhooks if _leads_to(webhook, target)
    ]
    return all(contains(bundle, authority) for bundle in bundles)


def leads_anywhere_to(installed: tuple[InstalledConfiguration, ...], target: Target) -> bool:
    """Return whether any webhook calls this target."""
    return any(_leads_to(webhook, target) for one in installed for webhook in one.configuration.webhooks)


def is_of_a_service(installed: InstalledConfiguration) -> bool:
    """Return whether the configuration belongs to an installation inside the cluster."""
    return any("service" in _client_config(webhook) for webhook in installed.configuration.webhooks)


def created_for(installed: tuple[InstalledConfiguration, ...], target: UrlTarget) -> tuple[InstalledConfiguration, ...]:
    """Return the configurations whose webhooks all call this URL."""
    return tuple(
        one
        for one in installed
        if one.configuration.webhooks and all(_leads_to(webhook, target) for webhook in one.configuration.webhooks)
    )


def _build_configurations(
    resource: Resource[WebhookConfiguration], found: Iterable[WebhookConfiguration], names: tuple[str, ...]
) -> Iterator[InstalledConfiguration]:
    by_name = {one.metadata.name: one for one in found}
    for name in names:
        if name in by_name:
            yield InstalledConfiguration(resource=resource, configuration=by_name[name])


def _injection(
    installed: InstalledConfiguration, target: ServiceTarget, ca_bundle: str
) -> Iterator[PatchConfiguration]:
    """Patch the CA bundle where it differs, only in webhooks of this target: the user manages the rest."""
    changes: list[JsonObject] = [
        {"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": ca_bundle}
        for i, webhook in enumerate(installed.configuration.webhooks)
        if _leads_to(webhook, target) and _client_config(webhook).get("caBundle") != ca_bundle
    ]
    if changes:
        is_first = not any(_client_config(webhook).get("caBundle") for webhook in installed.configuration.webhooks)
        yield msgspec.structs.replace(_patch(installed, changes), is_first=is_first)


def _replacement(installed: InstalledConfiguration, body: JsonObject) -> Iterator[PatchConfiguration]:
    if list(installed.configuration.webhooks) != body["webhooks"]:
        yield _patch(installed, [{"op": "add", "path": "/webhooks", "value": body["webhooks"]}])


def _patch(installed: InstalledConfiguration, changes: list[JsonObject]) -> PatchConfiguration:
    version = installed.configuration.metadata.resource_version
    lock: JsonObject = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
    return PatchConfiguration(resource=installed.resource, name=installed.name, patch=[lock, *changes])


def _leads_to(webhook: JsonObject, target: Target) -> bool:
    config = _client_config(webhook)
    match target:
        case ServiceTarget(namespace=namespace, name=name):
            service: Any = config.get("service")
            return isinstance(service, dict) and (service.get("namespace"), service.get("name")) == (namespace, name)
        case UrlTarget(url=url):
            return str(config.get("url", "")).startswith(url.rstrip("/") + "/")


def _client_config(webhook: JsonObject) -> JsonObject:
    config: Any = webhook.get("clientConfig")
    return config if isinstance(config, dict) else {}


def _bundle(webhook: JsonObject) -> bytes:
    try:
        return base64.b64decode(str(_client_config(webhook).get("caBundle", "")), validate=True)
    except binascii.Error:
        return b""


def _resource_of(body: JsonObject) -> Resource[WebhookConfiguration]:
    return MUTATING_WEBHOOKS if body["kind"] == MUTATING_WEBHOOKS.kind else VALIDATING_WEBHOOKS
