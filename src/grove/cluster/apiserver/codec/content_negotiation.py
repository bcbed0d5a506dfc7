"""Content negotiation: the form of a response, selected by the `Accept` header as a real API server does.

Forms: objects, tables (`table.py`), partial metadata (`reduce_to_metadata`), and aggregated discovery (`discovery.py`).
"""

from enum import Enum
from functools import lru_cache

import msgspec

from grove.api.types.meta import JsonObject
from grove.cluster.apiserver.status_errors import StatusError

_JSON_TYPES = ("application/json", "application/*", "*/*", "")


class Form(Enum):
    OBJECT = "Object"
    TABLE = "Table"
    METADATA = "PartialObjectMetadata"
    METADATA_LIST = "PartialObjectMetadataList"


class MediaType(msgspec.Struct, frozen=True):
    """One media type of an Accept header, with its parameters."""

    media_type: str
    parameters: dict[str, str]

    @property
    def is_json(self) -> bool:
        return self.media_type in _JSON_TYPES

    def is_kind(self, group: str, kind: str, versions: tuple[str, ...]) -> bool:
        wanted = self.parameters
        return wanted.get("g") == group and wanted.get("as") == kind and wanted.get("v") in versions


def negotiate_form(accept: str, *, is_custom: bool = False) -> Form:
    """Return the first supported form of the header. Raises 406 if there is none."""
    return _negotiate(accept, is_custom) if accept else Form.OBJECT


@lru_cache(maxsize=256)
def _negotiate(accept: str, is_custom: bool) -> Form:
    for media in parse_accept(accept):
        if not media.is_json:
            continue
        match media.parameters.get("as"):
            case None:
                return Form.OBJECT
            case "Table" if media.is_kind("meta.k8s.io", "Table", ("v1", "v1beta1")):
                return Form.TABLE
            case "PartialObjectMetadata":
                return Form.METADATA
            case "PartialObjectMetadataList":
                return Form.METADATA_LIST
            case _:
                pass
    # Built-in kinds check the media type before its parameters.
    is_json = any(media.is_json for media in parse_accept(accept))
    raise not_acceptable() if is_custom or is_json else not_representable()


@lru_cache(maxsize=256)
def parse_accept(accept: str) -> tuple[MediaType, ...]:
    """Return the media types in the order of the header; `q` values are ignored."""
    return tuple(_parse_media_type(part) for part in accept.split(","))


def _parse_media_type(part: str) -> MediaType:
    media_type, *parameters = (piece.strip() for piece in part.split(";"))
    pairs = (parameter.partition("=") for parameter in parameters)
    return MediaType(media_type.lower(), {name.strip(): value.strip().strip('"') for name, _, value in pairs})


def not_acceptable() -> StatusError:
    return StatusError(406, "NotAcceptable", "only the following media types are accepted: application/json")


def not_representable() -> StatusError:
    """Return the error 406 that the API server returns for built-in kinds."""
    message = "406: Not Acceptable\n\nAvailable representations: application/json, application/json;stream=watch"
    return StatusError(406, "NotAcceptable", message, {})


def reduce_to_metadata(body: bytes, form: Form) -> bytes:
    """Reduce an object or a list to metadata. Raises 406 if the form does not match object or list."""
    found: JsonObject = msgspec.json.decode(body)
    is_list = "items" in found
    if is_list is not (form is Form.METADATA_LIST):
        what = "is a list" if is_list else "is not a list"
        message = f"you requested {form.value}, but the requested object {what} ({found.get('kind')})"
        raise StatusError(406, "NotAcceptable", message)
    if not is_list:
        return msgspec.json.encode(partial_object(found))
    items = [partial_object(item) for item in found["items"]]
    head = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": found["metadata"]}
    return msgspec.json.encode({**head, "items": items})


def partial_object(obj: JsonObject) -> JsonObject:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj.get("metadata", {})}
