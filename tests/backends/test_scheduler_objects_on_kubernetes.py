"""The golden mirrors on a real API server with KAI's and Volcano's kinds: accepted, and nothing of them dropped."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from grove.api.types.meta import JsonObject
from tests.backends.scheduler_world import CRDS, definition_names
from tests.backends.test_golden_scheduler_objects import GOLDEN
from tests.e2e.installation import await_served
from tests.kube.controlplane.plane import Plane, running_plane

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    with running_plane(tmp_path_factory.mktemp("mirrors")) as plane:
        for path in sorted(CRDS.glob("*.yaml")):
            plane.kubectl("create", "-f", str(path))
        await_served(plane.user("admin"), definition_names())
        yield plane


def mirrors(path: Path) -> list[JsonObject]:
    """Every object of a golden file, as it was sent."""
    documents = [one for page in path.read_text().split("\n# ") for one in yaml.safe_load_all(f"# {page}")]
    found = [document for document in documents if document and "apiVersion" in document]
    for document in found:
        del document["metadata"]["owned by"]
    return found


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_real_api_server_keeps_every_field_of_a_mirror(plane: Plane, path: Path) -> None:
    sent = mirrors(path)
    assert sent
    for document in sent:
        text = msgspec.json.encode(document).decode()
        answer = plane.kubectl("create", "--dry-run=server", "--validate=strict", "-o", "json", "-f", "-", stdin=text)
        stored = msgspec.json.decode(answer)
        assert stored["spec"] == document["spec"]
        assert stored["metadata"].get("annotations") == document["metadata"].get("annotations")
