"""Validate resource claim templates and `resourceSharing`."""

from collections.abc import Collection, Iterator, Sequence

from grove.api.types.meta import JsonObject
from grove.api.types.podcliqueset import (
    CliqueResourceSharing,
    GroupResourceSharing,
    GroupSharingFilter,
    SetResourceSharing,
    SetSharingFilter,
    SetTemplate,
)
from grove.api.validation.field_errors import FieldError, duplicate, invalid, not_found, required, shorten

_Sharing = SetResourceSharing | GroupResourceSharing | CliqueResourceSharing


def sharing_errors(template: SetTemplate) -> Iterator[FieldError]:
    at = "spec.template"
    yield from _template_errors(template, f"{at}.resourceClaimTemplates")
    templates = frozenset(claim.name for claim in template.resource_claim_templates)
    cliques = frozenset(clique.name for clique in template.cliques)
    groups = frozenset(group.name for group in template.pod_clique_scaling_groups)
    yield from _sharing_errors(template.resource_sharing, templates, f"{at}.resourceSharing")
    for k, sharing in enumerate(template.resource_sharing):
        if sharing.filter is not None:
            yield from _set_filter_errors(sharing.filter, cliques, groups, f"{at}.resourceSharing[{k}].filter")
    for i, clique in enumerate(template.cliques):
        yield from _sharing_errors(clique.resource_sharing, templates, f"{at}.cliques[{i}].resourceSharing")
    for i, group in enumerate(template.pod_clique_scaling_groups):
        group_at = f"{at}.podCliqueScalingGroups[{i}].resourceSharing"
        yield from _sharing_errors(group.resource_sharing, templates, group_at)
        members = frozenset(group.clique_names)
        for k, shared in enumerate(group.resource_sharing):
            if shared.filter is not None:
                yield from _group_filter_errors(shared.filter, members, f"{group_at}[{k}].filter")


def _template_errors(template: SetTemplate, at: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, claim in enumerate(template.resource_claim_templates):
        if not claim.name:
            yield required(f"{at}[{i}].name", "write a name")
        elif claim.name in seen:
            yield duplicate(f"{at}[{i}].name", claim.name, "already used by another template: choose another name")
        seen.add(claim.name)
        if not _device_requests(claim.template_spec):
            yield required(f"{at}[{i}].templateSpec.spec.devices.requests", "request at least one device")


def _device_requests(template_spec: JsonObject) -> object:
    value: object = template_spec
    for key in ("spec", "devices", "requests"):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _sharing_errors(sharings: Sequence[_Sharing], templates: Collection[str], at: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, sharing in enumerate(sharings):
        if not sharing.name:
            yield required(f"{at}[{i}].name", "write the name of a resource claim template")
        elif sharing.name in seen:
            yield duplicate(f"{at}[{i}].name", sharing.name, "already in this list: remove one")
        seen.add(sharing.name)
        if sharing.namespace and sharing.name in templates:
            detail = f'"{shorten(sharing.name)}" is a template of this set: remove the namespace'
            yield invalid(f"{at}[{i}].namespace", sharing.namespace, detail)


def _set_filter_errors(
    names: SetSharingFilter, cliques: Collection[str], groups: Collection[str], at: str
) -> Iterator[FieldError]:
    if not names.child_clique_names and not names.child_scaling_group_names:
        yield required(at, "write names of cliques or groups, or remove the filter to share with all")
    for k, name in enumerate(names.child_clique_names):
        if name not in cliques:
            yield not_found(f"{at}.childCliqueNames[{k}]", name, "is not a clique of this set: correct the name")
    for k, name in enumerate(names.child_scaling_group_names):
        if name not in groups:
            yield not_found(
                f"{at}.childScalingGroupNames[{k}]", name, "is not a scaling group of this set: correct the name"
            )


def _group_filter_errors(names: GroupSharingFilter, members: Collection[str], at: str) -> Iterator[FieldError]:
    if not names.child_clique_names:
        yield required(
            f"{at}.childCliqueNames", "write names of cliques of the group, or remove the filter to share with all"
        )
    for k, name in enumerate(names.child_clique_names):
        if name not in members:
            yield not_found(f"{at}.childCliqueNames[{k}]", name, "is not a clique of this group: correct the name")
