"""Open a page as a person would and report what is broken. Needs Playwright and a browser.

    python3 page_check.py http://127.0.0.1:8000/ --text "Welcome" --shots shots

Copy this file into the project and add the steps of the flow that is to be tested.
Exit code: 0 fine, 1 something is broken, 2 Playwright or the browser is missing.
"""

# ruff: noqa: T201, ERA001 - prints its answer; shows steps to fill in

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

try:
    from playwright.sync_api import Error, Page, expect, sync_playwright
except ImportError:
    sync_playwright = None  # main() says how to install it

WIDTHS = {"phone": 390, "desktop": 1280}


def flow(page: Page, text: str) -> None:
    """The steps to test; wait for what a person would see, never for a number of seconds."""
    expect(page.locator("body")).to_contain_text(text)
    # page.get_by_label("Name").fill("Ann")
    # page.get_by_role("button", name="Send").click()
    # expect(page.get_by_role("status")).to_have_text("Sent")


def check(page: Page, url: str, text: str) -> list[str]:
    problems: list[str] = []
    note = problems.append
    page.on("console", lambda m: note(f"console: {m.text}") if m.type == "error" else None)
    page.on("pageerror", lambda error: note(f"script: {error}"))
    page.on("response", lambda r: note(f"{r.status} {r.url}") if r.status >= 400 else None)
    page.on("requestfailed", lambda r: note(f"failed: {r.url}"))
    try:
        page.goto(url, wait_until="load")
        flow(page, text)
    except (AssertionError, Error) as error:
        problems.append(f"flow: {str(error).splitlines()[0]}")
    unnamed = page.locator("img:not([alt]), button:empty:not([aria-label])").count()
    if unnamed:
        problems.append(f"{unnamed} pictures or buttons have no name for a screen reader")
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if wide > 0:
        problems.append(f"the page is {wide} pixels wider than the window")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--text", default="", help="must be on the page")
    parser.add_argument("--shots", type=Path, default=Path("shots"), help="folder for pictures")
    options = parser.parse_args()
    if sync_playwright is None:
        print("error: pip install playwright, then: playwright install chromium", file=sys.stderr)
        return 2
    options.shots.mkdir(parents=True, exist_ok=True)
    found = 0
    with sync_playwright() as playwright:
        # The browser of Playwright, else one of the system; a container needs --no-sandbox.
        own = Path(playwright.chromium.executable_path).exists()
        path = None if own else shutil.which("chromium") or shutil.which("google-chrome")
        root = hasattr(os, "geteuid") and os.geteuid() == 0
        try:
            browser = playwright.chromium.launch(
                executable_path=path, args=["--no-sandbox"] if root else []
            )
        except Error as error:
            print(f"no browser: playwright install chromium\n{error}", file=sys.stderr)
            return 2
        for name, width in WIDTHS.items():
            page = browser.new_page(viewport={"width": width, "height": 800})
            problems = check(page, options.url, options.text)
            page.screenshot(path=options.shots / f"{name}.png", full_page=True)
            for problem in problems:
                print(f"{name}: {problem}")
            found += len(problems)
            page.close()
        browser.close()
    print(f"{found} problem(s); pictures in {options.shots}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
