"""config.yaml, .env, auth.json and the time zone."""

import pytest

from hermes.ops.doctor.setup_checks import key_problem
from tests.unit.ops.doctor.run_checks import only, run_named, texts


async def test_a_config_that_cannot_be_parsed_is_one_problem_with_its_line(home, config):
    config("model: {\n  default: [\n")
    outcome = await only(home, "config.yaml")
    assert outcome.level == "problem"
    assert "config.yaml:" in texts(outcome)


async def test_unknown_keys_and_wrong_values_are_reported_with_a_guess(home, config):
    config("terminl: {timeout: 3}\nterminal: {timeout: soon}\n")
    outcome = await only(home, "config.yaml")
    found = texts(outcome)
    assert "did you mean terminal?" in found
    assert "problem: ~/.hermes/config.yaml:2" in found


async def test_older_forms_are_rewritten_by_fix_and_the_old_file_is_kept(home, config):
    config("# mine\nmax_turns: 12\nmodel: maker/one\n")
    assert (await only(home, "config.yaml")).level == "warning"
    outcome = await only(home, "config.yaml", fix=True)
    assert outcome.level == "ok"
    assert "max_turns is now agent.max_turns" in outcome.fixed[0]
    assert "agent:" in home.config_file.read_text()
    assert "# mine" in home.config_file.read_text()
    (backup,) = home.root.glob("config.yaml.*.bak")
    assert backup.read_text().startswith("# mine\nmax_turns: 12\n")


async def test_odd_lines_of_env_are_named_and_values_never_shown(home, monkeypatch):
    home.env_file.write_text(
        "GOOD_NAME=1\n"
        "this is no assignment = x\n"
        "OPENAI_API_KEY=sk-abcdef\n"
        "TAVILY_API_KEY='tvly aaaa bbbb'\n"
        "XAI_API_KEY=xai-…abcd\n"
        "EXA_API_KEY=your-api-key\n"
        "GROQ_API_KEY=\"'gsk_0123456789012345678901234567890123456789'\"\n"
        "GOOD_NAME=2\n"
        "FIRECRAWL_API_KEY=fc-from-the-file-00000000\n"
    )
    monkeypatch.setenv("FIRECRAWL_API_KEY", "fc-from-the-shell-11111111")
    found = texts(await only(home, ".env"))
    assert "~/.hermes/.env:2: invalid line" in found
    assert "OPENAI_API_KEY has only 9 characters: it looks truncated" in found
    assert "TAVILY_API_KEY contains spaces" in found
    assert "XAI_API_KEY is a masked key" in found
    assert "EXA_API_KEY is a placeholder" in found
    assert "GROQ_API_KEY contains quotes" in found
    assert "~/.hermes/.env:8: GOOD_NAME is set twice" in found
    assert "FIRECRAWL_API_KEY has another value in the environment" in found
    for value in ("sk-abcdef", "tvly aaaa", "fc-from", "gsk_0"):
        assert value not in found


async def test_secrets_too_short_to_be_redacted_are_named(home, config):
    home.env_file.write_text("WEBHOOK_SECRET=a\nMAX_TOKENS=5\nGROQ_API_KEY=${OTHER}\n")
    config("model:\n  api_key: b\n")
    assert "WEBHOOK_SECRET has fewer than 6 characters" in texts(await only(home, ".env"))
    assert "MAX_TOKENS" not in texts(await only(home, ".env"))
    assert "model.api_key has fewer than 6 characters" in texts(await only(home, "config.yaml"))


@pytest.mark.parametrize(
    "value",
    ["sk-or-v1-" + "a1" * 32, "sk-ant-" + "b2" * 50, "plain-token-of-some-server", "abc123"],
)
def test_keys_that_look_right_raise_no_doubt(value):
    assert key_problem(value) == ""


async def test_a_damaged_auth_json_is_a_problem_and_stays_as_it_is(home):
    home.auth_file.write_text("{")
    outcome, model = await run_named(home, "auth.json", "model", fix=True)
    assert outcome.level == model.level == "problem"
    assert home.auth_file.read_text() == "{"


async def test_time_zone_is_reported(home, config):
    config("timezone: Asia/Kathmandu\n")
    assert texts(await only(home, "time zone")) == "ok: Asia/Kathmandu -> "
