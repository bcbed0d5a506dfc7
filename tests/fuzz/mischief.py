"""Hostile requests, each drawn from a `Random`: good ones spoilt, and ones that were never good.

What a good object is: `specimens.py`. How an answer is judged: `verdicts.py`. Nothing here knows the server.
"""

import copy
import json
from random import Random
from typing import Any

from grove.api.types.meta import JsonObject
from grove.cluster.built_in_resources import ResourceInfo
from grove.kube.transport import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Request
from tests.fuzz.specimens import (
    NAMES,
    SPACES,
    Grower,
    as_protobuf,
    collection,
    custom_collection,
    custom_object,
    definition,
    kinds,
    message_of,
    specimen,
    subresources,
)
from tests.fuzz.vocabulary import (
    ACCEPTS,
    BOMB,
    FORMATS,
    JSON,
    MERGE_BOMB,
    NASTY_NUMBERS,
    NASTY_TEXTS,
    ODD_PATHS,
    PATTERNS,
    PROTOBUF,
    QUERY_VALUES,
    REVIEWS,
    RULES,
    TYPES,
    VERBS,
    YAMLS,
)

PROGRAM = "mischief"


class Mischief:
    """Draws requests one by one; those of one seed are always the same."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._grower = Grower(random)

    def request(self) -> Request:
        draw = self._random.choices(
            (
                self._good, self._spoilt, self._grown, self._read, self._odd_path, self._json_patch, self._object_patch,
                self._apply, self._definition, self._custom, self._review, self._protobuf, self._raw, self._deletion,
                self._anything,
            ),
            weights=(8, 18, 14, 12, 5, 7, 8, 7, 4, 6, 3, 5, 5, 4, 3),
        )[0]  # fmt: skip
        return draw()

    # Writes

    def _good(self) -> Request:
        resource_info = self._served()
        name, space = self._place()
        method = self._random.choice(("POST", "POST", "PUT"))
        path = self._path(resource_info, name if method == "PUT" else "", space)
        return self._write(method, path, specimen(resource_info, name, space), is_calm=True)

    def _spoilt(self) -> Request:
        resource_info = self._served()
        name, space = self._place()
        obj = self.spoil(specimen(resource_info, name, space))
        method = self._random.choice(("POST", "POST", "PUT"))
        path = self._path(resource_info, name if method == "PUT" else "", space)
        if method == "PUT" and self._random.random() < 0.3:
            path += "/" + self._random.choice(subresources())
        return self._write(method, path, obj)

    def _grown(self) -> Request:
        resource_info = self._served()
        name, space = self._place()
        obj = self._grower.object_of(resource_info, name, space)
        if self._random.random() < 0.2:
            obj = self.spoil(obj)
        method = self._random.choice(("POST", "POST", "PUT", "PATCH"))
        path = self._path(resource_info, "" if method == "POST" else name, space)
        if method != "POST" and self._random.random() < 0.4:
            path += "/status"
        kind = JSON if method != "PATCH" else self._patch_type(resource_info)
        return self._write(method, path, obj, content_type=kind)

    def _json_patch(self) -> Request:
        resource_info = self._served()
        name, space = self._place()
        obj = specimen(resource_info, name, space)
        operations = [self._operation(obj) for _ in range(self._random.randint(0, 4))]
        if self._random.random() < 0.03:
            operations = [{"op": "copy", "from": "/metadata", "path": f"/metadata/x{n}"} for n in range(40)]
        body: Any = operations if self._random.random() < 0.9 else self.spoil(operations)
        return self._write("PATCH", self._object_path(resource_info, name, space), body, content_type=JSON_PATCH)

    def _operation(self, obj: JsonObject) -> JsonObject:
        steps = self._random.choice(_paths(obj))
        path = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)
        if self._random.random() < 0.3:
            path = self._random.choice(
                (path + "/-", path + "/0", path + "/" + "9" * 5000, path + "/-1", "", "/", "x", path + "~", "/status",
                 "/metadata/finalizers", "/metadata/ownerReferences", "/metadata/labels/x~1y", "/" + "9" * 5000)
            )  # fmt: skip
        operation: JsonObject = {
            "op": self._random.choice(("add", "remove", "replace", "move", "copy", "test", "test", "x", "")),
            "path": path,
            "value": self._nasty() if self._random.random() < 0.6 else self._grower.text(),
        }
        if operation["op"] in ("move", "copy") or self._random.random() < 0.1:
            operation["from"] = self._random.choice(("/metadata", "/spec", "", "/x", path, "/metadata/labels"))
        if self._random.random() < 0.1:
            operation.pop(self._random.choice(sorted(operation)))
        return operation

    def _object_patch(self) -> Request:
        """Merge and strategic ones: a part of an object, spoilt, with words for the patch itself."""
        resource_info = self._served()
        name, space = self._place()
        whole = self._grower.object_of if self._random.random() < 0.5 else specimen
        patch = self._part(whole(resource_info, name, space))
        if self._random.random() < 0.6:
            patch = self.spoil(patch)
        if self._random.random() < 0.4:
            self._direct(patch)
        return self._write(
            "PATCH", self._object_path(resource_info, name, space), patch, content_type=self._patch_type(resource_info)
        )

    def _direct(self, patch: Any) -> None:
        """Somewhere in it stands a directive of a strategic patch."""
        steps = self._random.choice(_paths(patch))
        found = _at(patch, steps)
        word = self._random.choice(
            (
                "$patch",
                "$retainKeys",
                "$setElementOrder/containers",
                "$deleteFromPrimitiveList/finalizers",
                "$setElementOrder/x",
            )
        )
        value = self._random.choice(
            ("delete", "replace", "merge", "x", ["a"], [{"name": "a"}], None, 1, {"a": 1}, [None], [])
        )
        if isinstance(found, dict):
            found[word] = value
        elif isinstance(found, list):
            found.append({word: value})

    def _apply(self) -> Request:
        resource_info = self._served()
        name, space = self._place()
        path = self._object_path(resource_info, name, space)
        query = {
            "fieldManager": self._random.choice(("m", "n", "kubectl")),
            **self._query("force", "dryRun", "fieldValidation"),
        }
        if self._random.random() < 0.25:
            body = self._random.choice((*YAMLS, *YAMLS, BOMB.encode(), MERGE_BOMB.encode()))
            if self._random.random() < 0.5:
                head = (
                    f"apiVersion: {resource_info.api_version}\nkind: {resource_info.kind}\nmetadata:\n  name: {name}\n"
                )
                body = head.encode() + body
        else:
            obj = self._grower.object_of(resource_info, name, space)
            if self._random.random() < 0.4:
                obj = self.spoil(obj)
            body = self._encoded(obj)
        return Request(method="PATCH", path=path, query=query, body=body, content_type=APPLY_PATCH, program=PROGRAM)

    def _definition(self) -> Request:
        name = self._random.choice(NAMES)
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{name}s.example.com"},
            **definition(name, self._schema(0) if self._random.random() < 0.8 else None),
        }
        whole = self._random.random()
        if whole < 0.4:
            version = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {
                "type": "object", "properties": {"spec": version, "status": {"type": "object"}}
            }  # fmt: skip
        elif whole < 0.6:
            body = self.spoil(body)
        root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        method = self._random.choice(("POST", "POST", "POST", "PATCH", "DELETE"))
        path = root if method == "POST" else f"{root}/{name}s.example.com"
        return self._write(method, path, body, content_type=MERGE_PATCH if method == "PATCH" else JSON)

    def _custom(self) -> Request:
        """Objects of kinds that somebody may have defined by now."""
        kind, name, space = self._random.choice(NAMES), self._random.choice(NAMES), self._random.choice(SPACES)
        obj = custom_object(name, kind)
        obj["spec"] = self._by_words(0)
        if self._random.random() < 0.3:
            obj = self.spoil(obj)
        path = custom_collection(kind, space)
        if self._random.random() < 0.05:
            return self._deep_custom(path, custom_object(name, kind))
        method = self._random.choice(("POST", "POST", "PUT", "PATCH", "GET"))
        if method != "POST":
            path += f"/{name}" + self._random.choice(("", "", "/status", "/scale"))
        types = {"PATCH": self._random.choice((MERGE_PATCH, APPLY_PATCH, JSON_PATCH))}
        query = {"fieldManager": "m", "force": "true"} if types["PATCH"] == APPLY_PATCH and method == "PATCH" else {}
        return self._write(method, path, obj, content_type=types.get(method, JSON), query=query)

    def _deep_custom(self, path: str, obj: JsonObject) -> Request:
        """Written as text: what is so deep cannot be copied or encoded any more."""
        depth = self._random.choice((100, 190, 198, 199, 200, 201, 250, 400, 450, 500, 600, 900, 2000))
        deep = b'{"a":' * depth + b"1" + b"}" * depth
        body = json.dumps({**obj, "spec": None}).encode().replace(b"null", deep)
        if self._random.random() < 0.5:
            return Request(method="POST", path=path, body=body, program=PROGRAM)
        kind = self._random.choice((MERGE_PATCH, APPLY_PATCH))
        query = {"fieldManager": "m", "force": "true"} if kind == APPLY_PATCH else {}
        path = f"{path}/{obj['metadata']['name']}"
        return Request(method="PATCH", path=path, query=query, body=body, content_type=kind, program=PROGRAM)

    def _review(self) -> Request:
        spec: Any = {
            "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default", "group": ""},
            "user": self._grower.text(), "groups": [self._grower.text()], "token": self._grower.text(),
            "namespace": "default",
            "audiences": ["x"], "expirationSeconds": 600, "nonResourceAttributes": {"path": "/x", "verb": "get"},
        }  # fmt: skip
        chosen = {key: spec[key] for key in self._random.sample(sorted(spec), self._random.randint(0, 4))}
        body = {"spec": chosen if self._random.random() < 0.5 else self.spoil(chosen)}
        return self._write("POST", self._random.choice(REVIEWS), body)

    def _protobuf(self) -> Request:
        resource_info = self._random.choice([each for each in kinds() if message_of(each)])
        name, space = self._place()
        obj = self._grower.object_of(resource_info, name, space)
        data = bytearray(as_protobuf(resource_info.api_version, resource_info.kind, obj))
        for _ in range(self._random.choice((0, 0, 1, 1, 3, 10))):
            at = self._random.randrange(len(data))
            match self._random.randrange(3):
                case 0:
                    data[at] = self._random.randrange(256)
                case 1:
                    del data[at : at + self._random.randint(1, 4)]
                case _:
                    data[at:at] = self._random.randbytes(2)
            data = data or bytearray(b"k")
        method = self._random.choice(("POST", "POST", "PUT", "DELETE", "PATCH"))
        path = self._path(resource_info, "" if method == "POST" else name, space)
        return Request(
            method=method,
            path=path,
            body=bytes(data),
            content_type=PROTOBUF,
            query=self._some_query(0.1),
            program=PROGRAM,
        )

    def _raw(self) -> Request:
        """Bodies that are no object at all."""
        resource_info = self._served()
        name, space = self._place()
        method = self._random.choice(("POST", "PUT", "PATCH", "DELETE"))
        path = self._path(resource_info, "" if method == "POST" else name, space)
        depth = self._random.choice((10, 90, 150, 300, 900, 5000))
        body = self._random.choice(
            (
                b"", b" ", b"null", b"[]", b"{}", b"0", b'""', b"{", b"}", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b"{}{}",
                b"{} x", b"NaN",
                b'{"metadata":{"name":"\\ud800"}}', b'{"metadata":{"name":"a","name":"b"}}', b"[" * depth,
                b'{"a":' * depth,
                b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth, b'{"metadata":null}',
                b'{"metadata":[]}',
                b'{"spec":' + b"[" * depth + b"]" * depth + b"}", b"// x\n{}", b"{'a':1}", b"\x1f\x8b\x08\x00",
                b"k8s\0", b'{"a":1e999}',
                b'{"a":' + b"9" * 5000 + b"}", b'{"metadata":{"name":"a","labels":{"\\u0000":"x"}}}',
                self._random.randbytes(20),
                b'{"metadata":{"name":"deep","annotations":{}},"data":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}",
            )
        )  # fmt: skip
        kind = self._random.choice(TYPES) if self._random.random() < 0.4 else JSON
        return Request(
            method=method, path=path, body=body, content_type=kind, query=self._some_query(0.2), program=PROGRAM
        )

    def _deletion(self) -> Request:
        resource_info = self._served()
        name, space = self._place()
        options: JsonObject = {
            "propagationPolicy": self._random.choice(("Foreground", "Background", "Orphan", "x", 1)),
            "gracePeriodSeconds": self._random.choice((0, 1, -1, 30, "x", 2**40, 2**63)),
            "preconditions": self._random.choice(({"uid": "x"}, {}, None, {"resourceVersion": "1"}, 1)),
            "orphanDependents": self._random.choice((True, False, "x")),
            "dryRun": self._random.choice((["All"], [], ["x"], "All")),
            "kind": self._random.choice(("DeleteOptions", "Pod", 1)),
            "apiVersion": self._random.choice(("v1", "x")),
        }
        chosen = {
            key: options[key] for key in self._random.sample(sorted(options), self._random.choice((0, 0, 1, 1, 2, 3)))
        }
        path = self._path(resource_info, name if self._random.random() < 0.85 else "", space)
        query = self._query(
            "propagationPolicy", "gracePeriodSeconds", "dryRun", "labelSelector", "fieldSelector", "limit"
        )
        return Request(
            method="DELETE", path=path, query=query, body=self._encoded(chosen) if chosen else b"", program=PROGRAM
        )

    # Reads

    def _read(self) -> Request:
        resource_info = self._served()
        name, space = self._place()
        path = self._path(resource_info, name if self._random.random() < 0.35 else "", space)
        if path.endswith(f"/{name}") and self._random.random() < 0.4:
            path += "/" + self._random.choice(subresources())
        if resource_info.namespaced and self._random.random() < 0.2:
            path = path.replace(f"/namespaces/{space}", "")
        return Request(
            method="GET", path=path, query=self._some_query(0.6), accept=self._accept(0.4),
            program=self._random.choice((PROGRAM, "")),
        )  # fmt: skip

    def _odd_path(self) -> Request:
        path = self._random.choice(ODD_PATHS)
        return Request(
            method=self._random.choice(VERBS), path=path, query=self._some_query(0.3), accept=self._accept(0.4),
            body=self._random.choice((b"", b"{}", b"x")), program=PROGRAM,
        )  # fmt: skip

    def _anything(self) -> Request:
        """Any method on any path with any type and any body."""
        resource_info = self._served()
        name, space = self._place()
        if self._random.random() < 0.5:
            name = self._random.choice(NASTY_TEXTS)
        path = self._path(resource_info, name, self._random.choice((space, *NASTY_TEXTS)))
        if self._random.random() < 0.5:
            path += "/" + self._random.choice((*subresources(), *NASTY_TEXTS[:12]))
        return Request(
            method=self._random.choice(VERBS), path=path, query=self._some_query(0.7),
            content_type=self._random.choice(TYPES),
            body=self._encoded(self._nasty()), accept=self._accept(0.3),
            program=self._random.choice(("", PROGRAM, "é")),
        )  # fmt: skip

    # What they are made of

    def _served(self) -> ResourceInfo:
        return self._random.choice(kinds())

    def _place(self) -> tuple[str, str]:
        return self._random.choice(NAMES), self._random.choice((*SPACES, *SPACES, *SPACES, "nowhere"))

    def _own_name(self, resource_info: ResourceInfo, name: str) -> str:
        return (
            f"{name}s.example.com" if resource_info.plural == "customresourcedefinitions" and len(name) == 1 else name
        )

    def _path(self, resource_info: ResourceInfo, name: str, space: str) -> str:
        root = collection(resource_info, space)
        return f"{root}/{self._own_name(resource_info, name)}" if name else root

    def _patch_type(self, resource_info: ResourceInfo) -> str:
        """Mostly one that the kind knows."""
        is_merged = resource_info.is_custom and self._random.random() < 0.9
        return MERGE_PATCH if is_merged else self._random.choice((MERGE_PATCH, STRATEGIC_PATCH))

    def _object_path(self, resource_info: ResourceInfo, name: str, space: str) -> str:
        fitting = ["", "", "", *(["/status"] * 2 * resource_info.has_status), *(["/scale"] * resource_info.has_scale)]
        return self._path(resource_info, name, space) + self._random.choice(
            (*fitting, self._random.choice(("/status", "/x")))
        )

    def _write(
        self,
        method: str,
        path: str,
        body: Any,
        *,
        content_type: str = JSON,
        query: dict[str, str] | None = None,
        is_calm: bool = False,
    ) -> Request:
        if is_calm:
            data, asked = json.dumps(body).encode(), {}
        else:
            data, asked = self._encoded(body), self._query("dryRun", "fieldManager", "fieldValidation", "force")
        asked |= query or {}
        return Request(
            method=method, path=path, query=asked, body=data, content_type=content_type,
            accept=self._accept(0.1),
            program=self._random.choice((PROGRAM, "", "é")),
        )  # fmt: skip

    def _accept(self, chance: float) -> str:
        return self._random.choice(ACCEPTS) if self._random.random() < chance else ""

    def _query(self, *names: str) -> dict[str, str]:
        """Some of these, mostly none."""
        return {name: self._random.choice(QUERY_VALUES[name]) for name in names if self._random.random() < 0.08}

    def _some_query(self, chance: float) -> dict[str, str]:
        if self._random.random() > chance:
            return {}
        names = self._random.sample(sorted(QUERY_VALUES), self._random.randint(1, 4))
        names += ["watch"] * (self._random.random() < 0.2)
        return {name: self._random.choice(QUERY_VALUES[name]) for name in names}

    def _nasty(self) -> Any:
        match self._random.randrange(6):
            case 0:
                return self._random.choice(NASTY_TEXTS)
            case 1:
                return self._random.choice(NASTY_NUMBERS)
            case 2:
                return self._random.choice((None, True, False, [], {}))
            case 3:
                return [self._nasty() for _ in range(self._random.randint(0, 2))]
            case 4:
                return {self._random.choice(NASTY_TEXTS[:30]): self._nasty() for _ in range(self._random.randint(0, 2))}
            case _:
                return self._deep(self._random.choice((5, 30, 120, 190, 210, 300)))

    def _deep(self, depth: int) -> Any:
        found: Any = 1
        is_list = self._random.random() < 0.5
        for _ in range(depth):
            found = [found] if is_list else {"a": found}
        return found

    def spoil(self, value: Any) -> Any:
        """A copy in which one to three places are not as they were."""
        spoilt = {"root": copy.deepcopy(value)}
        for _ in range(self._random.randint(1, 3)):
            self._spoil_once(spoilt)
        return spoilt["root"]

    def _spoil_once(self, spoilt: JsonObject) -> None:
        steps = self._random.choice(_paths(spoilt)[1:])
        holder, last = _at(spoilt, steps[:-1]), steps[-1]
        match self._random.randrange(7):
            case 0 if len(steps) > 1:
                del holder[last]
            case 1 if isinstance(holder[last], list) and holder[last]:
                holder[last].append(copy.deepcopy(self._random.choice(holder[last])))
            case 2 if isinstance(holder[last], dict):
                holder[last][self._random.choice((*NASTY_TEXTS, "name", "metadata", "uid"))] = self._nasty()
            case 3 if isinstance(holder, dict) and len(steps) > 1:
                holder[self._random.choice(NASTY_TEXTS)] = holder.pop(last)
            case 4:
                holder[last] = self._random.choice(([holder[last]], {"a": holder[last]}, str(holder[last])))
            case 5:
                holder[last] = self._grower.text() if self._random.random() < 0.5 else self._grower.number()
            case _:
                holder[last] = self._nasty()

    def _part(self, obj: JsonObject) -> JsonObject:
        """Some of its fields."""
        kept = self._random.sample(sorted(obj), self._random.randint(0, min(3, len(obj))))
        return {key: copy.deepcopy(obj[key]) for key in kept}

    def _encoded(self, value: Any) -> bytes:
        data = json.dumps(value, ensure_ascii=self._random.random() < 0.5).encode("utf-8", "replace")
        if self._random.random() > 0.06:
            return data
        at = self._random.randrange(len(data) + 1)
        match self._random.randrange(4):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + self._random.choice((b"\xff", b"\x00", b'"', b",", b"}", b"\\u0000")) + data[at:]
            case 2 if data[:1] == b"{":
                return b'{"metadata":{"name":"b"},"spec":null,' + data[1:]
            case _:
                return b" \n\t" + data + b"\n"

    def _schema(self, depth: int) -> JsonObject:
        """Words of a schema, as they come."""
        random = self._random
        kind = random.choice(("object", "object", "array", "string", "integer", "number", "boolean", "x", None))
        schema: JsonObject = {} if kind is None else {"type": kind}
        inner = (lambda: self._schema(depth + 1)) if depth < 3 else (lambda: {"type": "string"})
        words: dict[str, Any] = {
            "properties": lambda: {name: inner() for name in random.sample(("a", "b", "n", "metadata", ""), 2)},
            "items": inner,
            "additionalProperties": lambda: random.choice((inner(), True, False)),
            "required": lambda: [random.choice(("a", "b"))],
            "enum": lambda: [self._nasty()],
            "default": self._nasty,
            "nullable": lambda: random.random() < 0.5,
            "format": lambda: random.choice(FORMATS),
            "pattern": lambda: random.choice(PATTERNS),
            "minimum": self._number, "maximum": self._number, "multipleOf": self._number,
            "maxItems": self._number, "minLength": self._number, "maxProperties": self._number,
            "uniqueItems": lambda: True,
            "anyOf": lambda: [inner()], "oneOf": lambda: [inner()], "allOf": lambda: [inner()], "not": inner,
            "x-kubernetes-validations": lambda: [self._rule() for _ in range(random.randint(0, 2))],
            "x-kubernetes-list-type": lambda: random.choice(("map", "set", "atomic", "x")),
            "x-kubernetes-list-map-keys": lambda: [random.choice(("a", "b"))],
            "x-kubernetes-map-type": lambda: random.choice(("granular", "atomic", "x")),
            "x-kubernetes-int-or-string": lambda: True, "x-kubernetes-embedded-resource": lambda: True,
            "x-kubernetes-preserve-unknown-fields": lambda: True, "$ref": lambda: "#/x", "description": lambda: "d",
        }  # fmt: skip
        fitting = {"object": ("properties", "additionalProperties"), "array": ("items",)}.get(str(kind), ())
        for word in (*fitting, *random.sample(sorted(words), random.choice((0, 0, 1, 1, 2, 4)))):
            schema[word] = words[word]()
        return schema

    def _rule(self) -> JsonObject:
        rule: JsonObject = {"rule": self._random.choice(RULES)}
        if self._random.random() < 0.3:
            rule["messageExpression"] = self._random.choice(("'a'", "self", "string(self)", "'x' + self.a", *RULES[:5]))
        if self._random.random() < 0.2:
            rule["optionalOldSelf"] = True
        if self._random.random() < 0.2:
            rule["fieldPath"] = self._random.choice((".a", "a", ".spec.n", "['a']", ""))
        return rule

    def _number(self) -> Any:
        return self._random.choice((0, 1, 2, -1, 0.5, 1e300, 2**63, 2**70))

    def _by_words(self, depth: int) -> Any:
        """A value as the schemas here might allow it."""
        if depth > 3 or self._random.random() < 0.4:
            return self._random.choice(
                (1, 0, "a", "b", True, None, 1.5, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!", 2**63, self._nasty())
            )
        if self._random.random() < 0.3:
            return [self._by_words(depth + 1) for _ in range(self._random.randint(0, 3))]
        return {
            self._random.choice(("a", "b", "n", "metadata")): self._by_words(depth + 1)
            for _ in range(self._random.randint(0, 3))
        }


def _paths(value: Any) -> list[tuple[Any, ...]]:
    """Of every place in it, that of the whole first."""
    found: list[tuple[Any, ...]] = [()]
    position = 0
    while position < len(found) and len(found) < 400:
        steps = found[position]
        position += 1
        here = _at(value, steps)
        if isinstance(here, dict):
            found += [(*steps, key) for key in here]
        elif isinstance(here, list):
            found += [(*steps, index) for index in range(len(here))]
    return found


def _at(value: Any, steps: tuple[Any, ...]) -> Any:
    for step in steps:
        value = value[step]
    return value
