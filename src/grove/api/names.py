"""Names of the objects that the operator creates. Names are built here and never parsed.

`docs/reference/wire.md` lists the formulas. Owners and indices are read from uids and labels instead.
"""

import hashlib

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
SUFFIX_LENGTH = 5


def replica_name(pcs: str, replica_index: int) -> str:
    """Return the name of a set replica: of its base PodGang, its headless Service and its pods' subdomain."""
    return f"{pcs}-{replica_index}"


def standalone_clique(pcs: str, replica_index: int, clique: str) -> str:
    return f"{pcs}-{replica_index}-{clique}"


def group(pcs: str, replica_index: int, group_: str) -> str:
    return f"{pcs}-{replica_index}-{group_}"


def group_replica(group_name: str, group_replica_index: int) -> str:
    """Return the name of a group replica: the prefix of its cliques, and its constraint group in the base PodGang."""
    return f"{group_name}-{group_replica_index}"


def member_clique(group_name: str, group_replica_index: int, clique: str) -> str:
    return f"{group_name}-{group_replica_index}-{clique}"


def scaled_gang(group_name: str, gang_index: int) -> str:
    """Return the name of the PodGang of group replica `min_available + gang_index`."""
    return f"{group_name}-{gang_index}"


def role(pcs: str) -> str:
    """Return the name of the Role and RoleBinding for the init containers of a set."""
    return f"grove.io:pcs:{pcs}"


def revision(pcs: str, generation_hash: str) -> str:
    return f"{pcs}-{generation_hash}"


def service_address(pcs: str, replica_index: int, namespace: str) -> str:
    return f"{replica_name(pcs, replica_index)}.{namespace}.svc.cluster.local"


def pod_hostname(clique_name: str, pod_index: int) -> str:
    return f"{clique_name}-{pod_index}"


def pod_prefix(clique_name: str, pod_index: int) -> str:
    """Return the prefix of every pod name of this index. The suffix has no hyphen, so prefixes are unambiguous."""
    return f"{clique_name}-{pod_index}-"


def pod(clique_name: str, clique_uid: str, pod_index: int, name_before: str) -> str:
    """Return the next pod name of an index, derived from the clique's uid and the previous pod name of this index.

    A repeated or late create therefore fails with AlreadyExists and never makes a second pod.
    """
    seed = f"{clique_uid}/{pod_index}/{name_before}".encode()
    return pod_prefix(clique_name, pod_index) + derived_letters(seed, SUFFIX_LENGTH)


def derived_letters(seed: bytes, length: int) -> str:
    """Return letters derived from the seed. They are valid in names and labels and cannot spell words."""
    digest = int.from_bytes(hashlib.blake2b(seed, digest_size=8).digest(), "big")
    letters = ""
    for _ in range(length):
        digest, remainder = divmod(digest, len(ALPHABET))
        letters += ALPHABET[remainder]
    return letters
