"""YAML that would take too long, or crash the parser, is refused at once."""

import time

import pytest
import yaml

from hermes.util.yaml_loader import MAX_CHARS, YamlTooComplex, load_yaml

LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
BOMBS = {
    "aliases of lists": LAUGHS,
    "aliases of mappings": "a0: &a0 {k: 1}\n"
    + "".join(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}, z: *a{n - 1}}}\n" for n in range(1, 40)),
    "merged mappings": "a0: &a0 {k0: 1}\n"
    + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}\n" for n in range(1, 40)),
    "long text": f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]\n",
    "contains itself": "a: &a [1, *a]\n",
    "redefined anchors": "".join(
        f"a{n}: &a [{', '.join(['*a'] * 9)}]\n" for n in range(40)
    ).replace("*a", "x", 9),
    "deep brackets": "[" * 300_000,
    "deep mappings": "a: " + "{a: " * 5000,
    "deep dashes": "- " * 5000 + "x",
    "deep indentation": "".join(" " * n + "a:\n" for n in range(500)),
    "large": "a: b\n" * (MAX_CHARS // 4),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_bomb_is_refused_at_once(kind):
    began = time.perf_counter()
    with pytest.raises(YamlTooComplex) as refused:
        load_yaml(BOMBS[kind])
    assert time.perf_counter() - began < 1
    assert refused.value.problem


def test_ordinary_aliases_are_read():
    text = "base: &base {a: 1, b: [x, y]}\none: {<<: *base, c: 2}\ntwo: [*base, *base]\n"
    assert load_yaml(text) == {
        "base": {"a": 1, "b": ["x", "y"]},
        "one": {"a": 1, "b": ["x", "y"], "c": 2},
        "two": [{"a": 1, "b": ["x", "y"]}] * 2,
    }
    assert load_yaml("- 'a & b * c'\n- x\n") == ["a & b * c", "x"]


def test_an_unknown_alias_is_an_error_of_the_file():
    with pytest.raises(yaml.YAMLError, match="undefined alias"):
        load_yaml("a: *nowhere\nb: &b 1\n")
