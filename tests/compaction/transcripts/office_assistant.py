"""A personal assistant: letters, a tax folder and small favours, one after the other."""

from tests.compaction.talk import Talk, failed, patch, read, run, script, search, write
from tests.compaction.text_material import article, listing, table

TOPICS = "home office costs|travel receipts|depreciation|church tax|the rent deposit|insurance"
NOUNS = "receipt invoice letter contract ticket statement scan"
FOLDERS = ("travel", "office", "phone", "insurance", "training", "donations", "rent")


def play(talk: Talk) -> None:
    random = talk.random
    talk.user(
        "You are my assistant for paperwork. Never send anything without showing me the draft "
        "first. Letters are signed 'M. Okafor', not with my first name. Short sentences, please.",
        "Never send anything without showing me the draft first",
        "signed 'M. Okafor'",
        "Short sentences",
    )
    talk.says("Drafts first, signed 'M. Okafor', short sentences.")
    small = (
        ("Draft a letter to the landlord about the broken heating.", "letters/landlord.md"),
        ("Cancel the gym from June on, there is a notice period of a month.", "letters/gym.md"),
        ("A thank-you note to Dr. Brandt.", "letters/brandt.md"),
        ("Answer the school: Ade cannot come on the 12th.", "letters/school.md"),
    )
    for wish, path in small:
        talk.task(wish)
        talk.do(search("heating", [f"letters/old/{n}.md:{n}:the heating again" for n in range(40)]))
        talk.do(write(path, article(random, TOPICS, 14)))
        talk.says(f"Here is the draft ({path}):\n\n{article(random, TOPICS, 9)}")
        talk.user("Too long. Half of it, please.")
        talk.do(patch(path, article(random, TOPICS, 9), article(random, TOPICS, 4), 3))
        talk.says("Shorter now.")
        talk.user("Good. Sent it myself.")
        talk.says("Fine, that one is closed.")
    talk.user("By the way, Ade's new phone number is 0171 5550134.")
    talk.says("Noted.")
    talk.task("How much did I spend on trains last year?")
    for month in range(1, 9):
        name = f"bank/2025-{month:02}.csv"
        talk.do(read(name, table(random, "id amount balance payee_name", 110)))
    talk.do(script("print(total)", table(random, "id trains", 12)))
    talk.says("1,284.60 euros, most of it in March and May.")
    _tax(talk)


def _tax(talk: Talk) -> None:
    random = talk.random
    talk.task(
        "Now the tax folder. Go through everything in ~/Documents/tax-2025, sort the receipts into "
        "the categories of tax/categories.toml, enter each in tax/2025.csv with date, amount and "
        "file name, and collect what is unclear in tax/questions.md instead of guessing.",
        "instead of guessing",
    )
    talk.needs("~/Documents/tax-2025", "tax/categories.toml", "tax/2025.csv", "tax/questions.md")
    talk.do(run("ls -l ~/Documents/tax-2025", listing(random, NOUNS, ".pdf .jpg .png", 240)))
    talk.do(read("tax/categories.toml", "\n".join(f"[{name}]\ncode = 4" for name in FOLDERS)))
    for folder in FOLDERS[:3]:
        _folder(talk, folder)
    talk.do(
        failed("terminal", {"command": "pdftotext scan_017.pdf"}, "scan_017.pdf is encrypted"),
        say="scan_017.pdf has a password. The office code is 4920, and 31 receipts are entered.",
        values=("4920", "scan_017.pdf"),
    )
    talk.user(
        "The password is in my head only, skip that file. Never rename the scans.",
        "Never rename the scans",
    )
    go_on(talk, 0)


def _folder(talk: Talk, folder: str) -> None:
    random = talk.random
    for number in range(4):
        name = f"~/Documents/tax-2025/{folder}_{number:02}.pdf"
        talk.do(run(f"pdftotext {name} -", article(random, TOPICS, 28)))
        talk.do(patch("tax/2025.csv", "# end", f"2025-0{number + 1}-11,84.20,{name}\n# end"))
    talk.do(patch("tax/questions.md", "(end)", f"- {folder}: one receipt has no date\n(end)"))
    talk.do(script("print(sums)", table(random, "id amount file_name", 70)))


def go_on(talk: Talk, part: int) -> None:
    folder = FOLDERS[3 + part]
    _folder(talk, folder)
    path = f"tax/notes-{folder}.md"
    talk.do(write(path, article(talk.random, TOPICS, 12)))
    talk.at(path)
    if part == 1:
        talk.user("fine, next")
    if part == 2:
        talk.user("Amounts with a comma, as the tax office wants them.", "Amounts with a comma")
