"""What is found in a real SQLite database."""

import pytest

from hermes.store.search import CANDIDATES
from tests.unit.store.search.library import NOW

TEXTS = {
    "deploy": "We deploy the blue server on Friday",
    "deployed": "They deployed the red server yesterday",
    "hyphen": "use chat-send, then my_app.config.ts",
    "spread": "chat first and send later",
    "accent": "das Café in Köln",
    "decomposed": "ein Cafe\u0301 in Rom",
    "emoji": "🎉 party🎉time 🎉",
    "quotes": 'he said "stop" AND left',
    "hindi": "मुझे हिन्दी आती है",
    "chinese": "我们昨天讨论了服务器部署的问题",
    "latin inside": "我用Python写代码",
    "latin beside": "Python 我用Rust写代码, go on",
    "japanese": "サーバーのエラーを調べてください",
    "halfwidth": "ｻｰﾊﾞｰのエラー",
    "korean": "서버를 다시 시작했습니다",
    "thai": "เราต้องรีสตาร์ทเซิร์ฟเวอร์คืนนี้",
    "khmer": "ខ្ញុំចង់ស្វែងរកសារ",
    "burmese": "ဆာဗာကိုပြန်စပါ",
    "rare": "𠮷野家に行く",
}
FOUND = {
    "SERVER": {"deploy", "deployed"},
    "server friday": {"deploy"},
    "deploy": {"deploy"},
    "deploy*": {"deploy", "deployed"},
    '"blue server"': {"deploy"},
    '"server blue"': set(),
    '"blue serv"*': {"deploy"},
    "Friday OR yesterday": {"deploy", "deployed"},
    "server NOT blue": {"deployed"},
    "chat-send": {"hyphen"},
    "chat.send": {"hyphen"},
    "my_app.config.ts": {"hyphen"},
    "my-app": {"hyphen"},
    "chat send": {"hyphen", "spread"},
    "cafe": {"accent", "decomposed"},
    "café": {"accent", "decomposed"},
    "cafe\u0301": {"accent", "decomposed"},
    "koln": {"accent"},
    "party": {"emoji"},
    "party time": {"emoji"},
    '"AND left"': {"quotes"},
    "stop": {"quotes"},
    "हिन्दी": {"hindi"},
    "服务器": {"chinese"},
    "服务器部署的问题": {"chinese"},
    "部署": {"chinese"},
    "问题": {"chinese"},
    "题": {"chinese"},
    "我": {"chinese", "latin inside", "latin beside"},
    "代码 我用": {"latin inside", "latin beside"},
    "部署 昨天 讨论了": {"chinese"},
    "python": {"latin inside", "latin beside"},
    "Python写": {"latin inside"},
    "用p": {"latin inside"},
    "python rust": {"latin beside"},
    "rust go": {"latin beside"},
    "python go 代码": {"latin beside"},
    "python NOT rust": {"latin inside"},
    "我 NOT python": {"chinese"},
    "我 NOT 部署": {"latin inside", "latin beside"},
    "python NOT 写": set(),
    "代码 NOT go": {"latin inside"},
    "server OR 部署": {"deploy", "deployed", "chinese"},
    "server friday OR python rust OR エラー": {"deploy", "latin beside", "japanese", "halfwidth"},
    "サーバー": {"japanese"},
    "ｻｰﾊﾞｰ": {"halfwidth"},
    "サー": {"japanese"},
    "서버": {"korean"},
    "시작": {"korean"},
    "시작했습니다": {"korean"},
    "เซิร์ฟเวอร์": {"thai"},
    "ที": set(),
    "นี้": {"thai"},
    "ស្វែងរក": {"khmer"},
    "ပြန်စ": {"burmese"},
    "𠮷": {"rare"},
    "𠮷野家": {"rare"},
    "nothing": set(),
    "无": set(),
}


@pytest.fixture
def shelf(library):
    for text in TEXTS.values():
        library.say(text)
    return library


@pytest.mark.parametrize("query", FOUND)
def test_what_a_query_finds(shelf, query):
    assert shelf.texts(query) == {TEXTS[name] for name in FOUND[query]}


@pytest.mark.parametrize("query", ["server", "server OR deploy*", 'friday OR "red server" OR blue'])
def test_a_query_of_plain_words_is_one_walk_of_each_index(shelf, query):
    shelf.statements.clear()
    shelf.ids(query)
    words, trigrams = sorted(shelf.statements)
    assert "messages_fts MATCH" in words
    assert "messages_trigram MATCH" in trigrams
    assert " IN (" not in words + trigrams


def test_the_index_is_walked_and_nothing_is_sorted(shelf):
    for query in ("server", "server friday", "服务器", "server NOT blue"):
        shelf.statements.clear()
        shelf.ids(query, roles=("user",), sessions=("s",), sources=("cli",))
        for statement in shelf.statements:
            plan = shelf.connection.execute(
                f"EXPLAIN QUERY PLAN {statement}", ("x",) * statement.count("?")
            )
            steps = [row[3] for row in plan]
            assert steps[0].startswith("SCAN i VIRTUAL TABLE"), steps
            assert not any("TEMP B-TREE" in step for step in steps), steps


def test_filters(library):
    library.session("t", source="telegram")
    library.session("c", source="cron")
    ids = {
        name: library.say("needle 服务器", **facts)
        for name, facts in {
            "user": {"at": 10.0},
            "tool": {"role": "tool", "at": 20.0},
            "telegram": {"session": "t", "at": 30.0},
            "cron": {"session": "c", "at": 40.0},
        }.items()
    }
    for filters, names in (
        ({}, {"user", "tool", "telegram", "cron"}),
        ({"sources": ("cli",)}, {"user", "tool"}),
        ({"sources": ("cli", "cron")}, {"user", "tool", "cron"}),
        ({"exclude_sources": ("cli",)}, {"telegram", "cron"}),
        ({"roles": ("tool",)}, {"tool"}),
        ({"sessions": ("t",)}, {"telegram"}),
        ({"sessions": ("s", "c")}, {"user", "tool", "cron"}),
        ({"sessions": ("none",)}, set()),
        ({"sessions": tuple(map(str, range(50_000)))}, set()),
        ({"since": 20.0}, {"tool", "telegram", "cron"}),
        ({"until": 20.0}, {"user", "tool"}),
        ({"since": 15.0, "until": 35.0, "roles": ("user",)}, {"telegram"}),
        ({"sources": ("q\"'",)}, set()),
    ):
        for query in ("needle", "服务器", "服", "needle 服务器", "needle NOT other"):
            assert library.ids(query, **filters) == {ids[name] for name in names}, (query, filters)


def test_filters_apply_before_the_newest_are_taken(library):
    wanted = library.say("needle 服务器", role="assistant")
    for _ in range(1100):
        library.say("needle 服务器", role="tool")
    for query in ("needle", "服务器", "服务"):
        assert library.ids(query, roles=("assistant",)) == {wanted}


@pytest.mark.parametrize("query", ["needle", "服务器", "服务", "needle OR 服务器"])
def test_the_newest_are_candidates_and_a_later_page_gets_more(library, query):
    ids = [library.say("needle 服务器") for _ in range(1100)]
    assert library.ids(query) == set(ids[-CANDIDATES:])
    assert library.ids(query, limit=20, offset=1030) == set(ids[-1050:])


def test_relevance_tells_a_good_match_from_a_poor_one(library):
    short = library.say("needle needle")
    long = library.say("needle " + "hay " * 500)
    query = "needle"
    found = {hit.id: n for n, hit in enumerate(library.search(query))}
    assert found[short] < found[long]


def test_a_message_without_text_is_never_found(library):
    library.say(None, at=NOW)
    library.say("", at=NOW)
    assert library.ids("a OR 服 OR 服务器 OR NOT b") == set()


@pytest.mark.parametrize(
    "query",
    [
        "a" * 5000,
        "服务器" * 2000,
        " ".join(["server"] * 500),
        " OR ".join(["server blue"] * 500),
        " NOT ".join(["server"] * 500),
        " OR ".join(["服务", "服务器", "server"] * 100),
        "'; DROP TABLE messages; --",
        "服'务 服%务 服_",
    ],
)
def test_a_strange_query_does_no_harm(shelf, query):
    assert shelf.texts(query) <= set(TEXTS.values())
    assert shelf.rows("SELECT count(*) FROM messages")[0][0] == len(TEXTS)
