"""Which keys are found, and which comes first."""

import pytest

from hermes.providers.credentials.auth_file import KeyEntry, put_entry
from hermes.providers.endpoints import Endpoint
from hermes.providers.login.tokens import StoredLogin, Tokens
from tests.unit.providers.credentials.parts import Bench, Values, shop

ANTHROPIC = Endpoint(
    id="anthropic",
    label="Anthropic",
    base_url="https://api.anthropic.com",
    key_vars=("ANTHROPIC_API_KEY", "ANTHROPIC_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
)


def by_hand(bench: Bench, provider: str, **keys: str) -> None:
    with bench.store.change() as data:
        for label, key in keys.items():
            put_entry(
                data,
                provider,
                KeyEntry(f"manual:{label}", label=label, source="manual", secret=key),
            )


def ids(bench: Bench, endpoint: Endpoint) -> list[str]:
    return [one.id for one in bench.keyring().credentials(endpoint)]


def test_variables_then_the_login_then_keys_added_by_hand(bench: Bench) -> None:
    by_hand(bench, "shop", b="key-b", a="key-a")
    StoredLogin(bench.store, "shop").save(Tokens("token", "refresh"))
    bench.variables = Values({"SHOP_OLD_KEY": "old"}, {"SHOP_KEY": "new"})
    found = bench.keyring().credentials(shop())
    assert [(one.id, one.secret, one.kind) for one in found] == [
        ("env:SHOP_KEY", "new", "api_key"),
        ("env:SHOP_OLD_KEY", "old", "api_key"),
        ("oauth", "token", "oauth"),
        ("manual:b", "key-b", "api_key"),
        ("manual:a", "key-a", "api_key"),
    ]
    assert [one.source for one in found[:3]] == [
        "SHOP_KEY in ~/.hermes/.env",
        "SHOP_OLD_KEY in the environment",
        "login in ~/.hermes/auth.json",
    ]
    assert found[3].label == "b"


def test_equal_values_are_one_key(bench: Bench) -> None:
    by_hand(bench, "shop", again="same", other="different")
    bench.variables = Values({"SHOP_KEY": "same", "SHOP_OLD_KEY": " same\n"})
    assert ids(bench, shop()) == ["env:SHOP_KEY", "manual:other"]


def test_an_empty_variable_is_not_set(bench: Bench) -> None:
    bench.variables = Values({"SHOP_KEY": "  ", "SHOP_OLD_KEY": ""})
    assert ids(bench, shop()) == []


def test_a_key_is_found_for_its_own_provider_only(bench: Bench) -> None:
    by_hand(bench, "custom:mine", a="key")
    assert ids(bench, shop()) == []
    assert ids(bench, Endpoint(id="custom:mine", label="mine")) == ["manual:a"]


def test_the_keyring_knows_what_was_saved(bench: Bench) -> None:
    bench.variables = Values({"A": "1"}, {"B": "2", "C": ""})
    keyring = bench.keyring()
    assert [keyring.variable(name) for name in "ABCD"] == ["1", "2", None, None]
    assert [keyring.is_saved(name) for name in "ABCD"] == [False, True, False, False]


CLAUDE_CODE = {"claudeAiOauth": {"accessToken": "cc", "refreshToken": "r", "expiresAt": 1}}


@pytest.mark.parametrize("named", [False, True])
def test_anthropic_prefers_what_renews_itself_to_what_the_shell_exports(bench, named):
    folder = "elsewhere" if named else ".claude"
    bench.write(f"{folder}/.credentials.json", CLAUDE_CODE)
    by_hand(bench, "anthropic", mine="sk-ant-api-hand")
    shell = {
        "ANTHROPIC_API_KEY": "sk-ant-api-shell",
        "CLAUDE_CODE_OAUTH_TOKEN": "token-2",
        "CLAUDE_CONFIG_DIR": str(bench.user_home / folder),
    }
    bench.variables = Values(shell, {"ANTHROPIC_TOKEN": "token-1"})
    found = bench.keyring().credentials(ANTHROPIC)
    assert [(one.id, one.kind) for one in found] == [
        ("env:ANTHROPIC_TOKEN", "oauth"),
        ("manual:mine", "api_key"),
        ("claude-code", "oauth"),
        ("env:CLAUDE_CODE_OAUTH_TOKEN", "oauth"),
        ("env:ANTHROPIC_API_KEY", "api_key"),
    ]


def test_a_subscription_token_is_known_by_its_look(bench: Bench) -> None:
    bench.variables = Values({"ANTHROPIC_API_KEY": "sk-ant-oat01-x"})
    by_hand(bench, "anthropic", copied="sk-ant-oat01-y")
    assert {one.kind for one in bench.keyring().credentials(ANTHROPIC)} == {"oauth"}


@pytest.mark.parametrize("content", [b"", b"[]", b'{"claudeAiOauth": 1}', b'{"claudeAiOauth": {}}'])
def test_a_file_of_another_program_that_is_not_understood_is_passed_over(bench, content):
    bench.write(".claude/.credentials.json", {}).write_bytes(content)
    assert ids(bench, ANTHROPIC) == []


def test_qwen_code_brings_its_address_along_when_it_is_the_providers(bench: Bench) -> None:
    qwen = Endpoint(
        id="qwen-oauth",
        label="Qwen",
        base_url="https://portal.qwen.ai/v1",
        key_hosts=("dashscope.aliyuncs.com",),
    )
    file = {"access_token": "q", "refresh_token": "r", "expiry_date": 5_000}
    bench.write(".qwen/oauth_creds.json", {**file, "resource_url": "dashscope.aliyuncs.com"})
    (found,) = bench.keyring().credentials(qwen)
    assert (found.id, found.expires_at) == ("qwen-code", 5.0)
    assert found.base_url == "https://dashscope.aliyuncs.com/v1"
    bench.write(".qwen/oauth_creds.json", {**file, "resource_url": "evil.example"})
    (found,) = bench.keyring().credentials(qwen)
    assert found.base_url == ""


def test_chatgpt_tokens_carry_their_account_and_are_not_api_keys(bench: Bench) -> None:
    StoredLogin(bench.store, "openai-codex").save(Tokens("t", "r", account_id="acc-1"))
    codex = Endpoint(id="openai-codex", label="Codex")
    (found,) = bench.keyring().credentials(codex)
    assert found.headers == {"ChatGPT-Account-ID": "acc-1"}
    assert ids(bench, Endpoint(id="openai", label="OpenAI", key_vars=("OPENAI_API_KEY",))) == []


def test_no_secret_shows_in_a_repr(bench: Bench) -> None:
    by_hand(bench, "shop", a="very-secret")
    tokens = Tokens("very-secret", "very-secret")
    entry = KeyEntry("manual:a", secret="very-secret")
    texts = [repr(tokens), repr(entry), repr(bench.keyring().credentials(shop()))]
    assert not any("very-secret" in text for text in texts)


def test_bedrock_is_reached_with_the_keys_of_aws(bench: Bench) -> None:
    bedrock = Endpoint(id="bedrock", label="B", auth="aws", key_vars=("AWS_BEARER_TOKEN_BEDROCK",))
    assert ids(bench, bedrock) == []
    bench.variables = Values({"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "s"}, {})
    (found,) = bench.keyring().credentials(bedrock)
    assert (found.id, found.secret) == ("env:AWS_ACCESS_KEY_ID", "AKIAEXAMPLE:s")
    bench.variables = Values({"AWS_BEARER_TOKEN_BEDROCK": "b"}, {})
    assert ids(bench, bedrock) == ["env:AWS_BEARER_TOKEN_BEDROCK"]
