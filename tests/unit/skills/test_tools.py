from pathlib import Path

import pytest

from hermes.core.cancel import CancelToken
from hermes.core.errors import ToolError
from hermes.core.tool import Effect, Tool, ToolContext
from hermes.skills.loader import LoadOptions, SkillLoader
from hermes.skills.tools import skill_view_tool, skills_list_tool
from tests.cases import cases
from tests.unit.skills.skill_files import LINUX, put, skills_in

CASES = cases(__file__)


async def call(tool: Tool, **arguments: str) -> str:
    context = ToolContext("s", "c", CancelToken(), lambda _text: None)
    return await tool.handler(context, arguments)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    put(tmp_path, "research/arxiv", description="Search papers", tags="[papers]")
    put(tmp_path, "research/web/scraping", description="Read pages")
    put(tmp_path, "games/chess", description="Play chess " * 40)
    put(tmp_path, "apple/notes", description="Notes", platforms="[macos]")
    put(tmp_path, "loose", description="No category")
    return tmp_path


@pytest.fixture
def listing(root: Path) -> Tool:
    return skills_list_tool(skills_in(root), lambda: LINUX)


@pytest.fixture
def view(root: Path) -> Tool:
    options = LoadOptions(home=root, context=LINUX)
    return skill_view_tool(SkillLoader(skills_in(root), options, variables=lambda _name: None))


def test_the_schemas_are_short_and_named_as_documented(listing: Tool, view: Tool):
    assert (listing.name, view.name) == ("skills_list", "skill_view")
    assert set(listing.spec.parameters["properties"]) == {"category", "query"}
    assert set(view.spec.parameters["properties"]) == {"name", "file_path"}
    assert view.spec.parameters["required"] == ["name"]
    assert "required" not in listing.spec.parameters
    for tool in (listing, view):
        assert (tool.effect, tool.toolset) == (Effect.READ, "skills")
        assert len(tool.spec.description) < 80


async def test_all_visible_skills_are_listed_by_category(listing: Tool):
    lines = (await call(listing)).splitlines()
    assert lines[:3] == ["general:", "- loose: No category", "games:"]
    assert lines[3].startswith("- chess: Play chess Play") and len(lines[3]) < 140
    assert lines[4:] == [
        "research:",
        "- arxiv: Search papers",
        "research/web:",
        "- scraping: Read pages",
    ]


async def test_a_category_includes_those_below_it(listing: Tool):
    assert await call(listing, category="Research") == (
        "research:\n- arxiv: Search papers\nresearch/web:\n- scraping: Read pages"
    )
    assert await call(listing, category="general") == "general:\n- loose: No category"


async def test_a_query_finds_skills(listing: Tool):
    assert await call(listing, query="find a paper") == "- arxiv [research]: Search papers"
    assert await call(listing, query="search", category="games") == (
        "no skill fits 'search'; categories: games, general, research, research/web"
    )


async def test_skills_that_can_be_installed_are_offered(root: Path, tmp_path: Path):
    put(tmp_path / ".optional", "devops/kubernetes", description="Debug clusters")
    put(tmp_path / ".optional", "research/arxiv", description="Debug papers")
    put(tmp_path / ".optional", "apple/reminders", description="Debug", platforms="[macos]")
    optional = skills_in(tmp_path / ".optional")
    listing = skills_list_tool(skills_in(root), lambda: LINUX, optional)
    install = "not installed; the user installs it with: hermes skills install kubernetes"
    assert (
        await call(listing, query="debug") == f"- kubernetes [devops] ({install}): Debug clusters"
    )
    assert "kubernetes" not in await call(listing)
    loader = SkillLoader(
        skills_in(root), LoadOptions(home=root, context=LINUX), variables=lambda _name: None
    )
    with pytest.raises(ToolError, match="there is no skill 'Kubernetes'") as raised:
        await call(skill_view_tool(loader, optional), name="Kubernetes")
    assert raised.value.hint == f"it is {install}"


async def test_missing_category_and_empty_list_are_reported(listing: Tool, tmp_path: Path):
    assert await call(listing, category="cooking") == (
        "there is no category 'cooking'; categories: games, general, research, research/web"
    )
    assert await call(skills_list_tool(skills_in(tmp_path / "none"), lambda: LINUX)) == "no skills"


async def test_a_large_collection_is_not_listed_whole(tmp_path: Path):
    for number in range(120):
        put(tmp_path, f"c{number % 3}/s{number}")
    text = await call(skills_list_tool(skills_in(tmp_path), lambda: LINUX))
    assert text.count("\n- ") == 100
    assert text.endswith("20 more (c2): give a category or a query.")


async def test_a_skill_is_viewed(view: Tool, root: Path):
    (root / "research/arxiv/a.md").write_text("more")
    assert (await call(view, name="research/arxiv")).startswith("# Skill: arxiv\n\n")
    assert await call(view, name="arxiv", file_path="a.md") == "more"


@pytest.mark.parametrize(("arguments", "message", "hint"), CASES["failures are for the model"])
async def test_failures_are_for_the_model(view: Tool, arguments, message: str, hint: str):
    with pytest.raises(ToolError, match=message) as raised:
        await call(view, **arguments)
    assert hint in raised.value.hint
