"""Operations: a web front end answers 502, several machines, and one that must not be touched."""

from tests.compaction.talk import Talk, failed, patch, read, run, todo, write
from tests.compaction.text_material import access_log, log, processes

NOUNS = "upstream socket worker session cache queue balancer certificate"
HOSTS = ("web-1", "web-2", "web-3", "cache-1", "queue-1", "edge-1", "edge-2")


def play(talk: Talk) -> None:
    random = talk.random
    talk.user(
        "You have ssh to our small cluster. Rules: do not restart db-1 under any circumstances, "
        "nothing with sudo on edge-*, and every change goes into /srv/runbook/changes.md with the "
        "time in UTC.",
        "do not restart db-1",
        "nothing with sudo on edge-*",
        "time in UTC",
    )
    talk.says("db-1 is off limits, no sudo on edge-*, changes are logged in UTC.")
    talk.task("The certificate of shop.example expires on Friday, renew it.")
    for host in HOSTS[:3]:
        talk.do(run(f"ssh {host} certbot certificates", log(random, NOUNS, 70)))
        talk.do(run(f"ssh {host} tail -n 200 /var/log/nginx/access.log", access_log(random, 200)))
    talk.do(run("ssh edge-1 certbot renew", log(random, NOUNS, 60)))
    talk.do(patch("/srv/runbook/changes.md", "(newest)", "2026-03-14 06:10 renewed\n(newest)"))
    talk.says("Renewed until 12 June.")
    talk.task("queue-1 is at 91 % disk, make room.")
    talk.do(run("ssh queue-1 du -xh --max-depth=2 /", processes(random, NOUNS, 160)))
    for number in range(4):
        talk.do(run(f"ssh queue-1 journalctl -n 200 --since -{number}d", log(random, NOUNS, 200)))
    talk.user("Not the journals! They are evidence, keep all logs.", "keep all logs")
    talk.do(run("ssh queue-1 docker image prune -f", log(random, NOUNS, 90)))
    talk.says("63 % now, by old images only.")
    _outage(talk)


def _outage(talk: Talk) -> None:
    random = talk.random
    talk.task(
        "Since 06:40 the shop answers 502 for about one request in ten. Find the cause, fix it "
        "without downtime, and write the post-mortem to /srv/runbook/2026-03-14-502.md with a time "
        "line and what we change so that it does not come back.",
        "without downtime",
        within="Urgent! {task} Customers are calling.",
    )
    talk.needs("/srv/runbook/2026-03-14-502.md", "/srv/runbook/changes.md")
    talk.do(todo("> where do the 502 come from", "  fix", "  post-mortem", "  prevention"))
    for host in HOSTS:
        command = f"ssh {host} tail -n 250 /var/log/nginx/access.log"
        talk.do(run(command, access_log(random, 250, 10)))
        talk.do(run(f"ssh {host} ps aux --sort=-%cpu", processes(random, NOUNS, 110)))
    talk.do(
        read(
            "/etc/nginx/conf.d/shop.conf",
            "\n".join(f"  server 10.0.3.{n}:8041;" for n in range(99)),
        ),
        say="All 502 come from web-3 on port 8041, with `upstream prematurely closed connection`.",
        values=("web-3 on port 8041",),
    )
    talk.needs("/etc/nginx/conf.d/shop.conf")
    talk.do(failed("terminal", {"command": "ssh edge-1 sudo nginx -t"}, "denied by the user"))
    talk.user("No sudo on the edges, remember. Use the deploy pipeline: /srv/deploy/edge.sh.")
    talk.needs("/srv/deploy/edge.sh")
    go_on(talk, 0)


def go_on(talk: Talk, part: int) -> None:
    random = talk.random
    path = f"/srv/deploy/conf/{('web-3', 'limits', 'keepalive', 'alerts')[part]}.conf"
    talk.needs(path)
    talk.do(read(path, "\n".join(f"worker_option_{n} {n * 3};" for n in range(120))))
    for attempt in range(4):
        talk.do(patch(path, f"keepalive {attempt};", f"keepalive {attempt * 16};", 20 + attempt))
        talk.do(run(f"/srv/deploy/edge.sh --host web-{attempt % 3 + 1}", log(random, NOUNS, 120)))
        command = "ssh edge-2 tail -n 200 /var/log/nginx/access.log"
        talk.do(run(command, access_log(random, 200, 8 - 2 * attempt)))
    talk.do(write("/srv/runbook/2026-03-14-502.md", log(random, NOUNS, 40)))
    if part == 1:
        talk.user("good. next?")
    if part == 2:
        talk.user("The post-mortem names no people, roles only.", "names no people, roles only")
