"""A web shop in Python: two finished tasks, then a refactoring that is half done."""

from tests.compaction.code_material import PYTHON, grep_hits, pytest_run, source
from tests.compaction.talk import Talk, failed, patch, read, run, search, todo, write

NOUNS = "cart order invoice coupon customer shipment refund product"


def play(talk: Talk) -> None:
    talk.user(
        "Hi. This is our shop, Django 5.1, Python 3.12. Two things before you start: never touch "
        "migrations/, the release team owns that folder, and run the tests with "
        "`make test-fast`, not with pytest directly, it needs the env file.",
        "never touch migrations/",
        "`make test-fast`",
    )
    talk.says("Understood: migrations/ stays as it is, and tests go through `make test-fast`.")
    _totals(talk)
    _export(talk)
    _refactoring(talk)


def _totals(talk: Talk) -> None:
    """Done: a wrong total."""
    random = talk.random
    talk.task("The cart total is wrong by a cent for some coupons, find out why and fix it please.")
    talk.do(
        search("def total", grep_hits(random, "shop", ".py", "total", NOUNS, 38), "shop"),
        say="I look for where totals are made.",
    )
    for path in ("shop/cart/totals.py", "shop/cart/coupons.py", "shop/money.py"):
        talk.do(read(path, source(random, PYTHON, NOUNS, 170)))
    failing = "tests/test_totals.py::test_coupon AssertionError: Decimal('9.99') != Decimal('10')"
    talk.do(run("make test-fast", pytest_run(random, NOUNS, 210, failing), 2))
    for attempt in range(4):
        old = f"    return sum(line.price for line in lines)  # {attempt}"
        new = f"    return sum(line.price for line in lines).quantize(CENT)  # {attempt}"
        talk.do(patch("shop/cart/totals.py", old, new, 30 + attempt))
        talk.do(run("make test-fast", pytest_run(random, NOUNS, 200 + attempt, failing), 2))
    talk.do(run("make test-fast", pytest_run(random, NOUNS, 214)))
    talk.says("Fixed: each line was rounded before adding up. All 214 tests pass.")


def _export(talk: Talk) -> None:
    """Done: a CSV export, with a correction on the way."""
    random = talk.random
    talk.task("Now add a CSV export of orders to the admin, one row an order line.")
    for path in ("shop/orders/admin.py", "shop/orders/models.py"):
        talk.do(read(path, source(random, PYTHON, NOUNS, 220)))
    talk.do(write("shop/orders/export.py", source(random, PYTHON, NOUNS, 120)))
    talk.user("No, semicolons as the delimiter, our accountants use Excel.", "semicolons")
    talk.do(patch("shop/orders/export.py", "delimiter=','", "delimiter=';'"))
    for _ in range(5):
        talk.do(run("make test-fast", pytest_run(random, NOUNS, 120)))
        talk.do(read("shop/orders/export.py", source(random, PYTHON, NOUNS, 90)))
    talk.says("The export is in the admin's action menu, with semicolons, and tested.")
    talk.user("Looks good, thanks!")
    talk.says("Glad to hear it.")


def _refactoring(talk: Talk) -> None:
    """Not done."""
    random = talk.random
    talk.task(
        "Next: move everything that talks to the payment provider out of shop/orders/views.py into "
        "a package shop/payments with one module for each provider (stripe, adyen, invoice), keep "
        "the old names importable from shop.orders.views, and write tests for each provider.",
        "keep the old names importable",
    )
    talk.needs("shop/orders/views.py", "shop/payments/stripe.py", "shop/payments/adyen.py")
    talk.do(
        todo(
            "> find what talks to providers",
            "  package shop/payments",
            "  aliases in shop/orders/views.py",
            "  tests for each provider",
        )
    )
    for part in range(3):
        text = source(random, PYTHON, NOUNS, 240)
        talk.do(read("shop/orders/views.py", text, 1 + 240 * part, 980))
    hits = grep_hits(random, "shop", ".py", "provider", NOUNS, 52)
    talk.do(search("provider", hits), search("stripe", hits[:20]))
    talk.do(
        failed("read_file", {"path": "shop/payment/stripe.py"}, "there is no file"),
        say="views.py calls Stripe with the API version 2024-06-20, which must not change.",
        values=("2024-06-20",),
    )
    talk.do(write("shop/payments/__init__.py", source(random, PYTHON, NOUNS, 30)))
    talk.do(write("shop/payments/stripe.py", source(random, PYTHON, NOUNS, 190)))
    talk.do(write("shop/payments/adyen.py", source(random, PYTHON, NOUNS, 170)))
    talk.user(
        "One more thing: no new dependencies, and the webhook secret stays in "
        "settings/payments.toml, don't move it.",
        "no new dependencies",
        "settings/payments.toml",
    )
    talk.needs("settings/payments.toml")
    go_on(talk, 0)


def go_on(talk: Talk, part: int) -> None:
    random = talk.random
    modules = ("stripe", "adyen", "invoice", "webhooks")
    module = modules[part]
    path, test = f"shop/payments/{module}.py", f"tests/payments/test_{module}.py"
    talk.needs(path, test)
    talk.do(read(path, source(random, PYTHON, NOUNS, 200)), say=f"Next is {module}.")
    for attempt in range(3):
        old, new = f"def pay_{module}(", f"def pay_{module}_{attempt}(self, "
        talk.do(patch(path, old, new, 20 * attempt + 8))
        error = f"{test}::test_pay TypeError: pay() got an unexpected keyword 'idempotency_key'"
        talk.do(run("make test-fast", pytest_run(random, NOUNS, 150 + attempt, error), 2))
    talk.do(write(test, source(random, PYTHON, NOUNS, 110)))
    talk.do(run("make test-fast", pytest_run(random, NOUNS, 190)))
    if part == 1:
        talk.user("ok, go on")
    if part == 2:
        talk.user(
            "Please also log every refused payment at WARNING, never the card number.",
            "never the card number",
        )
