"""What a client may send and should not: both servers say no, in the same words, and go on."""

from typing import Any

import pytest

from grove.kube.api_errors import ApiError
from grove.kube.kubeconfig import Access
from grove.kube.transport import APPLY_PATCH
from tests.conformance.definitions import definition, obj
from tests.conformance.talk import Answer, Talk, config
from tests.conformance.test_conform_rbac import allowed, as_account

HUGE = "9" * 5_000
RANGE = "value out of range"
LIMIT = 3 * 1024 * 1024


async def apply(api: Talk, body: bytes, name: str = "a") -> Answer:
    path = api.at("configmaps", name)
    return await api.send("PATCH", path, body, content_type=APPLY_PATCH, query={"fieldManager": "alice"})


def yaml_of(data: bytes) -> bytes:
    return b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  " + data


# --- numbers that are none -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["18446744073709551616", HUGE])
async def test_a_version_that_no_number_can_hold_is_refused(api: Talk, version: str) -> None:
    problem = f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": {RANGE}'
    answer = await api.get(api.at("configmaps"), resourceVersion=version)
    assert answer.refusal == (400, "BadRequest", f"invalid resource version: {problem}")


async def test_a_version_may_begin_with_zeros(api: Talk) -> None:
    assert (await api.get(api.at("configmaps"), resourceVersion="01")).status == 200


@pytest.mark.parametrize("option", ["limit", "timeoutSeconds"])
@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", HUGE])
async def test_an_option_that_no_number_can_hold_is_refused(api: Talk, option: str, number: str) -> None:
    answer = await api.get(api.at("configmaps"), **{option: number})
    assert answer.refusal == (400, "BadRequest", f'strconv.ParseInt: parsing "{number}": {RANGE}')


async def test_labels_are_compared_with_numbers_of_64_bits(api: Talk) -> None:
    await api.create("configmaps", config("a", labels={"n": "9223372036854775807"}))
    await api.create("configmaps", config("b", labels={"n": "9223372036854775808"}))
    assert (await api.get(api.at("configmaps"), labelSelector="n>5")).names == ["a"]
    answer = await api.get(api.at("configmaps"), labelSelector="n>9223372036854775808")
    words = "for 'Gt', 'Lt' operators, the value must be an integer"
    message = f'unable to parse requirement: values[0]: Invalid value: "9223372036854775808": {words}'
    assert answer.refusal == (400, "BadRequest", message)


# --- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["//api/v1/pods", "/apis//v1/pods", "/API/v1/pods"])
async def test_a_path_that_is_not_written_well_leads_nowhere(api: Talk, path: str) -> None:
    answer = await api.get(path)
    assert (answer.status, answer.raw) == (404, b"404 page not found\n")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_name_with_a_percent_sign_is_refused(api: Talk, method: str) -> None:
    answer = await api.send(method, api.at("configmaps", "a%25b"))
    assert answer.refusal == (400, "BadRequest", "Name parameter invalid: \"a%b\": may not contain '%'")


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE"])
async def test_methods_that_nobody_needs_are_not_allowed(api: Talk, method: str) -> None:
    message = "the server does not allow this method on the requested resource"
    assert (await api.send(method, api.at("configmaps"))).refusal == (405, "MethodNotAllowed", message)


# --- rights ----------------------------------------------------------------------------------------------------------

ONE: dict[str, Any] = {
    "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["mine"], "verbs": ["get", "list", "watch"]
}  # fmt: skip
TRICKS = [
    "metadata.namespace!=a\\,metadata.name=mine", "metadata.name!=mine", "metadata.name=mine\\,x", "",
    "metadata.name!=\\\\\\,metadata.name=mine", "metadata.name=other",
]  # fmt: skip


@pytest.mark.parametrize("selector", TRICKS)
async def test_who_may_see_one_object_does_not_list_the_others(api: Talk, access: Access, selector: str) -> None:
    await api.create("configmaps", config("mine"))
    await api.create("configmaps", config("other"))
    async with as_account(api, access, ONE) as robot:
        assert (await allowed(robot, robot.at("configmaps", "mine"))).status == 200
        listed = await robot.get(robot.at("configmaps"), fieldSelector="metadata.name=mine")
        assert listed.names == ["mine"]
        answer = await robot.get(robot.at("configmaps"), fieldSelector=selector)
        assert answer.refusal[:2] == (403, "Forbidden")


@pytest.mark.parametrize("wish", ["true", "1", "yes", "TRUE", ""])
async def test_who_may_list_does_not_watch(api: Talk, access: Access, wish: str) -> None:
    async with as_account(api, access, {**ONE, "resourceNames": [], "verbs": ["get", "list"]}) as robot:
        await allowed(robot, robot.at("configmaps"))
        with pytest.raises(ApiError) as refused:
            async with robot.watch(robot.at("configmaps"), watch=wish):
                pass
        assert (refused.value.code, refused.value.reason) == (403, "Forbidden")


# --- bodies ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Sending a large body")
@pytest.mark.parametrize(("method", "name"), [("POST", ""), ("PUT", "a"), ("PATCH", "a"), ("DELETE", "a")])
async def test_a_body_beyond_the_limit_is_refused(api: Talk, method: str, name: str) -> None:
    body = b'{"a":"' + b"x" * LIMIT + b'"}'
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    answer = await api.send(method, api.at("configmaps", name), body, content_type=kind)
    assert answer.refusal == (413, "RequestEntityTooLarge", f"Request entity too large: limit is {LIMIT}")


async def test_a_patch_that_copies_the_object_into_itself_again_and_again_is_refused(api: Talk) -> None:
    await api.create("controllerrevisions", {"metadata": {"name": "a"}, "revision": 1, "data": {"x": "y"}})
    operations = [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(40)]
    answer = await api.json_patch(api.at("controllerrevisions", "a"), *operations)
    message = "the server rejected our request due to an error in our request"
    assert answer.refusal == (422, "Invalid", message)


async def test_an_object_may_be_nested_as_deeply_as_anybody_likes(api: Talk) -> None:
    deep = b'{"a":' * 300 + b"1" + b"}" * 300
    body = b'{"metadata":{"name":"a"},"revision":1,"data":' + deep + b"}"
    assert (await api.send("POST", api.at("controllerrevisions"), body)).status == 201


@pytest.mark.parametrize("index", ["99999999999999999999", HUGE])
async def test_a_place_that_no_list_has_is_refused(api: Talk, index: str) -> None:
    await api.create("configmaps", config("a", finalizers=["example.com/x"]))
    operation = {"op": "replace", "path": f"/metadata/finalizers/{index}", "value": "example.com/y"}
    assert (await api.json_patch(api.at("configmaps", "a"), operation)).refusal[:2] == (422, "Invalid")
    await api.merge(api.at("configmaps", "a"), {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("value", [{}, {"value": None}])
async def test_a_field_that_a_patch_makes_null_is_gone(api: Talk, value: dict[str, Any]) -> None:
    await api.create("configmaps", config("a", {"x": "1"}))
    answer = await api.json_patch(api.at("configmaps", "a"), {"op": "replace", "path": "/data", **value})
    assert (answer.status, "data" in answer.body) == (200, False)


async def test_the_versions_of_a_definition_cannot_be_patched_away(api: Talk) -> None:
    body = definition("hollows", obj({}), kind="Hollow")
    made = await api.post(api.at("customresourcedefinitions"), body)
    assert made.status in (201, 409), made.body
    path = api.at("customresourcedefinitions", body["metadata"]["name"])
    answer = await api.json_patch(path, {"op": "replace", "path": "/spec/versions"})
    assert answer.refusal[:2] == (422, "Invalid")
    await api.delete(path)


# --- YAML ------------------------------------------------------------------------------------------------------------

BAD_YAML: list[Any] = [
    (b"a: !!int ''", "cannot decode !!null `` as a !!int"),
    (b"a: !!float ''", "cannot decode !!null `` as a !!float"),
    (b"a: !!bool x", "cannot decode !!str `x` as a !!bool"),
    (b"a: !!null x", "cannot decode !!str `x` as a !!null"),
    (b"a: !!timestamp x", "cannot decode !!str `x` as a !!timestamp"),
    (b"a: !!int 1:1:1", "cannot decode !!str `1:1:1` as a !!int"),
    (b"a: !!binary '*'", "!!binary value contains invalid base64 data"),
    (b"a: &a [*a]", "anchor 'a' value contains itself"),
    (b"a: *b", "unknown anchor 'b' referenced"),
    (b"<<: x", "map merge requires map or sequence of maps as the value"),
    (b"{<<: [1]}", "map merge requires map or sequence of maps as the value"),
]


@pytest.mark.parametrize(("data", "problem"), BAD_YAML)
async def test_yaml_that_contradicts_itself_is_refused(api: Talk, data: bytes, problem: str) -> None:
    assert (await apply(api, yaml_of(data))).refusal == (400, "BadRequest", f"error encoding patch: yaml: {problem}")


GOOD_YAML: list[Any] = [
    (b"a: !!python/object:os.system x", {"a": "x"}), (b"<<: {a: b}", {"a": "b"}),
    (b"a: !!str 1", {"a": "1"}), (b"a: 1:1:1", {"a": "1:1:1"}), (b"a: 0b", {"a": "0b"}), (b"a: 0x_", {"a": "0x_"}),
    (b"a: 1e999", {"a": "1e999"}), (b"a: 2026-13-45", {"a": "2026-13-45"}), (b"a: &b x\n  c: *b", {"a": "x", "c": "x"}),
    (b"<<: [{a: b}, {a: c, d: e}]\n  d: f", {"a": "b", "d": "f"}), (b"a: !!binary eA==", {"a": "x"}),
]  # fmt: skip


@pytest.mark.parametrize(("data", "found"), GOOD_YAML)
async def test_yaml_means_what_it_means_to_a_real_server(api: Talk, data: bytes, found: dict[str, str]) -> None:
    answer = await apply(api, yaml_of(data))
    assert (answer.status, answer.body.get("data")) == (201, found), answer.body


@pytest.mark.parametrize("link", ["k{m}: *a{n}", "<<: *a{n}"])
async def test_a_short_text_that_stands_for_an_endless_one_is_refused(api: Talk, link: str) -> None:
    levels = ["a0: &a0 {x: y}"]
    for level in range(1, 12):
        parts = ", ".join(link.format(m=m, n=level - 1) for m in range(9))
        merged = f"<<: [{', '.join([f'*a{level - 1}'] * 9)}]" if link.startswith("<<") else parts
        levels.append(f"a{level}: &a{level} {{{merged}}}")
    answer = await apply(api, "\n".join(levels).encode())
    assert answer.refusal == (400, "BadRequest", "error encoding patch: yaml: document contains excessive aliasing")


# --- patterns --------------------------------------------------------------------------------------------------------

BAD_PATTERNS: list[Any] = [
    ("(?=a)b", "invalid or unsupported Perl syntax: `(?=`"), ("(a)\\1", "invalid escape sequence: `\\1`"),
    ("a++", "invalid nested repetition operator: `++`"), ("a{1001}", "invalid repeat count: `{1001}`"),
    ("\\Z", "invalid escape sequence: `\\Z`"),
]  # fmt: skip


def patterned(plural: str, pattern: str) -> dict[str, Any]:
    return definition(plural, obj({"spec": {"type": "string", "pattern": pattern}}), kind=plural.capitalize()[:-1])


@pytest.mark.parametrize(("pattern", "problem"), BAD_PATTERNS)
async def test_a_pattern_that_only_others_know_is_refused(api: Talk, pattern: str, problem: str) -> None:
    answer = await api.post(api.at("customresourcedefinitions"), patterned("riddles", pattern))
    assert answer.refusal[:2] == (422, "Invalid")
    words = f"must be a valid regular expression, but isn't: error parsing regexp: {problem}"
    assert answer.refusal[2].endswith(words)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("^(a+)+$", "aaa", "a" * 60 + "!"), ("^(a|aa)+$", "aaa", "a" * 60 + "!"), ("^\\p{L}+$", "é", "1"),
        ("^\\Qa.b\\E$", "a.b", "axb"), ("(x+x+)+y", "xxy", "x" * 60),
    ],
)  # fmt: skip
async def test_no_pattern_takes_longer_than_its_text(api: Talk, pattern: str, good: str, bad: str) -> None:
    body = patterned("riddles", pattern)
    name = body["metadata"]["name"]
    path = f"/apis/{body['spec']['group']}/v1/namespaces/{api.namespace}/riddles"
    await api.create("customresourcedefinitions", body)
    try:
        head = {"apiVersion": f"{body['spec']['group']}/v1", "kind": "Riddle", "metadata": {"name": "a"}}
        await api.until(path, lambda answer: answer.status == 200)
        refused = await api.post(path, {**head, "spec": bad})
        assert refused.refusal[:2] == (422, "Invalid")
        assert f"spec in body should match '{pattern}'" in refused.refusal[2]
        assert (await api.post(path, {**head, "spec": good})).status == 201
    finally:
        await api.delete(api.at("customresourcedefinitions", name))
        await api.until_gone(api.at("customresourcedefinitions", name))
        # Lest the next one of that name be served by what is left of this one.
        await api.until(path, lambda answer: answer.status == 404)
