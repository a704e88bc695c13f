"""Uses what docs/reference/python.md promises, one part per promise, by documented names only.

    HERMES_HOME=$(mktemp -d) hermes run examples/documented_names.py

It needs no model: a small server on this machine answers. It prints a line for each part, and ends
with exit code 1 if one failed. It writes settings, so the home must be empty.
"""

import contextlib
import io
import json
import os
import sys
import tempfile
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from hermes_constants import get_hermes_home

REQUESTS = []  # the bodies that the model received
REPLIES = []  # scripted messages; without one the model says "done"


class Model(BaseHTTPRequestHandler):
    """An endpoint with the API of OpenAI. Everything else is not found."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if not self.path.endswith("/chat/completions"):
            self.send_error(404)
            return
        REQUESTS.append(json.loads(body))
        message = REPLIES.pop(0) if REPLIES else {"content": "done"}
        if message == "unavailable":
            self.send_error(401)
            return
        calls = [{"index": n, **call} for n, call in enumerate(message.get("tool_calls", ()))]
        delta = {
            "role": "assistant",
            "content": message.get("content"),
            "tool_calls": calls or None,
        }
        finish = "tool_calls" if calls else "stop"
        usage = {"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55}
        chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *args):
        pass


def configure(text=""):
    (HOME / "config.yaml").write_text(f"sessions:\n  auto_title: false\n{text}")


def agent(**options):
    from run_agent import AIAgent

    given = {"base_url": f"{URL}/v1", "api_key": "key", "model": "lab", "quiet_mode": True}
    return AIAgent(**{**given, **options})


def call(name, **args):
    from model_tools import handle_function_call

    return json.loads(handle_function_call(name, args, "demo"))


def gateway_settings_and_variables():
    from gateway.config import load_gateway_config
    from hermes_cli.config import OPTIONAL_ENV_VARS

    assert load_gateway_config().get_connected_platforms() == []
    assert OPTIONAL_ENV_VARS["TELEGRAM_BOT_TOKEN"]["password"] is True


def tools_of_a_folder():
    from tools.registry import discover_builtin_tools

    Path("mine.py").write_text(
        "from tools.registry import registry\n"
        "registry.register('mine', 'mine', {}, lambda args, **more: '{}')\n"
    )
    assert "terminal" in discover_builtin_tools()
    assert "mine" in discover_builtin_tools(tools_dir=".")


def environments():
    from tools.environments import cleanup_all_environments
    from tools.environments.local import LocalEnvironment

    assert LocalEnvironment().execute("echo hi") == {"output": "hi\n", "returncode": 0}
    assert cleanup_all_environments() >= 1
    assert cleanup_all_environments() == 0


def arguments_of_the_agent():
    Path("AGENTS.md").write_text("Use tabs everywhere.")
    prefill = [{"role": "user", "content": "earlier"}, {"role": "assistant", "content": "noted"}]
    with agent(
        ephemeral_system_prompt="Be terse.",
        prefill_messages=prefill,
        skip_context_files=True,
        save_trajectories=True,
    ) as one:
        assert one.chat("hello") == "done"
    sent = json.dumps(REQUESTS[-1])
    assert "Be terse." in sent and "noted" in sent and "Use tabs" not in sent
    assert list(HOME.rglob("*traject*")) or list(Path().glob("*traject*"))
    loop = {
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "todo", "arguments": "{}"}}
        ]
    }
    REPLIES.append(loop)
    with agent(max_iterations=1) as one:
        assert not one.run_conversation("work")["completed"]
    other = {"provider": "custom", "model": "spare", "base_url": f"{URL}/v1", "api_key": "key"}
    for fallback in (other, [other]):
        REPLIES.append("unavailable")
        with agent(fallback_model=fallback) as one:
            assert one.run_conversation("hello")["final_response"] == "done"
        assert REQUESTS[-1]["model"] == "spare"


def credential_pool_of_the_agent():
    from agent.credential_pool import load_pool

    pool = load_pool("openrouter")
    assert not pool.has_credentials()
    with agent(base_url=None, api_key=None, credential_pool=pool) as one:
        assert one.provider == "openrouter"


def compressor():
    from agent.context_compressor import ContextCompressor

    engine = ContextCompressor(200_000)
    assert (engine.tail_token_budget, engine.max_summary_tokens) == (20_000, 10_000)
    assert (engine.protect_first_n, engine.protect_last_n) == (3, 20)
    engine.update_from_response({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7})
    status = engine.get_status()
    assert (status["last_completion_tokens"], status["last_total_tokens"]) == (2, 7)


def plain_settings():
    from hermes_cli.config import DEFAULT_CONFIG, load_config

    configure("discord:\n  channel_prompts:\n    123: Be brief.\n")
    assert load_config()["discord"]["channel_prompts"] == {"123": "Be brief."}
    assert isinstance(DEFAULT_CONFIG["toolsets"], list)
    assert load_config() == json.loads(json.dumps(load_config()))
    configure()


def replay_format():
    from hermes_state import SessionDB

    db = SessionDB("state.db")
    db.create_session("s", "cli")
    db.append_message("s", "assistant", "one")
    db.append_message("s", "assistant", "two", finish_reason="length")
    first, second = db.get_messages_as_conversation("s")
    assert "finish_reason" not in first and second["finish_reason"] == "length"
    db.close()


def shared_check_runs_once():
    from model_tools import get_tool_definitions
    from tools.registry import registry

    runs = []

    def check():
        runs.append(1)
        return True

    for name in ("alpha", "beta"):
        registry.register(name, "greek", {}, lambda args, **more: "{}", check_fn=check)
    get_tool_definitions(["greek"], quiet_mode=True)
    assert len(runs) == 1


def soul_has_no_heading():
    from agent.prompt_builder import build_context_files_prompt

    (HOME / "SOUL.md").write_text("You are Pan.")
    folder = tempfile.mkdtemp()
    assert build_context_files_prompt(folder) == "You are Pan."
    (HOME / "SOUL.md").unlink()


def results_have_the_documented_keys():
    assert call("terminal", command="exit 3") == {"output": "", "exit_code": 3, "error": None}
    assert call("write_file", path="a.txt", content="one\n")["success"]
    assert call("read_file", path="a.txt")["content"] == "1|one"
    assert call("read_file", path="a.txt")["total_lines"] == 1
    assert call("patch", path="a.txt", old_string="one", new_string="two")["success"]
    found = call("search_files", pattern="two")
    assert found["matches"][0]["line"] == 1 and found["total_count"] == 1
    assert call("search_files", pattern="a.txt", target="files")["files"] == ["a.txt"]
    code = "from hermes_tools import terminal\nprint(terminal('echo hi')['output'])"
    assert call("execute_code", code=code)["output"] == "hi"


def descriptions_of_dangers():
    from tools.approval import detect_dangerous_command

    assert detect_dangerous_command("rm -rf build")[2] == "recursive delete"
    for text in ("DROP TABLE users", "echo 'drop table users' | psql", "mysql -e 'DELETE FROM a'"):
        assert detect_dangerous_command(text)[0], text
    started = call("terminal", command="cat", background=True)
    sent = call(
        "process", action="submit", session_id=started["session_id"], data="TRUNCATE users;"
    )
    assert "appro" in sent["error"], sent
    call("process", action="kill", session_id=started["session_id"])


def vanished_variable():
    from agent.credential_pool import load_pool

    entry = {"id": "env:GONE_KEY", "source": "env:GONE_KEY", "uses": 1}
    (HOME / "auth.json").write_text(
        json.dumps({"version": 1, "credential_pool": {"openrouter": [entry]}})
    )
    assert not load_pool("openrouter").has_credentials()
    assert "GONE_KEY" not in (HOME / "auth.json").read_text()


def plugin_folders():
    """Engines in `plugins/context_engine` of the home; those of the repository are found alike."""
    place = HOME / "plugins" / "context_engine" / "quiet"
    place.mkdir(parents=True)
    (place / "plugin.yaml").write_text("name: quiet\nversion: '1'\ndescription: a test\n")
    (place / "__init__.py").write_text(
        "from agent.context_engine import ContextEngine\n"
        "class Quiet(ContextEngine):\n"
        "    name = 'quiet'\n"
        "    def update_from_response(self, usage): pass\n"
        "    def should_compress(self, prompt_tokens=None): return False\n"
        "    def compress(self, messages, current_tokens=None): return messages\n"
        "    def get_tool_schemas(self):\n"
        "        return [{'name': 'quiet_look', 'description': 'x', 'parameters': {}}]\n"
    )
    configure("context:\n  engine: quiet\n")
    with agent() as one:
        one.chat("hello")
    assert "quiet_look" in offered_tools()


def offered_tools():
    return [tool["function"]["name"] for tool in REQUESTS[-1].get("tools", ())]


def unknown_engine():
    configure("context:\n  engine: nothing-like-it\n")
    shown = io.StringIO()
    with contextlib.redirect_stderr(shown), agent() as one:
        assert one.chat("hello") == "done"
    assert "no context engine 'nothing-like-it'" in shown.getvalue()


def names_of_memory_tools():
    for provider, tool in (("honcho", "honcho_profile"), ("openviking", "viking_search")):
        variables = f"HONCHO_BASE_URL={URL}\nHONCHO_API_KEY=key\nOPENVIKING_URL={URL}\n"
        (HOME / ".env").write_text(variables)
        configure(f"memory:\n  provider: {provider}\n")
        with contextlib.redirect_stderr(io.StringIO()), agent() as one:
            one.chat("hello")
        assert tool in offered_tools(), offered_tools()


PARTS = (
    gateway_settings_and_variables, tools_of_a_folder, environments, arguments_of_the_agent,
    credential_pool_of_the_agent, compressor, plain_settings, replay_format,
    shared_check_runs_once, soul_has_no_heading, results_have_the_documented_keys,
    descriptions_of_dangers, vanished_variable, plugin_folders, unknown_engine,
    names_of_memory_tools,
)  # fmt: skip


def main():
    failed = 0
    for part in PARTS:
        title = part.__name__.replace("_", " ")
        try:
            configure()
            part()
        except Exception:  # noqa: BLE001 - whatever fails is reported
            failed += 1
            print(f"FAILED  {title}")
            traceback.print_exc()
        else:
            print(f"ok      {title}")
    return 1 if failed else 0


if __name__ == "__main__":
    HOME = Path(get_hermes_home())
    if (HOME / "config.yaml").exists():
        sys.exit("this script writes settings: set HERMES_HOME to an empty folder")
    HOME.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    URL = f"http://127.0.0.1:{server.server_port}"
    os.chdir(tempfile.mkdtemp())
    sys.exit(main())
