"""Market research in German: many pages read, a report that grows chapter by chapter."""

from tests.compaction.talk import Talk, failed, look_up, page, patch, read, todo, write
from tests.compaction.text_material import article, results

TOPICS = "Wärmepumpen|die Förderung|der Strompreis|Altbauten|Erdsonden|die Netzlast"
SITES = "bwp.example fraunhofer.example destatis.example heise.example energie.example"
CHAPTERS = ("markt", "foerderung", "kosten", "altbau", "netz", "ausblick", "quellen")


def play(talk: Talk) -> None:
    random = talk.random
    talk.user(
        "Guten Tag! Bitte antworten Sie immer auf Deutsch und nennen Sie zu jeder Zahl die Quelle "
        "mit Jahr. Keine Zahlen aus Pressemitteilungen von Herstellern.",
        "immer auf Deutsch",
        "zu jeder Zahl die Quelle mit Jahr",
        "Keine Zahlen aus Pressemitteilungen",
    )
    talk.says("Gerne. Auf Deutsch, jede Zahl mit Quelle und Jahr, keine Herstellerangaben.")
    talk.task("Zuerst: Wie viele Wärmepumpen wurden in den letzten fünf Jahren verkauft?")
    for year in range(2021, 2026):
        talk.do(look_up(f"Absatz Wärmepumpen {year}", results(random, TOPICS, SITES)))
        url = f"https://bwp.example/{year}/absatz"
        talk.do(page(url, article(random, TOPICS, 60, german=True)))
    talk.says("Die Reihe von 2021 bis 2025 steht, mit Quellen des Verbands und von Destatis.")
    talk.task("Und wie alt sind die Heizungen im Bestand im Schnitt?")
    for number in range(4):
        talk.do(look_up(f"Alter Heizungen Bestand {number}", results(random, TOPICS, SITES)))
        talk.do(
            page(f"https://destatis.example/{number}", article(random, TOPICS, 50, german=True))
        )
    talk.says("Im Mittel 17 Jahre, Schornsteinfegerverband 2024.")
    talk.user("Danke, das passt.")
    talk.says("Gern geschehen.")
    _report(talk)


def _report(talk: Talk) -> None:
    talk.task(
        "Jetzt der Bericht: Schreiben Sie in bericht/ je Kapitel eine Datei (Markt, Förderung, "
        "Kosten, Altbau, Netz, Ausblick), je höchstens 800 Wörter, und führen Sie alle Quellen in "
        "bericht/quellen.bib. Zielgruppe sind Stadträte ohne technische Vorbildung.",
        "höchstens 800 Wörter",
        "Stadträte ohne technische Vorbildung",
    )
    talk.needs("bericht/quellen.bib")
    talk.do(todo("> Markt", "  Förderung", "  Kosten", "  Altbau", "  Netz", "  Ausblick"))
    for chapter in CHAPTERS[:2]:
        _chapter(talk, chapter)
    talk.do(
        failed("web_extract", {"urls": ["https://bafa.example/zahlen"]}, "HTTP 403"),
        say="Die BAFA-Seite sperrt uns aus; laut Bericht 2024 lag die Quote bei 38,4 Prozent.",
        values=("38,4 Prozent",),
    )
    talk.user("Bitte keine Tabellen, nur Fließtext.", "keine Tabellen, nur Fließtext")
    go_on(talk, 0)


def _chapter(talk: Talk, chapter: str) -> None:
    random = talk.random
    path = f"bericht/{chapter}.md"
    for number in range(3):
        talk.do(look_up(f"{chapter} Wärmepumpe {number}", results(random, TOPICS, SITES)))
        url = f"https://energie.example/{chapter}/{number}"
        talk.do(page(url, article(random, TOPICS, 70, german=True)))
    talk.do(write(path, article(random, TOPICS, 24, german=True)))
    entry = f"@misc{{{chapter}2024, title={{Studie}}, year={{2024}}}}"
    talk.do(patch("bericht/quellen.bib", "% Ende", f"{entry}\n% Ende"))
    talk.do(read(path, article(random, TOPICS, 30, german=True)))


def go_on(talk: Talk, part: int) -> None:
    chapter = CHAPTERS[2 + part]
    talk.at(f"bericht/{chapter}.md")
    _chapter(talk, chapter)
    if part == 1:
        talk.user("Weiter bitte.")
    if part == 2:
        talk.user("Und bitte durchgehend gendern mit Doppelpunkt.", "gendern mit Doppelpunkt")
