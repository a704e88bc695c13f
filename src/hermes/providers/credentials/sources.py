"""Everything that could be sent to an endpoint, best first.

Usual order: variables in the order of `Endpoint.key_vars`, since they are what the user set up
for this provider by name (for AWS then those of AWS); then the login made here; then the login of
another program; then keys added by hand, in the order they were added, which are the spares.

Anthropic: what was put into Hermes on purpose (variables in .env, keys added by hand), then the
file of Claude Code, because it renews itself, then tokens exported in the shell, which may be old
copies, then an API key exported in the shell, which costs money that the login does not.

Equal values are one credential, at its first place. Keys written in config.yaml are not found
here: they belong to the choice they stand in, and the resolver takes them from there.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from hermes.config.home import tilde
from hermes.providers.credentials.auth_file import AuthFile, entries_of
from hermes.providers.endpoints import QWEN_LOGIN, Endpoint, LoginSpec, may_receive_key
from hermes.providers.login.flows import google_client
from hermes.providers.login.oauth import Tokens
from hermes.providers.login.tokens import (
    CLAUDE_CODE_LOGIN,
    GeminiTokenFile,
    StoredLogin,
    TokenStore,
    claude_code_file,
    qwen_code_file,
)
from hermes.providers.target import ENV, Credential

ANTHROPIC = "anthropic"
GEMINI_CLI = "google-gemini-cli"
ANTHROPIC_TOKENS = frozenset({"ANTHROPIC_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"})
ANTHROPIC_TOKEN_START = "sk-ant-oat"


class VariableSource(Protocol):
    """Variables of .env and of the process; `Loaded` is one."""

    @property
    def saved(self) -> Mapping[str, str]:
        """Those of .env."""
        ...

    def secret(self, name: str) -> str | None:
        """The saved one, else that of the process; empty is not set."""
        ...


class CredentialSources:
    def __init__(
        self,
        store: AuthFile,
        variables: VariableSource,
        user_home: Path,
        claude_code: LoginSpec = CLAUDE_CODE_LOGIN,
        qwen_code: LoginSpec = QWEN_LOGIN,
        aws_profile: str = "",
    ) -> None:
        """`user_home` is where other programs keep their logins."""
        self._store, self._variables = store, variables
        self._user_home, self._aws_profile = user_home, aws_profile
        claude = variables.secret("CLAUDE_CONFIG_DIR") or user_home / ".claude"
        self._foreign: dict[str, TokenStore] = {
            ANTHROPIC: claude_code_file(Path(claude), claude_code),
            "qwen-oauth": qwen_code_file(user_home / ".qwen", qwen_code),
            GEMINI_CLI: GeminiTokenFile(
                user_home / ".gemini",
                google_client(variables.secret),
                store.lock_path("gemini-cli"),
            ),
        }

    def credentials(self, endpoint: Endpoint) -> tuple[Credential, ...]:
        groups = _ANTHROPIC_ORDER if endpoint.id == ANTHROPIC else _USUAL_ORDER
        found: dict[str, Credential] = {}
        for group in groups:
            for credential in group(self, endpoint):
                found.setdefault(credential.secret, credential)
        return tuple(found.values())

    def places(self, endpoint: Endpoint) -> Iterator[TokenStore]:
        """Where tokens that can be renewed are kept, best first; they may be empty."""
        yield StoredLogin(self._store, endpoint.id)
        if endpoint.id in self._foreign:
            yield self._foreign[endpoint.id]

    def place_of(self, endpoint: Endpoint, credential: Credential) -> TokenStore | None:
        return next((one for one in self.places(endpoint) if one.id == credential.id), None)

    def belongs_to_other(self, endpoint: Endpoint, name: str) -> bool:
        """Whether the credential of this id is the login of another program."""
        return endpoint.id in self._foreign and self._foreign[endpoint.id].id == name

    def of_variables(self, endpoint: Endpoint) -> Iterator[Credential]:
        for name in endpoint.key_vars:
            if secret := (self._variables.secret(name) or "").strip():
                saved = bool(self._variables.saved.get(name))
                place = tilde(self._store.path.with_name(".env")) if saved else "the environment"
                is_token = name in ANTHROPIC_TOKENS or secret.startswith(ANTHROPIC_TOKEN_START)
                yield Credential(
                    id=f"{ENV}:{name}",
                    secret=secret,
                    kind="oauth" if is_token else "api_key",
                    source=f"{name} in {place}",
                )

    def of_aws(self, endpoint: Endpoint) -> Iterator[Credential]:
        if endpoint.auth == "aws":
            from hermes.providers.aws import aws_credentials  # only Bedrock needs it

            found = aws_credentials(self._variables.secret, self._user_home, self._aws_profile)
            yield from [found] if found else []

    def of_saved_variables(self, endpoint: Endpoint) -> Iterator[Credential]:
        return (one for one in self.of_variables(endpoint) if self._is_saved(one))

    def of_exported_tokens(self, endpoint: Endpoint) -> Iterator[Credential]:
        exported = (one for one in self.of_variables(endpoint) if not self._is_saved(one))
        return (one for one in exported if one.kind == "oauth")

    def of_login(self, endpoint: Endpoint) -> Iterator[Credential]:
        yield from _login_credentials(endpoint, StoredLogin(self._store, endpoint.id))

    def of_other_programs(self, endpoint: Endpoint) -> Iterator[Credential]:
        if endpoint.id in self._foreign:
            yield from _login_credentials(endpoint, self._foreign[endpoint.id])

    def of_hand(self, endpoint: Endpoint) -> Iterator[Credential]:
        for entry in entries_of(self._store.read(), endpoint.id).values():
            if entry.secret:
                is_token = entry.secret.startswith(ANTHROPIC_TOKEN_START)
                yield Credential(
                    id=entry.id,
                    secret=entry.secret,
                    kind="oauth" if is_token else entry.kind,
                    label=entry.label,
                    source=f"added by hand to {tilde(self._store.path)}",
                )

    def _is_saved(self, credential: Credential) -> bool:
        return bool(self._variables.saved.get(credential.variable))


SourceFunction = Callable[[CredentialSources, Endpoint], Iterator[Credential]]

_USUAL_ORDER: tuple[SourceFunction, ...] = (
    CredentialSources.of_variables,
    CredentialSources.of_aws,
    CredentialSources.of_login,
    CredentialSources.of_other_programs,
    CredentialSources.of_hand,
)
_ANTHROPIC_ORDER: tuple[SourceFunction, ...] = (
    CredentialSources.of_saved_variables,
    CredentialSources.of_hand,
    CredentialSources.of_login,
    CredentialSources.of_other_programs,
    CredentialSources.of_exported_tokens,
    CredentialSources.of_variables,
)


def _login_credentials(endpoint: Endpoint, place: TokenStore) -> Iterator[Credential]:
    tokens = place.read()
    if tokens is not None and not tokens.gone:
        yield login_credential(endpoint, place, tokens)


def login_credential(endpoint: Endpoint, place: TokenStore, tokens: Tokens) -> Credential:
    """What is sent for a login. An address it brings along counts when it is the provider's."""
    own = tokens.base_url and may_receive_key(endpoint, tokens.base_url)
    return Credential(
        id=place.id,
        secret=tokens.access_token,
        kind="oauth",
        source=place.source,
        expires_at=tokens.expires_at,
        base_url=tokens.base_url if own else "",
        headers={"ChatGPT-Account-ID": tokens.account_id} if tokens.account_id else {},
    )
