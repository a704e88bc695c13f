"""Finding messages in PostgreSQL: words, phrases, and text without spaces."""

import pytest

from hermes.store.records import SearchRequest
from hermes.store.search import CANDIDATES, parse_query

TEXTS = {
    "disk": "The disk of the server is full: No space left on DEVICE",
    "send": "run chat-send before the café opens",
    "sender": "the chat was too long to send",
    "zh": "我们今天讨论数据库的备份策略",
    "mixed": "我用Python写代码,明天去北京大学",
    "ja": "サーバーのディスクがいっぱいです",
    "ko": "안녕하세요 세계, 데이터베이스를 백업합니다",
    "th": "สวัสดีชาวโลก ฐานข้อมูล",
    "hi": "नमस्ते दुनिया",
    "signs": "100% 'quoted' \\back & | ! : * <-> (odd)",
    "empty": "",
}


@pytest.fixture
def library(client):
    for name, text in TEXTS.items():
        client.say(text, session=name)
    return client


def found(client, query, **filters):
    request = SearchRequest(query, **filters)
    return {one[1] for one in client.backend.find(client.database, parse_query(query), request)}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("disk", {"disk"}),
        ("DISK full", {"disk"}),
        ("disk cafe", set()),
        ("CAFÉ", {"send"}),
        ("cafe", {"send"}),
        ("disk OR cafe", {"disk", "send"}),
        ("chat", {"send", "sender"}),
        ("chat NOT long", {"send"}),
        ("chat NOT chat-send", {"sender"}),
        ("chat-send", {"send"}),
        ('"chat send"', {"send"}),
        ('"send chat"', set()),
        ('"no space left"', {"disk"}),
        ("dev*", {"disk"}),
        ("dev", set()),
        ('"left on dev"*', {"disk"}),
        ("odd OR (", {"signs"}),
        ("100", {"signs"}),
        ("it's OR quoted", {"signs"}),
        ("数", {"zh"}),
        ("数据", {"zh"}),
        ("数据库", {"zh"}),
        ("数据库的备份", {"zh"}),
        ("数据备份", set()),
        ("据数", set()),
        ("python", {"mixed"}),
        ("Python写代码", {"mixed"}),
        ("python 北京", {"mixed"}),
        ("我用pyth*", {"mixed"}),
        ("写代码明天", set()),
        ("数据库 OR python", {"zh", "mixed"}),
        ("北京 NOT python", set()),
        ("备份 NOT 数据备份", {"zh"}),
        ("ディスク", {"ja"}),
        ("サーバー", {"ja"}),
        ("で", {"ja"}),
        ("데이터", {"ko"}),
        ("백업", {"ko"}),
        ('"안녕하세요 세계"', {"ko"}),
        ("ข้อมูล", {"th"}),
        ("ชาวโลก", {"th"}),
        ("ลูกโลก", set()),
        ("दुनिया", {"hi"}),
        ("nothing-like-it", set()),
    ],
)
def test_query_finds_the_expected_messages(library, query, names):
    assert found(library, query) == names


@pytest.mark.parametrize(
    "query", ["", "!!!", "'", "\\", ":*", "OR NOT", "a & b | !c <-> (", "\x00"]
)
def test_no_query_is_an_error(library, query):
    assert isinstance(found(library, query), set)


def test_filters(client):
    client.say("word one", role="user", session="a", at=10.0)
    client.say("word two", role="assistant", session="b", at=20.0)
    client.write(lambda database: database.change("UPDATE sessions SET source = id"))
    assert found(client, "word") == {"a", "b"}
    assert found(client, "word", sources=("a",)) == {"a"}
    assert found(client, "word", exclude_sources=("a",)) == {"b"}
    assert found(client, "word", roles=("assistant",)) == {"b"}
    assert found(client, "word", sessions=("a", "c")) == {"a"}
    assert found(client, "word", since=15.0) == {"b"}
    assert found(client, "word", until=15.0) == {"a"}
    assert found(client, "word", since=15.0, until=15.0) == set()


def test_the_newest_are_ranked_and_more_only_for_a_later_page(client):
    def fill(database):
        for number in range(1100):
            client.insert(database, f"word number {number}", "user", "s", float(number))

    client.write(fill)
    newest = client.backend.find(client.database, parse_query("word"), SearchRequest("word"))
    assert {one[0] for one in newest} == set(range(1101 - CANDIDATES, 1101))
    later = SearchRequest("word", limit=20, offset=1060)
    assert len(client.backend.find(client.database, parse_query("word"), later)) == 1080


def test_words_close_together_in_a_short_text_come_first(client):
    client.say("alpha " + "filler " * 200 + "beta", session="far")
    client.say("alpha beta", session="near")
    client.say("alpha " + "filler " * 50 + "beta", session="between")
    ranked = client.backend.find(client.database, parse_query("alpha beta"), SearchRequest("x"))
    assert [one[1] for one in ranked] == ["near", "between", "far"]
    assert ranked[0][4] == 1.0 and all(0 < one[4] <= 1 for one in ranked)


def test_a_phrase_late_in_a_long_text_is_found(client):
    """PostgreSQL keeps the first places of a word only."""
    client.say("the cat " * 9000 + "and then the Dog barked", session="long")
    client.say("the dog then", session="short")
    assert found(client, '"the dog barked"') == {"long"}
    assert found(client, '"then barked"') == set()
    assert found(client, "barked dog") == {"long"}


def test_megabytes_are_stored_and_found(client):
    words = " ".join(f"word{number:07}" for number in range(260_000))
    assert len(words) > 3_000_000, "more than one index entry can hold"
    number = client.say("start " + words, session="latin")
    client.say("开始" + "".join(map(chr, range(0x4E00, 0x9F00))) * 50, session="han")
    client.say("x" * 3_000_000, session="one word")
    assert client.database.rows("SELECT length(content) FROM messages WHERE id = ?", (number,)) == [
        (len(words) + 6,)
    ]
    assert found(client, "start word0000001") == {"latin"}
    assert found(client, '"word0000001 word0000002"') == {"latin"}
    assert found(client, "开始") == {"han"}
    assert found(client, "xxx*") == {"one word"}


def test_the_bytes_of_an_image_are_not_words(client):
    parts = '[{"type":"text","text":"look here"},{"type":"image_url","image_url":{"url":"QUJD"}}]'
    client.say(parts, session="picture")
    assert found(client, "look") == {"picture"}
    assert found(client, "qujd") == set() and found(client, "image") == set()


def test_rows_of_another_program_are_found_by_the_next_search(client):
    client.say("old words")
    client.database.change("UPDATE messages SET content = 'new 数据库'")
    client.database.change(
        "INSERT INTO messages (session_id, role, content, timestamp)"
        " VALUES ('s', 'user', NULL, 1), ('s', 'user', 'foreign', 2)"
    )
    assert found(client, "old") == set()
    assert found(client, "new") == found(client, "数据库") == found(client, "foreign") == {"s"}
    assert client.database.rows("SELECT count(*) FROM messages WHERE search IS NULL") == [(0,)]


def test_a_rare_word_is_looked_up_in_the_index(client):
    def fill(database):
        for number in range(1000):
            client.insert(database, f"common words {number}", "user", "s", 1.0)
        client.insert(database, "needle", "user", "s", 1.0)

    client.write(fill)
    client.backend.vacuum(client.database)
    plan = client.database.rows(
        "EXPLAIN SELECT id FROM messages WHERE (search @@ ?::tsquery) ORDER BY id DESC LIMIT 1000",
        ("'needle'",),
    )
    assert any("idx_messages_search" in row[0] for row in plan)
