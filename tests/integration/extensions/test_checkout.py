"""Extensions in the folder `plugins` of a checkout."""

import subprocess
import sys
from pathlib import Path

import hermes

PROVIDER = """
from hermes.sdk.memory import MemoryProvider

class Local(MemoryProvider):
    name = "local"
    def is_available(self): return True
    def initialize(self, session_id, **kwargs): pass
    def get_tool_schemas(self): return []

def register(ctx):
    ctx.register_memory_provider(Local())
"""
ENGINE = """
from hermes.sdk.context import ContextEngine

class Local(ContextEngine):
    name = "local"
    def __init__(self, context_length): self.context_length = context_length
    def update_from_response(self, usage): pass
    def should_compress(self, prompt_tokens=None): return False
    def compress(self, messages, current_tokens=None): return messages
"""
PROGRAM = """
import sys
from pathlib import Path
from hermes.config.home import Home
from hermes.context import find_engine, list_engines
from hermes.memory import find_provider, list_providers
home = Home(Path(sys.argv[1]))
print(type(find_provider("local", home)).__name__, find_provider("mem0", home).name)
print(find_engine("local", [], context_length=7).context_length)
for infos in (list_providers(home), list_engines([])):
    print(*(info.where.rpartition("/plugins/")[2] for info in infos if info.name == "local"))
"""


def test_providers_and_engines_of_a_checkout_are_found(tmp_path: Path) -> None:
    source = Path(hermes.__file__).parents[1]
    (tmp_path / "src").mkdir()
    for package in ("hermes", "hermes_plugins"):
        (tmp_path / "src" / package).symlink_to(source / package)
    (tmp_path / "pyproject.toml").write_text("")
    for kind, code in (("memory", PROVIDER), ("context_engine", ENGINE)):
        folder = tmp_path / "plugins" / kind / "local"
        folder.mkdir(parents=True)
        (folder / "plugin.yaml").write_text("name: local\n")
        (folder / "__init__.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, str(tmp_path / "home")],
        env={"PYTHONPATH": str(tmp_path / "src"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["Local mem0", "7", "memory/local", "context_engine/local"]
