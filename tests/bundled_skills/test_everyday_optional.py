"""The scripts of the optional skills, against small servers with the real wire format."""

import base64
import json
import subprocess
import sys
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.bundled_skills.conftest import Run
from tests.bundled_skills.everyday_servers import Hue, Site, lamps, served
from tests.bundled_skills.pages import script

NOBODY = "http://127.0.0.1:9"


def test_hue_lamps_are_set_by_name(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    state = lamps()
    with served(Hue, state) as url:
        monkeypatch.setenv("HUE_BRIDGE", url)
        monkeypatch.setenv("HUE_KEY", "wrong")
        assert "pair first" in run("philips-hue/hue.py", "lights").stderr
        assert run("philips-hue/hue.py", "pair").stdout == "HUE_KEY=the-key\n"
        monkeypatch.setenv("HUE_KEY", "the-key")
        run("philips-hue/hue.py", "set", "kitchen", "--brightness", 50, "--color", "#ff0000")
        away = run("philips-hue/hue.py", "set", 2, "--on")
        assert "there are: Kitchen, Cellar" in run("philips-hue/hue.py", "set", "X", "--on").stderr
        everything = ("philips-hue/hue.py", "set", 0, "--group", "--off")
        assert "every lamp" in run(*everything).stdout
        assert "action" not in state["groups"].get("0", {})
        assert run(*everything, "--yes").stdout == 'every lamp: {"on": false}\n'
    assert state["groups"]["0"]["action"] == {"on": False}
    assert state["lights"]["1"]["state"] | {"xy": 0} == {
        "on": True,
        "bri": 127,
        "reachable": True,
        "xy": 0,
    }
    assert state["lights"]["1"]["state"]["xy"] == [0.6401, 0.33]
    assert (away.returncode, "not reachable" in away.stderr) == (1, True)


def test_notifications_have_the_form_of_their_service(run, monkeypatch):
    state: dict = {"pages": {"": "{}", "/": "{}", "/hook": "ok"}}
    with served(Site, state) as url:
        monkeypatch.setenv("NTFY_SERVER", url)
        monkeypatch.setenv("NTFY_TOPIC", "my-topic")
        monkeypatch.setenv("NOTIFY_WEBHOOK_URL", f"{url}/hook")
        assert (
            run(
                "push-notifications/notify.py", "Tür", "--title", "T", "--priority", "high"
            ).returncode
            == 0
        )
        hook = ("push-notifications/notify.py", "--title", "T", "--kind")
        long = run(*hook, "discord", "-", stdin="x" * 3000)
        run(*hook, "slack", "<!channel> & co")
        run(*hook, "teams", "Hi")
        monkeypatch.setenv("NOTIFY_WEBHOOK_URL", f"{url}/gone")
        gone = run("push-notifications/notify.py", "x", "--kind", "slack")
    bodies = [json.loads(body) for _, body, _ in state["calls"]]
    assert bodies[0] == {"topic": "my-topic", "message": "Tür", "priority": 4, "title": "T"}
    assert (len(bodies[1]["content"]), "(shortened)" in long.stdout) == (2000, True)
    assert bodies[2] == {"text": "T\n&lt;!channel&gt; &amp; co"}
    (card,) = bodies[3]["attachments"]
    assert card["content"]["body"][0]["text"] == "T\nHi"
    assert (gone.returncode, "404" in gone.stderr) == (2, True)
    monkeypatch.setenv("NTFY_TOPIC", "")
    assert "NTFY_TOPIC is not set" in run("push-notifications/notify.py", "x").stderr


def test_bibtex_is_checked_and_fetched(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.bib").write_text(
        '@article{A, title={On {T}ea}, doi={10.1/X}, author={Ann}, year=20, journal="J, of"}\n'
        '@misc{a, title="On Tea"}\n@book{, title={B}}\n'
    )
    (tmp_path / "p.md").write_text("As [@A; @gone] says.")
    done = run("citations-bibtex/bib.py", "check", "a.bib", "--text", "p.md")
    assert done.stdout.splitlines()[:3] == [
        "line 1: A: the year '20' is no number",
        "line 2: a: the key is used in line 1 too",
        "line 2: a: the same title as A",
    ]
    assert "gone: cited, but not in the file" in done.stdout
    (tmp_path / "b.bib").write_text("@book{x, title={open}\n@book{y, title={z}}\n")
    assert (
        "line 1: the entry is not closed" in run("citations-bibtex/bib.py", "check", "b.bib").stderr
    )
    state: dict = {"pages": {"/10.1038/nature14539": "@article{LeCun, title={Deep}, year={2015}}"}}
    with served(Site, state) as url:
        good = run(
            "citations-bibtex/bib.py", "doi", "https://doi.org/10.1038/nature14539", "--host", url
        )
        gone = run("citations-bibtex/bib.py", "doi", "10.1038/none", "--host", url)
    assert good.stdout == "@article{LeCun,\n  title={Deep},\n  year={2015}}\n"
    assert state["calls"][0][2]["Accept"] == "application/x-bibtex"
    assert "not registered" in gone.stderr


def test_captions_that_roll_are_joined(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.vtt").write_text(
        "WEBVTT\nKind: captions\n\n00:00:01.000 --> 00:00:02.000\n<c>one</c> two\n\n"
        "00:00:02.000 --> 00:00:03.000\none two\nthree\n\n00:01:05.000 --> 00:01:06.000\nfour\n"
    )
    shown = run("youtube-transcripts/captions.py", "a.vtt").stdout
    assert shown == "[00:00:01] one two three\n[00:01:05] four\n"
    assert run("youtube-transcripts/captions.py", "a.vtt", "--search", "nix").returncode == 1
    (tmp_path / "a.json3").write_text("{broken")
    assert "no json3" in run("youtube-transcripts/captions.py", "a.json3").stderr


def test_captions_made_by_people_are_told_from_automatic_ones(run: Run, tmp_path: Path) -> None:
    tracks = ("youtube-transcripts/captions.py", "--tracks", "v.json")
    video = {"language": "en", "subtitles": {"de": [{}], "live_chat": [{}]}}
    automatic = {"en-orig": [{}], "en": [{}], "fr": [{}], "es": [{}]}
    (tmp_path / "v.json").write_text(json.dumps({**video, "automatic_captions": automatic}))
    assert run(*tracks).stdout.splitlines() == [
        "de  made by people",
        "en  automatic, of the spoken language",
        "en-orig  automatic, of the spoken language",
        "2 more are automatic, most of them machine translations",
    ]
    (tmp_path / "v.json").write_text("{}")
    assert (run(*tracks).returncode, run(*tracks).stdout) == (1, "there are no captions\n")
    (tmp_path / "v.json").write_text("[]")
    assert "no output of yt-dlp" in run(*tracks).stderr


def test_pods_that_run_and_are_not_well_are_found(run: Run) -> None:
    def pod(name: str, phase: str, *containers: dict, ready: str = "True") -> dict:
        status = {"phase": phase, "containerStatuses": list(containers)}
        status["conditions"] = [{"type": "Ready", "status": ready, "message": "unready: [app]"}]
        return {"metadata": {"namespace": "shop", "name": name}, "status": status}

    def ended(code: int, reason: str) -> dict:
        return {"terminated": {"exitCode": code, "reason": reason}}

    fine = {"name": "app", "restartCount": 0, "state": {"running": {}}}
    looping = {
        "name": "app",
        "restartCount": 9,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    }
    pods = [
        pod("well", "Running", fine),
        pod("job", "Succeeded", {**fine, "state": ended(0, "Completed")}, ready="False"),
        pod("loop", "Running", {**looping, "lastState": ended(137, "OOMKilled")}, ready="False"),
        pod("probe", "Running", {**fine, "restartCount": 6, "lastState": ended(137, "Error")}),
        pod("slow", "Running", fine, ready="False"),
    ]
    done = run("kubernetes/unwell_pods.py", stdin=json.dumps({"items": pods}))
    assert done.returncode == 1
    loop, probe, slow = done.stdout.splitlines()
    assert loop == (
        "shop/loop: container app: CrashLoopBackOff, before: exit 137 (OOMKilled), 9 restarts;"
        " not Ready: unready: [app]"
    )
    assert "exit 137 (SIGKILL: a liveness probe" in probe
    assert slow == "shop/slow: not Ready: unready: [app]"
    well = run("kubernetes/unwell_pods.py", stdin=json.dumps({"items": pods[:2]}))
    assert (well.returncode, well.stdout) == (0, "")
    for text in ("", "[]", '{"items": [1]}'):
        bad = run("kubernetes/unwell_pods.py", stdin=text)
        assert (bad.returncode, "no output of kubectl" in bad.stderr) == (2, True)


def google_site() -> dict:
    raw = base64.urlsafe_b64encode(b"From: Ann <a@b.org>\nSubject: Tea\n\nAt four.\n").decode()
    head = [{"name": "From", "value": "Ann"}, {"name": "Subject", "value": "Tea"}]
    start, end = (
        {"dateTime": "2024-05-03T12:30:00+02:00"},
        {"dateTime": "2024-05-03T13:30:00+02:00"},
    )
    kind = "application/vnd.google-apps.document"
    return {
        "/token": {"access_token": "short", "refresh_token": "long", "scope": "s"},
        "/gmail/messages": {"messages": [{"id": "m1"}]},
        "/gmail/messages/m1": {"payload": {"headers": head}, "labelIds": ["UNREAD"], "raw": raw},
        "/gmail/messages/send": {"id": "sent1"},
        "/calendar/primary/events": {
            "id": "e1",
            "items": [{"start": start, "end": end, "summary": "Lunch"}],
        },
        "/drive": {"files": [{"id": "f1", "name": "Offer", "mimeType": kind}]},
        "/drive/f1": {"mimeType": kind},
        "/drive/f1/export": "the text",
        "/docs": {"documentId": "d1"},
        "/docs/d1:batchUpdate": {"replies": [{"replaceAllText": {"occurrencesChanged": 2}}]},
        "/sheets": {"spreadsheetId": "s1", "spreadsheetUrl": "https://e.org/s1"},
        "/sheets/s1/values/Costs%21A1": {
            "values": [["tea", "4"], ["a, b"]],
            "updatedCells": 2,
            "updatedRange": "Costs!A1:B1",
        },
        "/sheets/s1/values/Costs%21A1:append": {
            "updates": {"updatedRows": 1, "updatedRange": "Costs!A3:B3"}
        },
        "/people/people:searchContacts": {
            "results": [
                {
                    "person": {
                        "names": [{"displayName": "Ann B."}],
                        "emailAddresses": [{"value": "a@b.org"}],
                        "phoneNumbers": [{"value": "+49 30 1"}],
                    }
                }
            ],
        },
    }


def test_google_is_asked_with_a_fresh_token(run: Run, tmp_path: Path) -> None:
    state: dict = {"pages": google_site()}
    with served(Site, state) as url:
        token = {
            "client_id": "i",
            "client_secret": "s",
            "refresh_token": "r",
            "token_uri": f"{url}/token",
        }
        (tmp_path / "t.json").write_text(json.dumps(token))
        (tmp_path / "body.txt").write_text("Hi")
        google = ("google-workspace/google.py", "--token", "t.json", "--api", url)
        assert run(*google, "mail", "is:unread").stdout == "m1 *   Ann  |  Tea\n"
        assert "At four." in run(*google, "read", "m1").stdout
        assert run(*google, "events").stdout == "2024-05-03T12:30:00+02:00-13:30  Lunch\n"
        added = run(*google, "add-event", "--title", "T", "--start", "2024-05-03T12:30:00+02:00")
        assert added.stdout.startswith("e1")
        assert (
            "needs its zone"
            in run(*google, "add-event", "--title", "T", "--start", "2024-05-03T12:30").stderr
        )
        assert "Offer  document" in run(*google, "files", "it's").stdout
        run(*google, "export", "f1", "--out", "f.txt")
        assert "--force" in run(*google, "export", "f1", "--out", "f.txt").stderr
        mail = (*google, "send", "--to", "a@b.org", "--subject", "S", "--body-file", "body.txt")
        assert "not sent" in run(*mail).stdout
        assert "sent, sent1" in run(*mail, "--yes").stdout
        state["pages"]["/gmail/messages"] = 403
        assert "is the API enabled" in run(*google, "mail").stderr
    assert (tmp_path / "f.txt").read_text() == "the text"
    assert b"refresh_token=r" in state["calls"][0][1]
    assert state["calls"][1][2]["Authorization"] == "Bearer short"
    assert (
        "run google_auth.py once"
        in run("google-workspace/google.py", "--token", "no.json", "mail").stderr
    )


def test_google_documents_tables_and_contacts(run: Run, tmp_path: Path) -> None:
    state: dict = {"pages": google_site()}
    with served(Site, state) as url:
        names = ("client_id", "client_secret", "refresh_token")
        token = {**dict.fromkeys(names, "x"), "token_uri": f"{url}/token"}
        (tmp_path / "t.json").write_text(json.dumps(token))
        (tmp_path / "n.txt").write_text("Grüße\n")
        (tmp_path / "r.csv").write_text("milk,=1+1\n")

        def google(*arguments: str) -> tuple[str, list[tuple[str, str, dict]]]:
            """What is printed, and method, path and body of the calls but that for the token."""
            state["calls"] = []
            done = run("google-workspace/google.py", "--token", "t.json", "--api", url, *arguments)
            assert done.returncode in (0, 1), done.stderr
            calls = state["calls"][1:]
            return done.stdout, [(path, json.loads(body or "{}")) for path, body, _ in calls]

        out, calls = google("new-doc", "--title", "N", "--text-file", "n.txt")
        assert out.startswith("d1  https://docs.google.com/document/d/d1/edit\n")
        text = {"insertText": {"endOfSegmentLocation": {}, "text": "Grüße\n"}}
        assert calls == [
            ("/docs?", {"title": "N"}),
            ("/docs/d1:batchUpdate?", {"requests": [text]}),
        ]
        assert google("append-doc", "d1", "--text-file", "n.txt")[1] == calls[1:]
        out, calls = google("replace-doc", "d1", "--find", "{{x}}", "--with", "y")
        assert out == "replaced 2 times\n"
        assert calls[0][1]["requests"][0]["replaceAllText"] == {
            "containsText": {"text": "{{x}}", "matchCase": True}, "replaceText": "y",
        }  # fmt: skip
        assert google("sheet", "s1", "Costs!A1")[0] == 'tea,4\n"a, b"\n'
        assert google("new-sheet", "--title", "C")[1] == [
            ("/sheets?", {"properties": {"title": "C"}})
        ]
        out, calls = google("append-rows", "s1", "Costs!A1", "--csv", "r.csv")
        assert out == "1 rows were added at Costs!A3:B3\n"
        query = "valueInputOption=USER_ENTERED&insertDataOption=INSERT_ROWS"
        assert calls == [
            (f"/sheets/s1/values/Costs%21A1:append?{query}", {"values": [["milk", "=1+1"]]})
        ]
        write = ("write-cells", "s1", "Costs!A1", "--csv", "r.csv", "--input", "RAW")
        out, calls = google(*write)
        assert ("tea,4" in out, "not written" in out, calls[0][1]) == (True, True, {})
        out, calls = google(*write, "--yes")
        assert out == "2 cells were written at Costs!A1:B1\n"
        assert calls[0][0] == "/sheets/s1/values/Costs%21A1?valueInputOption=RAW"
        out, calls = google("contacts", "ann")
        assert out == "Ann B.  a@b.org, +49 30 1\n"
        assert [("query=ann" in path) for path, _ in calls] == [False, True]


def test_the_google_login_writes_a_private_token(tmp_path: Path) -> None:
    with served(Site, {"pages": google_site()}) as url:
        app = {
            "client_id": "i",
            "client_secret": "s",
            "auth_uri": "https://e.org/auth",
            "token_uri": f"{url}/token",
        }
        (tmp_path / "client.json").write_text(json.dumps({"installed": app}))
        (tmp_path / "t.json").write_text("an old one that everybody can read")
        login = subprocess.Popen(
            [
                sys.executable, script("google-workspace/google_auth.py"),
                "--client", "client.json", "--out", "t.json",
            ],
            cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert login.stdout
        login.stdout.readline()
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(login.stdout.readline()).query)
        back = urllib.parse.urlencode({"state": asked["state"][0], "code": "c"})
        with urllib.request.urlopen(f"{asked['redirect_uri'][0]}/?{back}", timeout=10) as answer:
            assert answer.status == 200
        login.communicate(timeout=20)
    assert login.returncode == 0
    assert json.loads((tmp_path / "t.json").read_text())["refresh_token"] == "long"
    assert (tmp_path / "t.json").stat().st_mode & 0o077 == 0


def test_a_forged_answer_gives_no_token(run: Run, tmp_path: Path) -> None:
    app = {"client_id": "i", "auth_uri": "https://e.org/auth", "token_uri": NOBODY}
    (tmp_path / "client.json").write_text(json.dumps({"installed": app}))
    (tmp_path / "s.json").write_text(
        json.dumps({"state": "good", "verifier": "v", "redirect": "r"})
    )
    given = ("google-workspace/google_auth.py", "--client", "client.json", "--out", "t.json")
    forged = run(*given, "--state-file", "s.json", "--answer", "http://127.0.0.1/?state=bad&code=c")
    assert (forged.returncode, "another attempt" in forged.stderr) == (2, True)
    (tmp_path / "s.json").write_text("{}")
    odd = run(*given, "--state-file", "s.json", "--answer", "http://127.0.0.1/?code=c")
    assert "not written by a first call" in odd.stderr
    silent = run(*given, "--wait", 0.1)
    assert "no answer came" in silent.stderr
    assert not (tmp_path / "t.json").exists()
