"""`grove plan -f FILE`: what applying a change would do."""

from pathlib import Path
from typing import TYPE_CHECKING

from grove.cli.apply import Files
from grove.cli.options import Context, Kubeconfig, Namespace, Output
from grove.cli.output import Format, say_json, say_rows

if TYPE_CHECKING:
    from grove.cli.documents import Document
    from grove.cli.planning import Seen


def plan(
    filename: Files,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    output: Output = Format.TEXT,
) -> None:
    """Say what applying manifests would do, and change nothing: what is replaced, in which order, what is down."""
    from grove.cli.connection import run
    from grove.cli.documents import read_documents
    from grove.cli.plan_view import plan_rows
    from grove.cli.planning import foresee

    documents = [document for path in filename for document in read_documents(path)]
    # The cluster is read in real time; what would become of it is played on a clock of its own.
    foreseen = foresee(run(_look(documents, namespace, kubeconfig, context)))
    if output is Format.JSON:
        say_json(foreseen)
    else:
        say_rows(plan_rows(foreseen))


async def _look(documents: "list[Document]", namespace: str, kubeconfig: Path | None, context: str) -> "Seen":
    from grove.cli.connection import connect
    from grove.cli.planning import look

    async with connect(kubeconfig, context, namespace) as connection:
        return await look(connection.transport, documents, connection.namespace, connection.clock.now())
