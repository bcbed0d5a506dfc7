"""Complete names of objects in a shell, by asking the cluster."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from click import Context, Parameter
from click.shell_completion import CompletionItem

from grove.cli.common.options import ClusterOptions
from grove.operations.object_ref import parse_kind

if TYPE_CHECKING:
    from grove.operations.connection import Connection

# A shell that waits longer seems to hang.
COMPLETION_SECONDS = 2.0
Completer = Callable[[Context, Parameter, str], list[CompletionItem]]


def complete_names(*, has_bare_names: bool) -> Completer:
    """Return a completer of objects. Without a kind it offers sets, as `chat` or as `pcs/chat`."""

    def complete(context: Context, parameter: Parameter, incomplete: str) -> list[CompletionItem]:
        prefix, kind = _read_kind(context, parameter, incomplete)
        if not prefix and not kind and not has_bare_names:
            prefix = "pcs/"
        names = _list_names(context, kind or "podcliqueset")
        return [CompletionItem(text) for name in names if (text := f"{prefix}{name}").startswith(incomplete)]

    return complete


def _read_kind(context: Context, parameter: Parameter, incomplete: str) -> tuple[str, str]:
    """Return what stands before the name in the same word, and the kind: from this word, or from the first one."""
    if "/" in incomplete:
        word = incomplete.partition("/")[0]
        return f"{word}/", parse_kind(word) or ""
    words = context.params.get(parameter.name or "") or ()
    first = words[0] if isinstance(words, tuple) and words else ""
    return "", parse_kind(str(first)) or ""


def _list_names(context: Context, kind: str) -> list[str]:
    from grove.cli.common.connection import run_quietly
    from grove.operations.resource_args import RESOURCES

    kubeconfig = context.params.get("kubeconfig")
    options = ClusterOptions(
        namespace=context.params.get("namespace") or "",
        kubeconfig=Path(kubeconfig) if kubeconfig else None,
        context=context.params.get("context") or "",
    )

    async def list_names(connection: "Connection") -> list[str]:
        found = await connection.client.list_metadata(RESOURCES[kind], namespace=connection.namespace)
        return sorted(one.metadata.name for one in found.items)

    return run_quietly(options, list_names, seconds=COMPLETION_SECONDS) or []
