"""Tools that touch the machine and the web."""

from typing import Literal

from hermes.config.settings.base import Port, Positive, Seconds, Section

IMAGE = "nikolaik/python-nodejs:python3.11-nodejs20"


class TerminalSettings(Section, frozen=True):
    backend: Literal["local", "sandbox", "docker", "ssh", "singularity", "modal", "daytona"] = (
        "local"
    )
    """Where commands run."""
    cwd: str = "."
    """Folder commands start in."""
    timeout: Seconds = 180
    """Longest run of one command."""
    lifetime_seconds: Seconds = 300
    """Idle time after which an environment is taken down."""
    env_passthrough: tuple[str, ...] = ()
    """Variables handed to commands although they look secret."""
    credential_files: tuple[str, ...] = ()
    """Files of the home made readable inside containers."""
    shell_init_files: tuple[str, ...] = ()
    """Files the shell reads before commands."""
    auto_source_bashrc: bool = True
    """Read ~/.bashrc before commands."""
    persistent_shell: bool = True
    """Keep one shell over SSH instead of a new one for each command."""
    local_persistent: bool = False
    """Keep one shell on this machine too."""
    ssh_persistent: bool | None = None
    """Keep one shell over SSH; unset follows persistent_shell."""
    sandbox_network: bool = False
    """Let commands in the sandbox use the network."""
    sandbox_writable: tuple[str, ...] = ()
    """Folders the sandbox may write beside the working folder."""
    container_program: Literal["", "docker", "podman"] = ""
    """Program of the docker backend; empty is docker when it runs, else podman."""
    docker_network: str = ""
    """Network of containers, such as `none`; empty is the engine's default."""
    docker_image: str = IMAGE
    """Image of the docker backend."""
    modal_image: str = IMAGE
    """Image of the modal backend."""
    daytona_image: str = IMAGE
    """Image of the daytona backend."""
    singularity_image: str = f"docker://{IMAGE}"
    """Image of the singularity backend."""
    docker_forward_env: tuple[str, ...] = ()
    """Variables handed into the container."""
    docker_volumes: tuple[str, ...] = ()
    """Folders mounted into the container, as `host:container[:ro]`."""
    docker_mount_cwd_to_workspace: bool = False
    """Mount the working folder at /workspace."""
    container_cpu: float = 1
    """Processors a container gets."""
    container_memory: Positive = 5120
    """Memory a container gets, in MB."""
    container_disk: Positive = 51200
    """Disk a container gets, in MB; Daytona gives at most 10 GiB."""
    container_persistent: bool = True
    """Keep a container's files between sessions."""
    ssh_host: str = ""
    """Machine of the ssh backend."""
    ssh_user: str = ""
    """User on that machine."""
    ssh_key: str = ""
    """File with the private key."""
    ssh_port: Port = 22
    """Its SSH port."""
    ssh_options: tuple[str, ...] = ()
    """Further options of ssh, such as `ProxyJump=bastion`."""
    sandbox_dir: str = ""
    """Where containers keep their files; empty is inside the home."""
    scratch_dir: str = ""
    """Where temporary files go; empty is the system's choice."""


class ToolOutputSettings(Section, frozen=True):
    max_bytes: Positive = 50_000
    """Longest output of a command; the first 40 % and the last 60 % are kept."""
    max_lines: Positive = 2000
    """Most lines of a file read at once."""
    max_line_length: Positive = 2000
    """Longest line shown."""


class ToolsSettings(Section, frozen=True):
    search: bool = True
    """Leave seldom used toolsets out of requests; the agent finds them with tool_search."""
    always: tuple[str, ...] = ()
    """Tools and toolsets that are never left out."""
    max_chars: Positive = 12_000
    """Most characters of tool descriptions in a request; what plugins and MCP servers bring beyond
    it is left to tool_search."""


class WebSettings(Section, frozen=True):
    backend: str = "auto"
    """Search service: firecrawl, parallel, tavily, exa, brave, searxng, ddgs, or `auto` for the
    first one that has a key or an address, and ddgs when none has."""
    use_gateway: bool = False
    """Use the Tool Gateway instead of a key of your own."""


class CamofoxSettings(Section, frozen=True):
    managed_persistence: bool = False
    """Keep the browser's profile between sessions."""
    url: str = ""
    """Address of the Camofox server."""


class BrowserSettings(Section, frozen=True):
    inactivity_timeout: Seconds = 120
    """Idle seconds before the browser is closed."""
    command_timeout: Seconds = 30
    """Longest time for one action."""
    record_sessions: bool = False
    """Record a video of each session."""
    cdp_url: str = ""
    """Address of a running browser to drive."""
    dialog_policy: Literal["must_respond", "auto_dismiss", "auto_accept"] = "must_respond"
    """What happens to dialogs a page opens."""
    dialog_timeout_s: Seconds = 300
    """Seconds a dialog waits for the agent."""
    camofox: CamofoxSettings = CamofoxSettings()
    cloud_provider: str = ""
    """Browser service; empty is a browser on this machine."""
    use_gateway: bool | None = None
    """Use the Tool Gateway instead of a key of your own."""


class ImageGenSettings(Section, frozen=True):
    model: str = "fal-ai/flux-2/klein/9b"
    """Model that draws."""
    use_gateway: bool = False
    """Use the Tool Gateway instead of a key of your own."""


class BlocklistSettings(Section, frozen=True):
    enabled: bool = False
    """Refuse to open the listed web sites."""
    domains: tuple[str, ...] = ()
    """Sites, `*.example.com` for all below one."""
    shared_files: tuple[str, ...] = ()
    """Files with further sites, one a line."""


class SecuritySettings(Section, frozen=True):
    redact_secrets: bool = True
    """Blot out keys in output, logs and exports."""
    tirith_enabled: bool = True
    """Let the tirith scanner look at commands, when it is installed."""
    tirith_path: str = "tirith"
    """Where that program is."""
    tirith_timeout: Seconds = 5
    """Longest scan."""
    tirith_fail_open: bool = True
    """Let a command pass when the scan fails."""
    website_blocklist: BlocklistSettings = BlocklistSettings()
    allow_private_urls: tuple[str, ...] = ()
    """Hosts of your own network that web tools may open, as `host` or `host:port`."""


class PrivacySettings(Section, frozen=True):
    redact_pii: bool = False
    """Replace user ids by pseudonyms on WhatsApp, Signal and Telegram."""
