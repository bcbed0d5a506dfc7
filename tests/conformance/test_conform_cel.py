"""Rules in CEL: which are none, and what good ones have against values."""

from typing import Any

import pytest

from grove.api.types.meta import JsonObject
from tests.conformance.definitions import DEFINITIONS, RULES, defined, definition, obj, version
from tests.conformance.kinds import JUDGED, NUMBER, TEXT
from tests.conformance.tables import cases, problems_of
from tests.conformance.talk import Talk

OLD: JsonObject = {"fixed": "x", "grows": 3, "keyed": [{"n": "a", "v": 3}], "word": "yes", "told": 1}
RULE = f"spec.validation.openAPIV3Schema.properties[spec].{RULES}[0]"
# What the rules of the table speak of.
RULED = obj(
    {
        "i": NUMBER,
        "s": TEXT,
        "l": {"type": "array", "maxItems": 5, "items": {"type": "string", "maxLength": 5}},
        "o": obj({"a": TEXT}),
        "m": {"type": "object", "maxProperties": 5, "additionalProperties": NUMBER},
    }
)


# Rules


@pytest.mark.parametrize(("rule", "problems"), cases("wrong_definitions.yaml", "rules", "rule", "problems"))
async def test_a_rule_that_makes_no_sense_is_refused(api: Talk, rule: JsonObject, problems: list[str]) -> None:
    schema = obj({"spec": {**RULED, RULES: [rule]}})
    answer = await api.post(DEFINITIONS, definition("wrongs", schema), dryRun="All")
    assert [problem.replace(RULE, "~") for problem in problems_of(answer)] == problems


async def test_every_rule_that_makes_no_sense_is_named(api: Talk) -> None:
    schema = obj({"spec": {**RULED, RULES: [{"rule": "self.nope"}, {"rule": "self.i > 1"}, {"rule": "self.i + 's'"}]}})
    answer = await api.post(DEFINITIONS, definition("wrongs", schema), dryRun="All")
    assert answer.details is not None
    fields = [cause["field"].removeprefix(RULE.removesuffix("[0]")) for cause in answer.details["causes"]]
    assert fields == ["[0].rule", "[2].rule"]


async def test_of_an_item_without_a_key_there_is_no_old_value(api: Talk) -> None:
    items = {"type": "string", "maxLength": 5, RULES: [{"rule": "self == oldSelf"}]}
    schema = obj({"l": {"type": "array", "maxItems": 5, "items": items}})
    place = "spec.validation.openAPIV3Schema.properties[l]"
    (problem,) = problems_of(await api.post(DEFINITIONS, definition("wrongs", schema), dryRun="All"))
    assert problem == (
        f'{place}.items.{RULES}[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the '
        f"uncorrelatable portion of the schema within {place}"
    )


async def test_a_default_keeps_the_rules(api: Talk) -> None:
    schema = obj({"n": {"type": "integer", "default": 1, RULES: [{"rule": "self > 1", "message": "too small"}]}})
    place = "spec.validation.openAPIV3Schema.properties[n]"
    assert problems_of(await api.post(DEFINITIONS, definition("wrongs", schema), dryRun="All")) == [
        f"{place}.default: Invalid value: 1: too small"
    ]


async def test_a_rule_stands_outside_of_alternatives(api: Talk) -> None:
    schema = obj({"n": {"type": "integer", "allOf": [{RULES: [{"rule": "self > 1"}]}]}})
    place = "spec.validation.openAPIV3Schema.properties[n]"
    assert problems_of(await api.post(DEFINITIONS, definition("wrongs", schema), dryRun="All")) == [
        f"{place}.allOf[0].{RULES}: Forbidden: must be empty to be structural"
    ]


async def test_rules_see_the_name_of_an_object_and_no_more_of_its_metadata(api: Talk) -> None:
    schema = {**obj(), RULES: [{"rule": "self.metadata.labels.size() > 1"}]}
    (problem,) = problems_of(await api.post(DEFINITIONS, definition("wrongs", schema), dryRun="All"))
    assert "undefined field 'labels'" in problem


async def test_what_is_preserved_without_a_schema_is_unknown_to_rules(api: Talk) -> None:
    schema = obj({"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True,
                           RULES: [{"rule": "self.foo == 1"}]}})  # fmt: skip
    (problem,) = problems_of(await api.post(DEFINITIONS, definition("wrongs", schema), dryRun="All"))
    assert "undefined field 'foo'" in problem


async def test_a_rule_that_could_take_too_long_is_refused(api: Talk) -> None:
    lists = {"type": "array", "items": {"type": "array", "items": TEXT}}
    rule = "self.l.all(x, self.l.all(y, y.all(z, x.all(w, w == z))))"
    schema = obj({"spec": obj({"l": lists}, **{RULES: [{"rule": rule}]})})
    answer = await api.post(DEFINITIONS, definition("wrongs", schema), dryRun="All")
    assert answer.status == 422


GOOD_RULES = [
    "self.m.all(k, self.m[k] > 0)",
    "self.l.exists_one(x, x == 'a') || self.l.filter(x, x != 'b').map(x, x + 'c').size() > 1",
    "self.?o.?a.orValue('x') == 'x' && self.l[?0].hasValue()",
    "self.l.indexOf('a') >= 0 && self.l.lastIndexOf('a') >= 0 && self.s.indexOf('a') >= 0",
    "self.s.findAll('a').size() == 1 && self.s.replace('a', 'b') == 'b' && self.s.substring(1).trim() == ''",
    "quantity('1Gi').isGreaterThan(quantity('1Mi')) && quantity('1k').add(quantity('1')).asInteger() == 1001",
    "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').prefixLength() == 8",
    "url('https://a.example/b').getHost() == 'a.example'",
    "sets.contains([1, 2], [1]) && sets.intersects([1], [1]) && sets.equivalent([1], [1, 1])",
    "[1, 2].reverse() == [2, 1] && [[1], [2]].flatten() == [1, 2] && [2, 1].sort() == [1, 2]",
    "self.l.all(i, v, i < v.size()) && self.l.transformList(i, v, i + 1).size() == 1",
    "[3, 1].sortBy(x, x) == [1, 3] && lists.range(3) == [0, 1, 2] && [1, 1].distinct().slice(0, 1) == [1]",
    "'%s is %d'.format([self.s, self.i]) == ''",
    "duration('1h').getSeconds() == 3600 && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026",
    "type(self.i) == int && string(self.i) == '1' && double(self.i) == 1.0 && dyn(self.i) == 1",
]


@pytest.mark.parametrize("rule", GOOD_RULES, ids=range(len(GOOD_RULES)))
async def test_what_the_language_has_is_understood(api: Talk, rule: str) -> None:
    bounded = {**RULED["properties"], "s": {"type": "string", "maxLength": 10}}
    schema = obj({"spec": obj(bounded, **{RULES: [{"rule": rule}]})})
    answer = await api.post(DEFINITIONS, definition("goods", schema), dryRun="All")
    assert answer.status == 201, answer.body


EVALUATED = [
    "quantity('1Gi').isGreaterThan(quantity('1Mi')) && quantity('1k').isLessThan(quantity('1Ki'))",
    "quantity('500m').add(quantity('0.5')) == quantity('1') && quantity('2').sub(1) == quantity('1')",
    "quantity('1.5').isInteger() == false && quantity('2k').asInteger() == 2000 && sign(quantity('-1')) == -1",
    "quantity('1500m').asApproximateFloat() == 1.5 && !isQuantity('1.5x') && isQuantity('1e3')",
    "ip('::1').family() == 6 && ip('127.0.0.1').isLoopback() && ip('0.0.0.0').isUnspecified()",
    "ip('10.0.0.1') == ip('10.0.0.1') && !isIP('10.0.0.256') && ip.isCanonical('127.0.0.1')",
    "cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) && !cidr('10.0.0.0/8').containsIP('11.0.0.1')",
    "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
    "cidr('192.168.1.0/24').ip() == ip('192.168.1.0') && !isCIDR('10.0.0.0')",
    "url('https://u:p@example.com:80/a%20b?x=1&y=2&x=3').getHost() == 'example.com:80'",
    "url('https://example.com:80/a%20b').getEscapedPath() == '/a%20b' && url('/a').getScheme() == ''",
    "url('https://example.com/?x=1&y=a%20b&x=3').getQuery() == {'x': ['1', '3'], 'y': ['a b']}",
    "url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80' && !isURL('a b')",
    "semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3",
    "semver('1.0.0-alpha').isLessThan(semver('1.0.0')) && semver('1.10.0').compareTo(semver('1.9.0')) == 1",
    "semver('v1.0', true) == semver('1.0.0') && !isSemver('v1.0') && !isSemver('1.0')",
    "'abc 123 def 456'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''",
    "'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '123 abc 456'.findAll('[0-9]+', 1) == ['123']",
    "[1, 2, 2].isSorted() && ![2, 1].isSorted() && [1.0, 2.0].sum() == 3.0 && [].sum() == 0",
    "[1, 3, 2].max() == 3 && [3, 1].min() == 1 && [1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2",
    "[5].indexOf(7) == -1 && [duration('1s'), duration('2s')].sum() == duration('3s')",
    "sets.contains([1, 2], [1]) && !sets.intersects([1], [2]) && sets.equivalent([1, 2], [2, 1, 1])",
    "[[1], [2, 3]].flatten() == [1, 2, 3] && [1, 2, 3].slice(1, 3) == [2, 3] && [2, 1].sort() == [1, 2]",
    "'Hello'.lowerAscii() == 'hello' && 'a,b'.split(',') == ['a', 'b']",
    "'hello'.charAt(1) == 'e' && 'hello'.replace('l', 'L') == 'heLLo' && 'hello'.replace('l', 'L', 1) == 'heLlo'",
    "'tacocat'.substring(4) == 'cat' && 'tacocat'.lastIndexOf('a') == 5 && '  x '.trim() == 'x'",
    "'%s has %d of %s'.format(['a', 3, [1, 2]]) == 'a has 3 of [1, 2]' && '%.2f'.format([3.14159]) == '3.14'",
    (
        "[1, 2, 3].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2].exists_one(x, x > 1) && "
        "[1, 2].map(x, x * 2) == [2, 4]"
    ),
    "[1, 2, 3].filter(x, x > 1) == [2, 3] && {'a': 1}.all(k, k == 'a') && [1, 2].map(x, x > 1, x) == [2]",
    "[4, 5].all(i, v, v == i + 4) && [7, 8].transformList(i, v, v + i) == [7, 9]",
    "optional.of(1).hasValue() && !optional.none().hasValue() && {'a': 1}[?'b'].orValue(2) == 2",
    "type(1) == int && type('a') == string && int('5') == 5 && string(5) == '5' && double('1.5') == 1.5",
    "1 in [1, 2] && 'a' in {'a': 1} && !(3 in [1, 2]) && 7 / 2 == 3 && 7 % 2 == 1 && -7 / 2 == -3",
    "timestamp('2026-01-01T00:00:00Z') + duration('24h') == timestamp('2026-01-02T00:00:00Z')",
    "timestamp('2026-03-04T05:06:07Z').getMonth() == 2 && duration('90m').getHours() == 1",
    "'a' < 'b' && b'a' == bytes('a') && 1u + 2u == 3u && 'ab'.matches('^a.$') && size('äö') == 2",
    "false || (true && !false) && (1 > 2 ? 'x' : 'y') == 'y' && 1.0 == 1.0 && dyn(1) == 1.0",
]


@pytest.mark.parametrize("rule", EVALUATED, ids=range(len(EVALUATED)))
async def test_the_functions_of_the_language_have_their_results(api: Talk, rule: str) -> None:
    """A default that breaks a rule is refused, so a rule that is true of it is not."""
    schema = obj({"s": {"type": "string", "default": "x", RULES: [{"rule": rule}]}})
    answer = await api.post(DEFINITIONS, definition("goods", schema), dryRun="All")
    assert answer.status == 201, answer.body
    schema = obj({"s": {"type": "string", "default": "x", RULES: [{"rule": f"!({rule})", "message": "it holds"}]}})
    answer = await api.post(DEFINITIONS, definition("goods", schema), dryRun="All")
    assert problems_of(answer) == [
        'spec.validation.openAPIV3Schema.properties[s].default: Invalid value: "x": it holds'
    ]


async def test_named_formats_can_be_asked_for(api: Talk) -> None:
    rule = "!format.dns1123Label().validate(self).hasValue()"
    schema = obj({"s": {"type": "string", "maxLength": 5, RULES: [{"rule": rule}]}})
    answer = await api.post(DEFINITIONS, definition("goods", schema), dryRun="All")
    assert answer.status == 201, answer.body


async def test_maps_can_be_made_of_maps(api: Talk) -> None:
    rule = "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}"
    answer = await api.post(DEFINITIONS, definition("goods", {**obj(), RULES: [{"rule": rule}]}), dryRun="All")
    assert answer.status == 201, answer.body


# Values


@pytest.mark.parametrize(("spec", "problems"), cases("judged_values.yaml", "refused", "spec", "problems"))
async def test_a_value_that_breaks_a_rule_is_refused(api: Talk, spec: Any, problems: list[str]) -> None:
    kind = await defined(api, JUDGED)
    assert problems_of(await kind.tried(spec)) == problems


@pytest.mark.parametrize("spec", cases("judged_values.yaml", "kept", "spec"))
async def test_a_value_that_keeps_the_rules_is_kept(api: Talk, spec: Any) -> None:
    kind = await defined(api, JUDGED)
    answer = await kind.tried(spec)
    assert answer.status == 201, answer.body


@pytest.mark.parametrize(("spec", "problems"), cases("judged_values.yaml", "changes refused", "spec", "problems"))
async def test_a_change_that_breaks_a_rule_is_refused(api: Talk, spec: Any, problems: list[str]) -> None:
    kind = await defined(api, JUDGED)
    await kind.created(OLD)
    assert problems_of(await api.merge(kind.at("a"), {"spec": spec})) == problems


@pytest.mark.parametrize("spec", cases("judged_values.yaml", "changes kept", "spec"))
async def test_a_change_that_keeps_the_rules_is_made(api: Talk, spec: Any) -> None:
    kind = await defined(api, JUDGED)
    await kind.created(OLD)
    answer = await api.merge(kind.at("a"), {"spec": spec})
    assert answer.status == 200, answer.body


async def test_rules_of_the_whole_are_about_its_name_too(api: Talk) -> None:
    kind = await defined(api, JUDGED)
    assert problems_of(await kind.tried({}, name="forbidden")) == ["<nil>: Invalid value: not this name"]


async def test_rules_of_a_status_hold_when_it_is_written(api: Talk) -> None:
    kind = await defined(api, JUDGED)
    await kind.created(OLD)
    refused = await api.merge(kind.at("a", "status"), {"status": {"n": -1}})
    assert problems_of(refused) == ["status.n: Invalid value: -1: not negative"]
    assert (await api.merge(kind.at("a", "status"), {"status": {"n": 0}})).status == 200


async def test_sets_are_equal_in_any_order(api: Talk) -> None:
    schema: JsonObject = {"type": "array", "maxItems": 3, "x-kubernetes-list-type": "set",
                          "items": {"type": "string", "maxLength": 3}}  # fmt: skip
    rule = {"rule": "self == ['a', 'b']"}
    kind = await defined(api, definition("pairs", obj({"spec": {**schema, RULES: [rule]}})))
    assert (await kind.tried(["a", "b"])).status == 201
    assert (await kind.tried(["b", "a"])).status == 201


async def test_a_rule_that_was_broken_before_warns_until_something_changes(api: Talk) -> None:
    plural = f"late{api.namespace.replace('-', '')}s"
    inner = obj({"x": TEXT, "y": TEXT})
    kind = await defined(api, definition(plural, obj({"spec": inner})))
    await kind.created({"x": "bad"})
    ruled = {**inner, RULES: [{"rule": "self.x != 'bad'", "message": "x is bad"}]}
    await kind.change_definition(versions=[version("v1", obj({"spec": ruled}))])
    await kind.until_refused({"x": "bad"})
    answer = await api.merge(kind.at("a"), {"metadata": {"labels": {"a": "b"}}})
    assert (answer.status, answer.warnings) == (200, ['299 - "spec: Invalid value: x is bad"'])
    refused = await api.merge(kind.at("a"), {"spec": {"y": "z"}})
    assert problems_of(refused) == ["spec: Invalid value: x is bad"]
    assert (await api.merge(kind.at("a"), {"spec": {"x": "good"}})).status == 200
