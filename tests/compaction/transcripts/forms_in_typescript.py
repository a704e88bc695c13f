"""A React front end: many small user messages, texts in German, tabs, and a migration of forms."""

from tests.compaction.code_material import TYPESCRIPT, compile_run, grep_hits, pytest_run, source
from tests.compaction.talk import Talk, patch, read, run, search, write

NOUNS = "form field address person policy claim upload contract"
FORMS = ("AddressForm", "PersonForm", "ClaimForm", "UploadForm", "PolicyForm", "ContractForm")


def play(talk: Talk) -> None:
    random = talk.random
    talk.user(
        "Insurance front end, React 18 and TypeScript 5. Use tabs, not spaces. Every text a "
        "customer sees is German and formal (Sie). Tests with `pnpm vitest run`.",
        "Use tabs, not spaces",
        "German and formal (Sie)",
        "`pnpm vitest run`",
    )
    talk.says("Tabs, formal German in the interface, vitest. What is to be done?")
    for number, wish in enumerate(
        (
            "The date picker opens behind the dialog, fix that.",
            "The button 'Weiter' must be disabled while uploading.",
            "Remove the unused theme files.",
        )
    ):
        talk.task(wish)
        path = f"src/components/{('DatePicker', 'NextButton', 'Theme')[number]}.tsx"
        talk.do(search("className", grep_hits(random, "src", ".tsx", "className", NOUNS, 44)))
        talk.do(read(path, source(random, TYPESCRIPT, NOUNS, 190)))
        talk.do(patch(path, "zIndex: 10", "zIndex: layers.dialog"))
        talk.do(run("pnpm vitest run", pytest_run(random, NOUNS, 130)))
        talk.do(run("pnpm tsc --noEmit", compile_run(random, NOUNS, 70)))
        talk.says(f"Done, in {path}.")
    talk.user("No, the files of src/theme/print are used by the PDF service, bring them back!")
    talk.do(run("git checkout src/theme/print", "Updated 14 paths from the index"))
    talk.says("They are back.")
    talk.user(
        "And don't delete files without asking from now on.", "don't delete files without asking"
    )
    talk.says("I won't.")
    _migration(talk)


def _migration(talk: Talk) -> None:
    random = talk.random
    talk.task(
        "Big one: move all forms in src/forms from Formik to react-hook-form with zod schemas in "
        "src/schemas, one form at a time, each with its own commit. The validation messages must "
        "stay word for word as they are in src/i18n/de.json.",
        "each with its own commit",
        "stay word for word",
    )
    talk.needs("src/i18n/de.json", "src/schemas")
    talk.do(read("src/i18n/de.json", "\n".join(f'\t"text.{n}": "Bitte {n}",' for n in range(260))))
    talk.do(search("useFormik", grep_hits(random, "src/forms", ".tsx", "useFormik", NOUNS, 36)))
    for name in FORMS[:2]:
        _form(talk, name)
    talk.user("Looks good. Take ClaimForm next, it is the most urgent.")
    go_on(talk, 0)


def _form(talk: Talk, name: str) -> None:
    random = talk.random
    path, schema = f"src/forms/{name}.tsx", f"src/schemas/{name}.ts"
    talk.do(read(path, source(random, TYPESCRIPT, NOUNS, 230)))
    talk.do(write(schema, source(random, TYPESCRIPT, NOUNS, 90)))
    talk.do(write(path, source(random, TYPESCRIPT, NOUNS, 200)))
    error = f"{path}::submits TypeError: Cannot read properties of undefined (reading 'iban')"
    talk.do(run("pnpm vitest run", pytest_run(random, NOUNS, 140, error), 1))
    talk.do(patch(path, "values.iban", "values.bank.iban", 77))
    talk.do(run("pnpm vitest run", pytest_run(random, NOUNS, 141)))
    talk.do(run(f"git commit -am 'Move {name} to react-hook-form'", f"[forms 3a7] {name}"))


def go_on(talk: Talk, part: int) -> None:
    name = FORMS[2 + part]
    talk.at(f"src/forms/{name}.tsx", f"src/schemas/{name}.ts")
    _form(talk, name)
    talk.do(
        run("pnpm tsc --noEmit", compile_run(talk.random, NOUNS, 120)),
        say=f"{name} is moved. The resolver needs @hookform/resolvers 3.9.0, which is in the lock "
        "file already.",
        values=("@hookform/resolvers 3.9.0",) if part == 0 else (),
    )
    if part == 1:
        talk.user("ja, weiter")
    if part == 3:
        talk.user("Stopp: keine neuen Übersetzungen ohne Rücksprache.", "keine neuen Übersetzungen")
        talk.says("Verstanden. Ich mache mit den Formularen weiter.")
