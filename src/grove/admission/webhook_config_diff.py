"""Diff of the webhook configurations of a cluster: what to create, patch or delete so that they are right. Pure.

There are two ways to be installed. Behind a Service the configurations were applied with everything else, and only
their `caBundle` is ours to fill in. At a URL (an operator outside of the cluster) they are ours altogether.
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


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration with one of our names, as the cluster holds it."""

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
    """A JSON patch that applies to one version only: what we saw may be outdated."""

    resource: Resource[WebhookConfiguration]
    name: str
    patch: list[JsonObject]
    # No webhook of it trusted anybody before: it was applied a moment ago, and nothing in it was wrong.
    is_first: bool = False


Correction = CreateConfiguration | PatchConfiguration


def ours(
    mutating: Iterable[WebhookConfiguration], validating: Iterable[WebhookConfiguration]
) -> tuple[Held, ...]:  # fmt: skip
    """Those with our names, in a fixed order."""
    return (
        *_named(MUTATING_WEBHOOKS, mutating, MUTATING_NAMES),
        *_named(VALIDATING_WEBHOOKS, validating, VALIDATING_NAMES),
    )


def corrections(
    held: tuple[Held, ...], target: Target, desired: tuple[JsonObject, ...], ca_bundle: str
) -> Iterator[Correction]:
    """What makes the cluster's configurations right. `desired` counts at a URL, where they are ours altogether."""
    match target:
        case ServiceTarget():
            for one in held:
                yield from _injection(one, target, ca_bundle)
        case UrlTarget():
            present = {(one.resource.kind, one.name): one for one in held}
            for body in desired:
                resource = _resource_of(body)
                found = present.get((resource.kind, body["metadata"]["name"]))
                if found is None:
                    yield CreateConfiguration(resource=resource, body=body)
                elif not is_of_a_service(found):
                    yield from _replacement(found, body)


def is_trusted(held: tuple[Held, ...], target: Target, authority: bytes) -> bool:
    """Does every webhook that leads to us accept certificates of this authority?"""
    bundles = [_bundle(webhook) for one in held for webhook in one.configuration.webhooks if _leads_to(webhook, target)]
    return all(contains(bundle, authority) for bundle in bundles)


def leads_anywhere_to(held: tuple[Held, ...], target: Target) -> bool:
    """Is there a webhook that leads to us at all?"""
    return any(_leads_to(webhook, target) for one in held for webhook in one.configuration.webhooks)


def is_of_a_service(held: Held) -> bool:
    """It belongs to an installation inside the cluster."""
    return any("service" in _client_config(webhook) for webhook in held.configuration.webhooks)


def created_for(held: tuple[Held, ...], target: UrlTarget) -> tuple[Held, ...]:
    """Those in which every webhook leads to our URL: nobody else needs them."""
    return tuple(
        one
        for one in held
        if one.configuration.webhooks and all(_leads_to(webhook, target) for webhook in one.configuration.webhooks)
    )


def _named(
    resource: Resource[WebhookConfiguration], found: Iterable[WebhookConfiguration], names: tuple[str, ...]
) -> Iterator[Held]:
    by_name = {one.metadata.name: one for one in found}
    for name in names:
        if name in by_name:
            yield Held(resource=resource, configuration=by_name[name])


def _injection(held: Held, target: ServiceTarget, ca_bundle: str) -> Iterator[PatchConfiguration]:
    """Only where the bundle differs, and only in webhooks that lead to us: the rest is the user's."""
    changes: list[JsonObject] = [
        {"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": ca_bundle}
        for i, webhook in enumerate(held.configuration.webhooks)
        if _leads_to(webhook, target) and _client_config(webhook).get("caBundle") != ca_bundle
    ]
    if changes:
        is_first = not any(_client_config(webhook).get("caBundle") for webhook in held.configuration.webhooks)
        yield msgspec.structs.replace(_patch(held, changes), is_first=is_first)


def _replacement(held: Held, body: JsonObject) -> Iterator[PatchConfiguration]:
    if list(held.configuration.webhooks) != body["webhooks"]:
        yield _patch(held, [{"op": "add", "path": "/webhooks", "value": body["webhooks"]}])


def _patch(held: Held, changes: list[JsonObject]) -> PatchConfiguration:
    version = held.configuration.metadata.resource_version
    lock: JsonObject = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
    return PatchConfiguration(resource=held.resource, name=held.name, patch=[lock, *changes])


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
