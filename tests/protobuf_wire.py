"""Protobuf by hand: varints, fields, and the envelope that Kubernetes puts around an object."""


def varint(number: int) -> bytes:
    number &= 2**64 - 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def body(kind: str, content: bytes, api_version: str = "v1") -> bytes:
    type_meta = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\0" + field(1, type_meta) + field(2, content)
