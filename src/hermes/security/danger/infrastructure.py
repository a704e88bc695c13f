"""Containers, clusters and clouds."""

import re

from hermes.security.danger.rule import Rule, but_not, operands, says, verb
from hermes.security.danger.scene import Scene
from hermes.security.shell.model import UNKNOWN, Invocation

_OPENS = re.compile(
    r"--privileged|--pid[= ](?:host|container)|(?:docker|containerd|podman)\.sock|--userns[= ]host"
    r"|--cap-add[= ](?:cap_)?(?:all|sys_\w+|dac_read_search|net_admin)|--ipc[= ]host|--uts[= ]host"
    r"|--security-opt[= ]\S*(?:unconfined|disable)|--device[= ]/dev/(?:sd|nvme|k?mem|vd)"
    r"|security\.privileged=true",
    re.IGNORECASE,
)
_HOST_FOLDERS = r"/|/(?:etc|root|home|var|usr|boot|proc|sys|dev|Users|var/run|var/lib/docker)|~"
_MOUNTS = re.compile(
    rf"(?:(?:^|\s)-v|--volume|source=|src=)[= ]?(?:{_HOST_FOLDERS})/?(?=[:,])", re.IGNORECASE
)
_BULK = re.compile(
    r"\bprune\b|\bvolume\s+rm\b|\bdown\b.*(?:\s-v\b|--volumes|--rmi)|\bswarm\s+leave\b"
    r"|\b(?:stack|service|node|network|secret|config|machine)\s+rm\b|\bsystem\s+reset\b"
)
_REMOVES = re.compile(r"\b(?:rm|rmi|kill|stop|remove)\b(.*)")


def opens_host(invocation: Invocation, scene: Scene) -> bool:
    text = invocation.text
    if scene.folder != "/":
        text = text.replace(f" {scene.folder}:", " work:")  # `-v "$PWD":/work`
    text = text.replace(f"{scene.home}:", "~:")
    if not re.search(r"\b(run|create|exec|up|init|launch|config)\b", text):
        return False
    return bool(_OPENS.search(text) or _MOUNTS.search(text))


def deletes_in_bulk(invocation: Invocation, _scene: Scene) -> bool:
    """Containers, images or volumes, all at once."""
    text = invocation.text
    if _BULK.search(text):
        return True
    removes = _REMOVES.search(text)
    if removes is None:
        return False
    listed = UNKNOWN in text and bool(invocation.feeders & {"docker", "podman", "nerdctl"})
    return listed or "xargs" in invocation.via or bool(re.search(r"\s(-\w*a|--all)\b", removes[1]))


def deletes_by_verb(invocation: Invocation, _scene: Scene) -> bool:
    """`tool things delete …` of a program nothing else is known of."""
    words = invocation.words
    if not words or invocation.via or invocation.name in KNOWN_OTHERWISE:
        return False
    if "/" in words[0] or "." in words[0]:
        return False  # a program of the project: its own business
    return any(word.lower() in _VERBS for word in operands(invocation)[:3])


_VERBS = frozenset({
    "delete", "destroy", "purge", "wipe", "nuke", "terminate", "erase", "delete-all", "deleteall",
    "factory-reset", "drop", "wipe-data",
})  # fmt: skip
KNOWN_OTHERWISE = frozenset({
    "git", "hermes", "grep", "egrep", "rg", "ag", "ack", "fd", "find", "echo", "printf", "cat",
    "man", "tldr", "which", "help", "apropos", "whatis", "http", "https", "xh", "curl", "wget",
    "awk", "sed", "jq", "yq", "npm", "npx", "pnpm", "yarn", "bun", "make", "just", "task",
    "pytest", "cargo", "go", "python", "node", "ruby", "php", "ls", "cd", "test", "touch",
    "mkdir", "cp", "mv", "vim", "nano", "code", "less", "head", "tail", "sort", "uniq", "wc",
    "diff", "tr", "cut", "aws", "gcloud", "az", "gh", "glab", "kubectl", "docker", "podman",
    "psql", "mysql", "sqlite3", "redis-cli", "systemctl", "service", "alias", "export", "read",
    "set", "for", "type", "command", "pip", "uv", "poetry", "brew", "apt", "git-lfs", "rails",
    "rake", "bundle", "open", "say", "fzf", "tee", "xargs", "basename", "dirname", "date", "seq",
    "expr", "cowsay", "figlet", "notify-send", "logger", "jest", "vitest", "mocha", "locate",
    "mdfind", "plocate", "wordnet", "dict", "look", "trans", "function", "declare", "local",
})  # fmt: skip
"""Programs that have rules of their own, or whose operands are text."""

ENGINES = "docker podman nerdctl docker-compose ctr crictl buildah lxc"
CLOUDS = """
    aws gcloud az doctl gsutil bq linode-cli hcloud openstack ibmcloud oci aliyun scw exo vultr-cli
    s3cmd mc b2 azcopy eksctl civo nova glance swift-client
"""
HOSTERS = """
    heroku fly flyctl vercel netlify railway firebase wrangler now render surge deployctl supabase
    neonctl pscale cf dokku scalingo
"""
MACHINES = """
    vagrant virsh vboxmanage multipass qm pct lxc limactl prlctl govc xe esxcli incus virt-install
"""
BUILDERS = "terraform tofu pulumi terragrunt cdk sls serverless sst copilot amplify cdktf"
CLUSTERS = "minikube kind k3d kops kubeadm k0s rke talosctl"
WHOLE = "gives a container the whole machine"
LOSES, CLOUD_LOSS = "deletes running infrastructure", "deletes what lives in a cloud"
RIGHTS = "changes who may do what in a cloud"
KIND = "infrastructure"
RULES = (
    Rule(KIND, "deletes stored data", "hdfs hadoop", verb("-rm -rmr -expunge -rmdir")),
    Rule(
        KIND,
        "deletes stored data",
        "dvc restic borg tmutil",
        verb("gc forget prune purge delete disable deletelocalsnapshots destroy remove"),
    ),
    Rule(KIND, "deletes with a tool of its own", "", deletes_by_verb),
    Rule("host access", WHOLE, ENGINES, opens_host),
    Rule(
        "host access",
        WHOLE,
        "kubectl oc",
        says(
            r"--overrides?\b.*(privileged|hostPID|hostPath)|debug\s+node/|--privileged|cluster-admin"
        ),
    ),
    Rule(KIND, "deletes containers, images or volumes in bulk", ENGINES, deletes_in_bulk),
    Rule(
        KIND,
        LOSES,
        "kubectl oc k3s microk8s",
        but_not(
            verb(
                "delete drain evict taint cordon",
                r"\bscale\b.*--replicas[= ]0\b|\breplace\b.*--force|\brollout\s+undo\b|finalizers",
            ),
            says(r"^auth "),
        ),
    ),
    Rule(KIND, LOSES, "helm", verb("uninstall delete del un rollback")),
    Rule(KIND, "deletes a cluster", CLUSTERS, verb("delete reset remove")),
    Rule(
        KIND,
        LOSES,
        BUILDERS,
        verb(
            "destroy remove delete taint force-unlock",
            r"-auto-approve|\bstate\s+(rm|push)\b|\b(apply|up)\b.*(-y\b|--yes)|stack\s+rm",
        ),
    ),
    Rule(
        KIND,
        CLOUD_LOSS,
        CLOUDS,
        verb(
            "delete terminate rb rm remove destroy purge del deregister revoke",
            r"(?:^|\s)(?:(?:batch-)?delete|terminate|deregister|remove|purge|destroy|stop|reboot"
            r"|disable|detach|schedule-key-deletion|revoke)-|\bsync\b.*--delete|:delete\b",
        ),
    ),
    Rule(
        KIND,
        "deletes what others use",
        "gh glab",
        says(
            r"^[\w-]+ (delete|remove|archive|transfer|revoke|delete-asset)\b"
            r"|^api\b.*(-X|--method)[= ]?DELETE"
        ),
    ),
    Rule(
        KIND,
        RIGHTS,
        "aws",
        says(
            r"\biam\s+(create|attach|put|add|update)-|\bput-bucket-(acl|policy)|--acl\s+public"
            r"|authorize-security-group-ingress|ssm\s+send-command"
        ),
    ),
    Rule(
        KIND,
        RIGHTS,
        "gcloud gsutil az",
        says(r"add-iam-policy-binding|\biam\s+ch\b.*allUsers|set-iam-policy|assignment\s+create"),
    ),
    Rule(
        KIND,
        CLOUD_LOSS,
        HOSTERS,
        verb(
            "destroy delete remove rm teardown",
            r"\w:(destroy|reset|delete|remove|rm|disable)\b|ps:scale\s+\w+=0|maintenance:on"
            r"|\bdb\s+reset",
        ),
    ),
    Rule(
        KIND,
        "deletes virtual machines",
        MACHINES,
        verb("destroy undefine unregistervm delete purge poweroff rm remove terminate vm.destroy"),
    ),
    Rule(
        KIND,
        "stops jobs",
        "nomad scancel qdel bkill",
        verb("stop purge -purge all -u --user -1", r"-u\S|--user="),
    ),
    Rule(
        KIND,
        "acts on many machines at once",
        "ansible salt",
        says(
            r"-m\s+reboot|system\.(reboot|shutdown|poweroff)|state=(stopped|absent)|\.(stop|remove)\b"
        ),
    ),
    Rule(KIND, "takes a released package back", "npm cargo gem", verb("unpublish yank deprecate")),
)
