"""A literature review: papers screened by fixed criteria, values taken out, one table."""

from tests.compaction.talk import Talk, failed, look_up, page, patch, read, script, write
from tests.compaction.text_material import article, results, table

TOPICS = "night shifts|sleep duration|rotating schedules|melatonin|cohort drop-out|blood pressure"
SITES = "pubmed.example cochrane.example bmj.example plos.example"


def play(talk: Talk) -> None:
    random = talk.random
    talk.user(
        "I write a systematic review on shift work and sleep. Include only peer-reviewed cohort "
        "studies with at least 200 participants; preprints are out. Cite in Vancouver style.",
        "only peer-reviewed cohort studies",
        "at least 200 participants",
        "Vancouver style",
    )
    talk.says("Noted. Which databases may I use?")
    talk.user("PubMed and Cochrane. And quote effect sizes exactly, don't round.", "don't round")
    talk.says("Good.")
    talk.task("Draft the search strings and test them.")
    for number in range(6):
        talk.do(
            look_up(f"shift work AND sleep AND cohort {number}", results(random, TOPICS, SITES))
        )
        talk.do(page(f"https://pubmed.example/?q={number}", article(random, TOPICS, 55)))
    talk.do(write("review/search-strings.md", article(random, TOPICS, 12)))
    talk.says("Three strings, 412 hits together, in review/search-strings.md.")
    talk.task("Screen the titles of those 412 and keep the list in review/screened.csv.")
    for number in range(6):
        talk.do(
            read("review/hits.csv", table(random, "id year paper_name", 70), 70 * number + 1, 412)
        )
        talk.do(script("screen(rows)", table(random, "id keep reason_name", 70)))
    talk.do(write("review/screened.csv", table(random, "id year paper_name", 58)))
    talk.says("58 of 412 are left after screening.")
    _extraction(talk)


def _extraction(talk: Talk) -> None:
    talk.task(
        "Now read the 58 one by one and take out design, n, follow-up, exposure and the effect on "
        "sleep duration with its confidence interval into review/extraction.csv; where the full "
        "text is closed, write so in review/closed.md and go on with the next.",
        "with its confidence interval",
    )
    talk.needs("review/extraction.csv", "review/closed.md", "review/screened.csv")
    talk.do(read("review/screened.csv", table(talk.random, "id year paper_name", 58)))
    for number in range(1, 13):
        _paper(talk, number)
    talk.user("Paper 9 is a case-control study, that must not go in.", "must not go in")
    talk.do(patch("review/extraction.csv", "9,cohort", "9,excluded (case-control)", 10))
    talk.found(
        "Taken out again. Papers 1 to 12 are done; paper 7 has DOI 10.1136/oem-2023-41.",
        "10.1136/oem-2023-41",
    )
    talk.user("Good, go on with 13.")
    go_on(talk, 0)


def _paper(talk: Talk, number: int) -> None:
    random = talk.random
    url = f"https://bmj.example/paper/{number}"
    if number % 5 == 0:
        talk.do(failed("web_extract", {"urls": [url]}, f"{url} answered with HTTP 402"))
        talk.do(patch("review/closed.md", "<!-- end -->", f"- {url}\n<!-- end -->"))
        return
    talk.do(page(url, article(random, TOPICS, 95)))
    row = f"{number},cohort,{random.randint(200, 9000)},{random.uniform(-1, 1):.3f}"
    talk.do(patch("review/extraction.csv", "# end", f"{row}\n# end", number + 1))


def go_on(talk: Talk, part: int) -> None:
    for number in range(13 + 9 * part, 22 + 9 * part):
        _paper(talk, number)
    talk.do(script("check(extraction)", table(talk.random, "id n effect low high", 40)))
    if part == 1:
        talk.user("Looks fine, carry on.")
        talk.do(write("review/codebook.md", article(talk.random, TOPICS, 10)))
        talk.needs("review/codebook.md")
    if part == 2:
        talk.user("Convert hours to minutes everywhere.", "Convert hours to minutes")
