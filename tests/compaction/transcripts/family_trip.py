"""Chat in German: a family holiday talked over in many short turns, with few tools."""

from tests.compaction.talk import Talk, failed, look_up, page, patch, read, write
from tests.compaction.text_material import article, results

TOPICS = "Ferienhäuser|Fähren|Radwege|Strände|Museen|Wochenmärkte|Mietwagen"
SITES = "bretagne.example bahn.example faehre.example reise.example"
QUESTIONS = (
    ("Wann ist es in der Bretagne am wenigsten voll?", "Anfang Juni und im September."),
    ("Und wie warm ist das Wasser dann?", "Um 15 Grad im Juni, um 17 im September."),
    ("Meine Mutter kommt mit, sie ist 78 und geht am Stock.", "Dann kurze Wege und ein Aufzug."),
    ("Gibt es einen Nachtzug?", "Bis Paris ja, von dort der TGV nach Quimper oder Brest."),
    ("Was kostet das für fünf?", "Etwa 640 Euro hin und zurück mit Bahncard."),
    ("Und mit dem Auto?", "Etwa 390 Euro Sprit und 85 Euro Maut."),
    ("Wie lange fährt man?", "Von Köln rund elf Stunden, also besser in zwei Etappen."),
    ("Können wir Räder leihen?", "Ja, in jedem größeren Ort, auch Kinderräder."),
    ("Was machen wir bei Regen?", "Océanopolis in Brest, die Markthallen, das Keramikmuseum."),
    ("Wie heißt nochmal die Insel mit den Hortensien?", "Bréhat."),
)


def play(talk: Talk) -> None:
    random = talk.random
    talk.user(
        "Hallo! Wir planen den Sommerurlaub, zwei Erwachsene, zwei Kinder (6 und 9) und meine "
        "Mutter. Bitte duze mich, und wichtig: Jonas ist gegen Nüsse allergisch, und wir fliegen "
        "nicht.",
        "Bitte duze mich",
        "Jonas ist gegen Nüsse allergisch",
        "wir fliegen nicht",
    )
    talk.says("Schön! Ich duze dich, denke an die Nüsse, und Flüge lassen wir weg. Wohin soll es?")
    talk.user("In die Bretagne. Budget 3500 Euro für alles.", "Budget 3500 Euro")
    talk.says("Das geht gut.")
    for question, answer in QUESTIONS:
        talk.user(question)
        if len(question) % 2:
            talk.do(look_up(question, results(random, TOPICS, SITES)))
            talk.do(page("https://bretagne.example", article(random, TOPICS, 75, german=True)))
        talk.says(f"{answer} {article(random, TOPICS, 6, german=True)}")
    talk.task("Such uns bitte drei Ferienhäuser im Finistère, ebenerdig, mit Garten.")
    for number in range(6):
        talk.do(look_up(f"Ferienhaus Finistère {number}", results(random, TOPICS, SITES)))
        talk.do(page(f"https://reise.example/{number}", article(random, TOPICS, 80, german=True)))
    talk.found("Drei passen, am besten das Haus Ker Avel, Nummer FR-29841, 1.180 Euro.", "FR-29841")
    talk.user("Ker Avel nehmen wir! Nicht weiter suchen.", "Ker Avel nehmen wir")
    talk.says("Sehr schön, notiert.")
    _plan(talk)


def _plan(talk: Talk) -> None:
    talk.task(
        "Mach jetzt einen Tagesplan für die zwei Wochen vom 6. bis 20. Juni in reise/tagesplan.md: "
        "jeden Tag höchstens ein Ausflug, keiner länger als zwei Stunden Fahrt, mittwochs Ruhetag, "
        "und für jeden Ausflug eine Gaststätte, in der Jonas essen kann, in reise/essen.md.",
        "mittwochs Ruhetag",
        "höchstens ein Ausflug",
    )
    talk.needs("reise/tagesplan.md", "reise/essen.md")
    talk.do(
        write("reise/tagesplan.md", "\n".join(f"## {day}. Juni\n\noffen" for day in range(6, 21)))
    )
    for day in range(6, 9):
        _day(talk, day)
    talk.do(failed("web_extract", {"urls": ["https://creperie.example"]}, "HTTP 500"))
    talk.says("Die ersten drei Tage stehen. Soll ich so weitermachen?")
    talk.user("Ja, aber bitte Fahrzeiten dazuschreiben.", "Fahrzeiten dazuschreiben")
    go_on(talk, 0)


def _day(talk: Talk, day: int) -> None:
    random = talk.random
    for kind in ("Ausflug", "Gaststätte ohne Nüsse"):
        talk.do(look_up(f"{kind} Finistère {day}. Juni", results(random, TOPICS, SITES)))
        url = f"https://bretagne.example/{kind[:8]}/{day}"
        talk.do(page(url, article(random, TOPICS, 65, german=True)))
    plan = article(random, TOPICS, 3, german=True)
    talk.do(patch("reise/tagesplan.md", f"## {day}. Juni\n\noffen", f"## {day}. Juni\n\n{plan}"))
    talk.do(patch("reise/essen.md", "Ende", f"{day}. Juni: Crêperie {day}\nEnde"))


def go_on(talk: Talk, part: int) -> None:
    for day in range(9 + 3 * part, 12 + 3 * part):
        _day(talk, day)
    talk.do(read("reise/tagesplan.md", article(talk.random, TOPICS, 40, german=True)))
    if part == 1:
        talk.user("Prima, mach weiter")
    if part == 2:
        talk.user(
            "Am 14. Juni kommt Tante Ruth, da bleiben wir im Haus.", "Am 14. Juni kommt Tante Ruth"
        )
