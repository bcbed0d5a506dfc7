"""Two custom kinds that many tests are about: one whose schema uses every word, and one with rules in CEL."""

from grove.api.types.meta import JsonObject
from tests.conformance.definitions import PRESERVE, RULES, definition, obj, version

TEXT: JsonObject = {"type": "string"}
NUMBER: JsonObject = {"type": "integer"}
_FORMATS = (
    "date-time", "date", "ipv4", "uuid", "byte", "duration", "email", "uri", "hostname", "cidr", "ipv6", "mac",
    "nonsense",
)  # fmt: skip
_KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}

VALUES = definition(
    "values",
    obj(
        {
            "spec": obj(
                {
                    "i": {"type": "integer", "minimum": 1, "maximum": 10},
                    "open": {
                        "type": "integer", "exclusiveMinimum": True, "minimum": 1, "exclusiveMaximum": True,
                        "maximum": 10,
                    },
                    "third": {"type": "integer", "multipleOf": 3},
                    "n": {"type": "number", "minimum": 0.5},
                    "small": {"type": "integer", "format": "int32"},
                    "large": {"type": "integer", "format": "int64"},
                    "s": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
                    "word": {"type": "string", "enum": ["A", "B"]},
                    "digit": {"type": "integer", "enum": [1, 2]},
                    "truth": {"type": "boolean"},
                    "l": {"type": "array", "items": TEXT, "minItems": 1, "maxItems": 2},
                    "m": {"type": "object", "additionalProperties": NUMBER, "minProperties": 1, "maxProperties": 2},
                    "null": {"type": "string", "nullable": True},
                    "nullOrText": {"type": "string", "nullable": True, "default": "d"},
                    "text": {"type": "string", "default": "x"},
                    "list": {"type": "array", "default": ["a"], "items": TEXT},
                    "either": {"x-kubernetes-int-or-string": True},
                    "o": obj({"a": TEXT, "b": TEXT}, required=["a"]),
                    "open2": {"type": "object", PRESERVE: True, "properties": {"known": obj({"k": TEXT})}},
                    "anything": {PRESERVE: True},
                    "object": {"type": "object", "x-kubernetes-embedded-resource": True, PRESERVE: True},
                    "one": obj({"a": TEXT, "b": TEXT}, oneOf=[{"required": ["a"]}, {"required": ["b"]}]),
                    "any": obj({"a": TEXT, "b": TEXT}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]),
                    "all": obj(
                        {"a": NUMBER},
                        allOf=[{"properties": {"a": {"minimum": 5}}}, {"properties": {"a": {"maximum": 7}}}],
                    ),
                    "not": {"type": "string", "not": {"enum": ["bad"]}},
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                    "keyed": {
                        "type": "array",
                        "items": obj({"name": TEXT, "v": {"type": "integer", "default": 7}}, required=["name"]),
                        **_KEYED,
                    },
                    "none": {"type": "object", "additionalProperties": False},
                    **{form: {"type": "string", "format": form} for form in _FORMATS},
                }
            )
        },
        required=["spec"],
    ),
    kind="Value",
)  # fmt: skip


def _ruled(schema: JsonObject, rule: str, **more: object) -> JsonObject:
    return {**schema, RULES: [{"rule": rule, **more}]}


_SHORT: JsonObject = {"type": "string", "maxLength": 40}
_NUMBERS: JsonObject = {"type": "array", "maxItems": 5, "items": NUMBER}

JUDGED = definition(
    "judgeds",
    versions=[
        version(
            "v1",
            _ruled(
                obj(
                    {
                        "spec": _ruled(
                            obj(
                                {
                                    "min": NUMBER,
                                    "max": NUMBER,
                                    "fixed": _ruled(TEXT, "self == oldSelf", message="it is fixed"),
                                    "grows": _ruled(
                                        NUMBER,
                                        "!oldSelf.hasValue() || self >= oldSelf.value()",
                                        optionalOldSelf=True,
                                        message="it only grows",
                                    ),
                                    "word": _ruled(
                                        TEXT, "self != 'no'", reason="FieldValueForbidden", message="no is no word"
                                    ),
                                    "pair": _ruled(
                                        obj({"a": TEXT, "b": TEXT}),
                                        "self.a != self.b",
                                        fieldPath=".b",
                                        reason="FieldValueDuplicate",
                                        message="b is like a",
                                    ),
                                    "told": _ruled(
                                        NUMBER,
                                        "self < 5",
                                        messageExpression="'it was ' + (self > 8 ? 'large' : 'small')",
                                    ),
                                    "untold": _ruled(
                                        NUMBER,
                                        "self < 5",
                                        messageExpression="self > 100 ? 'x'.substring(5) : ''",
                                        message="it is five or more",
                                    ),
                                    "plain": _ruled(NUMBER, "self < 5"),
                                    "map": _ruled(
                                        {"type": "object", "maxProperties": 5, "additionalProperties": NUMBER},
                                        "self['a'] > 1",
                                    ),
                                    "divisor": _ruled(NUMBER, "10 / self > 1"),
                                    "list": _ruled(
                                        {
                                            "type": "array",
                                            "maxItems": 5,
                                            "items": _ruled(obj({"n": NUMBER}), "self.n > 0", message="positive"),
                                        },
                                        "self.size() < 4",
                                        message="few",
                                    ),
                                    "values": {
                                        "type": "object",
                                        "maxProperties": 5,
                                        "additionalProperties": _ruled(NUMBER, "self > 0", message="positive"),
                                    },
                                    "keyed": {
                                        "type": "array",
                                        "maxItems": 5,
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["n"],
                                        "items": obj(
                                            {
                                                "n": {"type": "string", "maxLength": 5},
                                                "v": _ruled(NUMBER, "self >= oldSelf", message="it only grows"),
                                            },
                                            required=["n"],
                                        ),
                                    },
                                    "either": _ruled(
                                        {"x-kubernetes-int-or-string": True},
                                        "type(self) == int ? self > 5 : self.endsWith('%')",
                                        message="more than five, or per cent",
                                    ),
                                    "null": _ruled(
                                        {"type": "string", "nullable": True}, "self != 'x'", message="anything but x"
                                    ),
                                    "duration": _ruled(
                                        {"type": "string", "format": "duration"},
                                        "self >= duration('1m')",
                                        message="a minute or more",
                                    ),
                                    "time": _ruled(
                                        {"type": "string", "format": "date-time"},
                                        "self > timestamp('2026-01-01T00:00:00Z')",
                                        message="after 2025",
                                    ),
                                    "quantity": _ruled(
                                        {"type": "string", "maxLength": 20},
                                        "isQuantity(self) && quantity(self).compareTo(quantity('1Gi')) <= 0",
                                        message="1Gi or less",
                                    ),
                                    "open": _ruled(
                                        {"type": "object", PRESERVE: True, "properties": {"k": TEXT}},
                                        "self.k == 'v'",
                                        message="k is v",
                                    ),
                                    "names": _ruled(
                                        obj({"a-b": TEXT, "in": TEXT, "a.b": TEXT, "a__b": TEXT}),
                                        "self.a__dash__b == 'b' && self.__in__ == 'i' && self.a__dot__b == 'd' && "
                                        "self.a__underscores__b == 'u'",
                                        message="names as they are written",
                                    ),
                                    "half": _ruled({"type": "number"}, "self >= 0.5", message="half or more"),
                                    "sorted": _ruled(
                                        _NUMBERS, "self.isSorted() && self.sum() < 50 && self.max() < 50",
                                        message="sorted and small",
                                    ),
                                    "address": _ruled(
                                        _SHORT,
                                        "isIP(self) && ip(self).family() == 4 && cidr('10.0.0.0/8').containsIP(self)",
                                        message="an address of ours",
                                    ),
                                    "url": _ruled(
                                        _SHORT,
                                        "isURL(self) && url(self).getScheme() == 'https' && "
                                        "url(self).getHostname() == 'example.com' && url(self).getPort() == '8080'",
                                        message="a URL of ours",
                                    ),
                                    "found": _ruled(_SHORT, "self.find('[0-9]+') == '123'", message="with 123"),
                                    "version": _ruled(
                                        _SHORT,
                                        "isSemver(self) && semver(self).isGreaterThan(semver('1.0.0'))",
                                        message="after 1.0.0",
                                    ),
                                    "texts": _ruled(
                                        _SHORT,
                                        "self.lowerAscii().split(',') == ['a', 'b'] && self.indexOf('b') == 2",
                                        message="a and b",
                                    ),
                                    "maybe": _ruled(
                                        obj({"a": TEXT}), "self.?a.orValue('x') == 'x'", message="x or nothing"
                                    ),
                                }
                            ),
                            "!has(self.min) || !has(self.max) || self.min <= self.max",
                            message="min is above max",
                        ),
                        "status": obj({"n": _ruled(NUMBER, "self >= 0", message="not negative")}),
                    }
                ),
                "self.metadata.name != 'forbidden'",
                message="not this name",
            ),
            subresources={"status": {}},
        )
    ],
    kind="Judged",
)  # fmt: skip
