"""CEL types of schemas: each object schema becomes a generated protobuf message."""

from typing import Any

from cel_expr_python import cel  # type: ignore[import-untyped]
from google.protobuf import descriptor_pool, duration_pb2, struct_pb2, timestamp_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from grove.api.types.meta import JsonObject
from grove.cluster.schemas.cel import PACKAGE, TypedVariables
from grove.cluster.schemas.cel_library import CelType
from grove.cluster.schemas.cel_values import escape
from grove.cluster.schemas.keywords import EMBEDDED, INT_OR_STRING

_NEEDED = (struct_pb2.DESCRIPTOR, duration_pb2.DESCRIPTOR, timestamp_pb2.DESCRIPTOR)
_ANYTHING = ".google.protobuf.Value"
_ANY_LIST = ".google.protobuf.ListValue"
_TIMES = {
    "date": ".google.protobuf.Timestamp",
    "date-time": ".google.protobuf.Timestamp",
    "datetime": ".google.protobuf.Timestamp",
    "duration": ".google.protobuf.Duration",
}
_SCALARS = {
    "boolean": FieldDescriptorProto.TYPE_BOOL,
    "integer": FieldDescriptorProto.TYPE_INT64,
    "number": FieldDescriptorProto.TYPE_DOUBLE,
    "string": FieldDescriptorProto.TYPE_STRING,
}
_TEXT: JsonObject = {"type": "string"}
_HEAD: JsonObject = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}


def typed_variables(schema: JsonObject, *, is_root: bool = False) -> TypedVariables:
    """Return the type of a value of this schema."""
    messages = _Messages()
    type_ = messages.type_of(_with_head(schema) if is_root else schema)
    pool = descriptor_pool.DescriptorPool()
    for needed in _NEEDED:
        pool.AddSerializedFile(needed.serialized_pb)
    pool.AddSerializedFile(_build_kubernetes_types().SerializeToString())
    pool.AddSerializedFile(messages.file.SerializeToString())
    return TypedVariables(type=type_, pool=pool)


def _build_kubernetes_types() -> FileDescriptorProto:
    """Return the descriptors of the types that Kubernetes adds. The messages are empty."""
    file = FileDescriptorProto(name="kubernetes.proto", package=PACKAGE, syntax="proto2")
    for kind in CelType:
        file.message_type.add(name=kind.value)
    return file


def _with_head(schema: JsonObject) -> JsonObject:
    return {**schema, "properties": {**schema.get("properties", {}), **_HEAD}}


class _Messages:
    """The protobuf messages that a type consists of."""

    def __init__(self) -> None:
        self.file = FileDescriptorProto(
            name="schema.proto", syntax="proto2", dependency=[needed.name for needed in _NEEDED]
        )

    def type_of(self, schema: JsonObject) -> Any:
        if schema.get(INT_OR_STRING):
            return cel.Type.DYN
        match schema.get("type"):
            case "object" if isinstance(schema.get("additionalProperties"), dict):
                return cel.Type.Map(cel.Type.STRING, self.type_of(schema["additionalProperties"]))
            case "object":
                return cel.Type(self._message(schema))
            case "array":
                return cel.Type.List(self.type_of(schema.get("items") or {}))
            case "string":
                return _text_type(schema)
            case "integer":
                return cel.Type.INT
            case "number":
                return cel.Type.DOUBLE
            case "boolean":
                return cel.Type.BOOL
            case _:
                return cel.Type.DYN

    def _message(self, schema: JsonObject) -> str:
        if schema.get(EMBEDDED):
            schema = _with_head(schema)
        message = self.file.message_type.add(name=f"Object{len(self.file.message_type)}")
        for number, (name, inner) in enumerate(schema.get("properties", {}).items(), start=1):
            if (field := escape(name)) is not None:
                self._add(message, field, number, inner)
        return message.name

    def _add(self, message: DescriptorProto, name: str, number: int, schema: JsonObject) -> None:
        additional = schema.get("additionalProperties")
        if schema.get("type") == "object" and isinstance(additional, dict) and not schema.get(INT_OR_STRING):
            self._add_map(message, name, number, additional)
            return
        is_list = schema.get("type") == "array" and not schema.get(INT_OR_STRING)
        items = schema.get("items") if is_list else schema
        if is_list and (not isinstance(items, dict) or _is_collection(items)):
            # Protobuf has no lists of lists or of maps: their items are not checked.
            _fill(message.field.add(name=name, number=number), _ANY_LIST)
            return
        assert isinstance(items, dict)
        field = message.field.add(name=name, number=number)
        _fill(field, self._field_type(items), is_list=is_list)

    def _add_map(self, message: DescriptorProto, name: str, number: int, values: JsonObject) -> None:
        entry_name = f"{''.join(part[:1].upper() + part[1:] for part in name.split('_'))}Entry"
        if any(nested.name == entry_name for nested in message.nested_type):
            _fill(message.field.add(name=name, number=number), _ANYTHING)
            return
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        _fill(entry.field.add(name="key", number=1), FieldDescriptorProto.TYPE_STRING)
        of_values = _ANYTHING if _is_collection(values) else self._field_type(values)
        _fill(entry.field.add(name="value", number=2), of_values)
        _fill(message.field.add(name=name, number=number), f".{message.name}.{entry_name}", is_list=True)

    def _field_type(self, schema: JsonObject) -> Any:
        """Return the number of a scalar type, or the name of a message."""
        type_ = schema.get("type")
        if schema.get(INT_OR_STRING) or type_ not in (*_SCALARS, "object"):
            return _ANYTHING
        if type_ == "object":
            return f".{self._message(schema)}"
        if type_ == "string" and schema.get("format") in _TIMES:
            return _TIMES[schema["format"]]
        if type_ == "string" and schema.get("format") == "byte":
            return FieldDescriptorProto.TYPE_BYTES
        return _SCALARS[type_]


def _is_collection(schema: JsonObject) -> bool:
    return schema.get("type") == "array" or isinstance(schema.get("additionalProperties"), dict)


def _fill(field: FieldDescriptorProto, type_: Any, *, is_list: bool = False) -> None:
    field.label = FieldDescriptorProto.LABEL_REPEATED if is_list else FieldDescriptorProto.LABEL_OPTIONAL
    if isinstance(type_, str):
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = type_
    else:
        field.type = type_


def _text_type(schema: JsonObject) -> Any:
    match schema.get("format"):
        case "date" | "date-time" | "datetime":
            return cel.Type.TIMESTAMP
        case "duration":
            return cel.Type.DURATION
        case "byte":
            return cel.Type.BYTES
        case _:
            return cel.Type.STRING
