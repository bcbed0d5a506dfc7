"""Role and RoleBinding, with the fields that the operator writes."""

from grove.api.types.meta import ObjectMeta, WireStruct


class RoleRule(WireStruct):
    """The verbs that a Role allows on resources of API groups."""

    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    # Absent: all objects.
    resource_names: tuple[str, ...] | None = None


class Role(WireStruct):
    metadata: ObjectMeta
    # The API server returns null for a Role without rules.
    rules: tuple[RoleRule, ...] | None = None


class RoleSubject(WireStruct):
    """An account that a RoleBinding grants its Role to."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleReference(WireStruct):
    """The role of a RoleBinding. It is immutable."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class RoleBinding(WireStruct):
    metadata: ObjectMeta
    role_ref: RoleReference = RoleReference()
    subjects: tuple[RoleSubject, ...] = ()
