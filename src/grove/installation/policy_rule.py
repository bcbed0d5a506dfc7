"""One rule of a role."""

import msgspec

from grove.api.types.meta import JsonObject


class PolicyRule(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of one group, the verbs that are used on them, and what for. No names: all objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    names: tuple[str, ...] = ()
    # Objects of the cluster, which only a ClusterRole can grant.
    is_cluster_scoped: bool = False

    def wire(self) -> JsonObject:
        names = {"resourceNames": list(self.names)} if self.names else {}
        return {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            **names,
            "verbs": list(self.verbs),
        }
