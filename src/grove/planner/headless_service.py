"""The headless Service of a set replica, by which its pods find each other: create it and keep it up to date."""

from collections.abc import Iterable

from grove.api import labels, names
from grove.api.resources import SERVICES
from grove.api.types.meta import JsonObject
from grove.planner.actions import Action, Create, Patch
from grove.planner.child_manifests import build_object
from grove.planner.snapshot import SetContext
from grove.planner.views import ReplicaView


def plan_service(context: SetContext, replica: ReplicaView) -> Iterable[Action]:
    """Create the Service of a replica, or patch the fields that differ."""
    name = names.replica_name(context.name, replica.index)
    service = replica.services.get(name)
    if service is None:
        yield Create(
            resource=SERVICES,
            namespace=context.namespace,
            name=name,
            body=build_service(context, replica.index),
            failure_key=f"services/{name}",
            reason="pods of a replica find each other by name",
        )
        return
    wanted = build_service_spec(context, replica.index)
    current: JsonObject = {
        "publishNotReadyAddresses": service.spec.publish_not_ready_addresses,
        "selector": service.spec.selector,
    }
    if current != wanted and not service.metadata.is_terminating:
        changed = {key: value for key, value in wanted.items() if current[key] != value}
        if "selector" in changed:
            # A merge patch keeps keys that it does not name, so foreign keys are removed by name.
            changed["selector"] = {**dict.fromkeys(service.spec.selector), **wanted["selector"]}
        yield Patch(
            resource=SERVICES,
            namespace=context.namespace,
            name=name,
            uid=service.metadata.uid,
            patch={"spec": changed},
            reason="the service differs from the set's headlessServiceConfig",
        )


def build_service(context: SetContext, replica_index: int) -> JsonObject:
    name = names.replica_name(context.name, replica_index)
    metadata = {
        "name": name,
        "labels": {
            **labels.default_labels(context.name),
            labels.NAME: name,
            labels.COMPONENT: labels.COMPONENT_SERVICE,
            labels.SET_REPLICA_INDEX: str(replica_index),
        },
    }
    spec = {"clusterIP": "None", **build_service_spec(context, replica_index)}
    return build_object(SERVICES, metadata, context.subject, spec)


def build_service_spec(context: SetContext, replica_index: int) -> JsonObject:
    """Return the fields of a headless Service that the operator keeps up to date."""
    config = context.spec.template.headless_service_config
    return {
        "publishNotReadyAddresses": config.publish_not_ready_addresses if config else True,
        "selector": {**labels.default_labels(context.name), labels.SET_REPLICA_INDEX: str(replica_index)},
    }
