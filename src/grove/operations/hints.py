"""Hints that can be pasted, and names of sets with their namespace where it differs.

A hint selects the same cluster and namespace as the command that prints it. That selection belongs to the process, like
the width of its terminal: `connection.py` and `grove up` set it once, and every renderer reads it here.
"""

import shlex
from contextvars import ContextVar

import msgspec


class HintScope(msgspec.Struct, frozen=True, kw_only=True):
    """The namespace of the command, and the options that select its cluster."""

    # The namespace that a command without `-n` would use.
    namespace: str = "default"
    kubeconfig: str = ""
    context: str = ""


_DEFAULT = HintScope()
_scope: ContextVar[HintScope] = ContextVar("hint scope", default=_DEFAULT)


def set_hint_scope(scope: HintScope) -> None:
    _scope.set(scope)


def hint(command: str, namespace: str = "") -> str:
    """Return `grove COMMAND` with the options that the user needs to paste it, such as `-n team`."""
    return f"grove {command}{hint_flags(namespace)}"


def kubectl_hint(command: str, namespace: str = "") -> str:
    """Return `kubectl COMMAND`, with the same options."""
    return f"kubectl {command}{hint_flags(namespace)}"


def hint_flags(namespace: str = "") -> str:
    """Return the options of a hint about an object in this namespace, with a leading space; empty if none is needed."""
    scope = _scope.get()
    flags = (
        ("-n", "" if namespace == scope.namespace else namespace),
        ("--kubeconfig", scope.kubeconfig),
        ("--context", scope.context),
    )
    return "".join(f" {flag} {shlex.quote(value)}" for flag, value in flags if value)


def name_with_namespace(name: str, namespace: str) -> str:
    """Return a name for messages. In another namespace than that of the command: `pcs/chat (namespace team)`."""
    return name if namespace in ("", _scope.get().namespace) else f"{name} (namespace {namespace})"
