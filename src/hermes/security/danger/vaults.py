"""Programs that hand out keys and passwords, and the words with which they do."""

VAULTS = (
    ("gh", r"\bauth\s+(token|status\s.*(-t|--show-token))"),
    (
        "gcloud",
        (
            r"auth\s+(application-default\s+)?print-|secrets\s+versions\s+access"
            r"|service-accounts\s+keys\s+create"
        ),
    ),
    (
        "aws",
        (
            r"configure\s+(get|set|export-credentials)|sts\s+(get-session-token|assume-role)"
            r"|secretsmanager\s+get-|--with-decryption|iam\s+create-access-key"
            r"|ecr\s+get-login\b|kms\s+decrypt"
        ),
    ),
    ("az", r"get-access-token|keyvault\s+secret\s+(show|download)|\bkeys\s+list"),
    ("vault", r"\b(read|kv\s+get|print\s+token|token\s+(lookup|create))\b"),
    ("op", r"\b(read|item\s+get|inject|signin)\b"),
    ("bw", r"\b(get|list|export|unlock)\b"),
    ("pass", r"\b(show|grep)\b|^[\w-]+/"),
    ("lpass", r"\b(show|export)\b"),
    ("security", r"find-(generic|internet)-password|dump-keychain|export|unlock-keychain"),
    ("secret-tool", r"lookup|search"),
    (
        "kubectl",
        (
            r"get\s+(-\S+\s+\S+\s+)*secrets?\b.*(-o|--output|--template|jsonpath)"
            r"|\bconfig\s+view\s.*--raw|create\s+token"
        ),
    ),
    ("oc", r"get\s+secrets?\b.*(-o|--output)|whoami\s+-t"),
    ("heroku", r"\bconfig(:get)?\b|auth:token"),
    ("git", r"^credential\s+(fill|approve)|^credential-\w+\s+get"),
    ("gpg", r"--export-secret"),
    ("npm", r"token\s+(list|create)|config\s+get\s+\S*_auth"),
    ("docker", r"\b(secret|config)\s+inspect|\binspect\b.*\.Env\b"),
    ("getent", r"\bg?shadow\b"),
    ("keyring", r"\bget\b"),
    ("doppler", r"secrets\s+(download|get)|secrets\s*$"),
    ("terraform", r"output\s.*-(json|raw)\s.*(secret|password|token)|state\s+pull"),
    ("netsh", r"key=clear"),
    ("cmdkey", r"/list"),
    ("systemd-creds", r"\b(cat|decrypt)\b"),
    ("chamber", r"\b(read|export)\b"),
    ("nmcli", r"(-s|--show-secrets)\b"),
    ("sops", r"(^|\s)(-d|--decrypt|exec-env|decrypt)\b"),
    ("ansible-vault", r"\b(view|decrypt)\b"),
    ("dscl", r"-read.*(password|authentication)|authonly"),
    ("ps", r"(^|\s)(aux?e\w*|e\w*ww|-\w*E)\b"),
)
