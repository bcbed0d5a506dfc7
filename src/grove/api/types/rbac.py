"""Role and RoleBinding, with the fields that the operator writes."""

from grove.api.types.meta import ObjectMeta, WireStruct


class RoleRule(WireStruct):
    """The verbs that a Role allows on resources of API groups."""

    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


class Role(WireStruct):
    metadata: ObjectMeta
    # The API server returns null for a Role without rules.
    rules: tuple[RoleRule, ...] | None = None


class RoleSubject(WireStruct):
    """An account that a RoleBinding grants its Role to."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleBinding(WireStruct):
    metadata: ObjectMeta
    subjects: tuple[RoleSubject, ...] = ()
