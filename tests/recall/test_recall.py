"""How well past conversations are found; see `python -m bench.recall` for the whole table."""

import asyncio

from bench.recall import conversations, facts

LEAST = {"words": 10, "questions": 9, "paraphrase": 2, "languages": 9, "typos": 7, "endings": 7}


def test_past_conversations_are_found_by_words_questions_errors_and_endings(tmp_path):
    columns, missed = asyncio.run(conversations(tmp_path))
    for name, counts in columns.items():
        worse = {kind: counts[kind] for kind, least in LEAST.items() if counts[kind][0] < least}
        assert not worse, (name, missed)


def test_facts_are_found_by_words_questions_and_errors(tmp_path):
    for counts in facts(tmp_path)[:2]:
        assert counts["words"][0] == counts["questions"][0] == 10
        assert counts["typos"][0] >= 7
