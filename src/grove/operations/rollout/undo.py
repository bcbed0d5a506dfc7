"""Roll back a set: choose the revision, and write its templates into the set with one patch.

The rest is an ordinary update. The operator recognizes the revision and gives it the highest number.
"""

import msgspec

from grove.api.resources import CONTROLLER_REVISIONS, PODCLIQUESETS
from grove.api.template_revision import (
    Revision,
    RevisionTemplate,
    build_revision,
    makes_same_pods,
    restore_pod_templates,
    with_templates,
)
from grove.api.types.controllerrevision import ControllerRevision
from grove.api.types.meta import JsonObject, WireStruct
from grove.api.types.podcliqueset import PodCliqueSet, SetTemplate
from grove.errors import UserError
from grove.kube.api_errors import ApiError
from grove.kube.response_decoding import check, decode_object
from grove.kube.transport import MERGE_PATCH, Request
from grove.operations.apply.apply_merge import warnings_of
from grove.operations.connection import Connection
from grove.operations.hints import hint
from grove.operations.resource_args import no_such_set
from grove.operations.rollout.revisions import (
    find_matching_revision,
    format_revision_numbers,
    revision_selector,
    revisions_of,
    template_with_defaults,
)
from grove.operations.rollout.template_diff import CliqueChange, template_changes
from grove.planner.rollout.revision_history import CHANGE_CAUSE

# Conflicts are expected: the operator often writes to the set between the read and the patch.
ATTEMPTS = 10
PAUSE_SECONDS = 0.1


class UndoResult(WireStruct):
    """The result of a rollback, or of its dry run.

    Example:
        undone = client.undo("chat")
        print(undone.from_revision, undone.to_revision, undone.is_changed)
    """

    name: str
    namespace: str
    # None: the previous templates of the set were not stored yet.
    from_revision: int | None
    to_revision: int
    # The new number of the revision: the newest has the highest.
    becomes_revision: int
    is_changed: bool
    is_dry_run: bool
    changes: tuple[CliqueChange, ...] = ()
    warnings: tuple[str, ...] = ()


class StoredSet(msgspec.Struct, frozen=True, kw_only=True):
    """A set, as raw JSON and decoded, with its revisions."""

    body: JsonObject
    pcs: PodCliqueSet
    revisions: tuple[Revision, ...]


async def undo(connection: Connection, name: str, to_revision: int | None, *, is_dry_run: bool) -> UndoResult:
    """Roll back a set. Raises `UserError` if there is no such revision, `ApiError` if the server rejects the write."""
    chosen: Revision | None = None
    for attempt in range(1, ATTEMPTS + 1):
        stored = await read_stored(connection, name)
        template = template_with_defaults(stored.pcs)
        # A retry keeps the templates of the first attempt, even if the set or the numbers changed meanwhile.
        same = (one for one in stored.revisions if chosen and one.generation_hash == chosen.generation_hash)
        target = chosen = next(same, None) or choose_target(stored, template, to_revision)
        try:
            return await _roll_back(connection, stored, template, target, is_dry_run=is_dry_run)
        except ApiError as error:
            if not error.is_conflict or attempt == ATTEMPTS:
                raise
        await connection.clock.sleep(PAUSE_SECONDS * attempt)
    raise AssertionError("unreachable: the last attempt returns or raises")


async def read_stored(connection: Connection, name: str) -> StoredSet:
    request = Request(method="GET", path=PODCLIQUESETS.path(connection.namespace, name))
    response = await connection.transport.send(request)
    try:
        pcs = decode_object(PODCLIQUESETS, request, response)
    except ApiError as error:
        if error.is_not_found and error.reason == "NotFound" and name in error.message:
            raise no_such_set(name, connection.namespace) from error
        raise
    found = await connection.client.list(
        CONTROLLER_REVISIONS, namespace=connection.namespace, label_selector=revision_selector(name)
    )
    stored: tuple[ControllerRevision, ...] = found.items
    return StoredSet(body=msgspec.json.decode(response.body), pcs=pcs, revisions=revisions_of(pcs, stored))


def find_revision(stored_set: StoredSet, number: int) -> Revision:
    name, revisions = stored_set.pcs.metadata.name, stored_set.revisions
    found = next((one for one in revisions if one.number == number), None)
    if found is None:
        stored = f"it has {format_revision_numbers(revisions)}" if revisions else "none is stored yet"
        history = hint(f"rollout history pcs/{name}", stored_set.pcs.metadata.namespace)
        raise UserError(f"pcs/{name} has no revision {number}; {stored}, see `{history}`")
    return found


def choose_target(stored_set: StoredSet, template: SetTemplate, to_revision: int | None) -> Revision:
    """Return the requested revision, or the last one whose pods differ from the current template."""
    if to_revision is not None:
        return find_revision(stored_set, to_revision)
    name, revisions = stored_set.pcs.metadata.name, stored_set.revisions
    others = [one for one in revisions if not makes_same_pods(template, one.template)]
    if not others:
        stored = f"only {format_revision_numbers(revisions)} is stored" if revisions else "no revision is stored yet"
        raise UserError(
            f"pcs/{name} has no earlier revision: {stored}; to change the set, apply other templates with `grove apply`"
        )
    return others[-1]


async def _roll_back(
    connection: Connection, stored: StoredSet, template: SetTemplate, target: Revision, *, is_dry_run: bool
) -> UndoResult:
    pcs = stored.pcs
    if pcs.metadata.is_terminating:
        raise UserError(f"pcs/{pcs.metadata.name} is being deleted and cannot be rolled back; wait until it is gone")
    before, newest = find_matching_revision(template, stored.revisions), stored.revisions[-1]
    undone = UndoResult(
        name=pcs.metadata.name,
        namespace=pcs.metadata.namespace,
        from_revision=before.number if before else None,
        to_revision=target.number,
        becomes_revision=target.number if target is newest else newest.number + 1,
        is_changed=False,
        is_dry_run=is_dry_run,
    )
    if makes_same_pods(template, target.template):
        return undone
    request = Request(
        method="PATCH",
        path=PODCLIQUESETS.path(pcs.metadata.namespace, pcs.metadata.name),
        query={"fieldManager": "grove", **({"dryRun": "All"} if is_dry_run else {})},
        body=msgspec.json.encode(_patch(stored, target)),
        content_type=MERGE_PATCH,
    )
    response = await connection.transport.send(request)
    check(request, response)
    changes = template_changes(
        _to_revision_template(template), _to_revision_template(with_templates(template, target.template))
    )
    return msgspec.structs.replace(undone, is_changed=True, changes=changes, warnings=warnings_of(response))


def _to_revision_template(template: SetTemplate) -> RevisionTemplate:
    """Convert a template for comparison only, with empty hashes."""
    return build_revision(template, {clique.name: "" for clique in template.cliques}, "")


def _patch(stored: StoredSet, target: Revision) -> JsonObject:
    """Return the patch of the fields that a revision contains, with the resourceVersion that was read."""
    template = restore_pod_templates(stored.body["spec"]["template"], target.template)
    cause = target.object.metadata.annotations.get(CHANGE_CAUSE)
    metadata: JsonObject = {"resourceVersion": stored.pcs.metadata.resource_version}
    if cause != stored.pcs.metadata.annotations.get(CHANGE_CAUSE):
        metadata["annotations"] = {CHANGE_CAUSE: cause}
    wanted = {"cliques": template["cliques"], "priorityClassName": template.get("priorityClassName")}
    return {"metadata": metadata, "spec": {"template": wanted}}
