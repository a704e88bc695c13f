"""Finds every credential that could be sent to an endpoint, best first.

Usual order: variables in the order of `Endpoint.key_vars`, because the user set them for this
provider (then those of AWS for Bedrock); the login made here; the login of another program; keys
added by the user, in the order in which they were added.

Anthropic: what was saved in Hermes (variables in .env, keys added by the user); the file of Claude
Code, because it renews itself; tokens exported in the shell, which may be outdated; an API key
exported in the shell, which costs money that the login does not.

Equal values are one credential, at the first position. Keys in config.yaml are not found here: the
resolver takes them from the choice they belong to.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.config.home import tilde
from hermes.providers.credentials.auth_file import AuthFile, entries_of
from hermes.providers.endpoints import ENV, LOGINS, Credential, Endpoint, LoginSpec, may_receive_key
from hermes.providers.login.tokens import (
    CLAUDE_CODE,
    CLAUDE_CODE_LOGIN,
    GEMINI_CLI,
    QWEN_CODE,
    ForeignTokenFile,
    GeminiTokenFile,
    StoredLogin,
    Tokens,
    google_client,
)

if TYPE_CHECKING:
    from hermes.config.loader import Loaded

StoredTokens = StoredLogin | ForeignTokenFile

ANTHROPIC = "anthropic"
ANTHROPIC_TOKENS = frozenset({"ANTHROPIC_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"})
ANTHROPIC_TOKEN_START = "sk-ant-oat"


class CredentialSources:
    def __init__(
        self,
        store: AuthFile,
        variables: "Loaded",
        user_home: Path,
        claude_code: LoginSpec = CLAUDE_CODE_LOGIN,
        qwen_code: LoginSpec = LOGINS["qwen-oauth"],
        aws_profile: str = "",
    ) -> None:
        """`variables` has those of .env and of the process. Other programs store their logins in
        `user_home`."""
        self._store, self._variables = store, variables
        self._user_home, self._aws_profile = user_home, aws_profile
        claude = variables.secret("CLAUDE_CONFIG_DIR") or user_home / ".claude"
        google = google_client(variables.secret)
        lock = store.lock_path(GEMINI_CLI.id)
        self._foreign = {
            file.name: file
            for file in (
                ForeignTokenFile(CLAUDE_CODE, Path(claude), claude_code),
                ForeignTokenFile(QWEN_CODE, user_home / ".qwen", qwen_code),
                GeminiTokenFile(user_home / ".gemini", google, lock),
            )
        }

    def credentials(self, endpoint: Endpoint) -> tuple[Credential, ...]:
        groups = _ANTHROPIC_ORDER if endpoint.id == ANTHROPIC else _USUAL_ORDER
        found: dict[str, Credential] = {}
        for group in groups:
            for credential in group(self, endpoint):
                found.setdefault(credential.secret, credential)
        return tuple(found.values())

    def token_stores(self, endpoint: Endpoint) -> Iterator[StoredTokens]:
        """Yield the stores of renewable tokens, best first; they may be empty."""
        yield StoredLogin(self._store, endpoint.id)
        if endpoint.id in self._foreign:
            yield self._foreign[endpoint.id]

    def token_store_of(self, endpoint: Endpoint, credential: Credential) -> StoredTokens | None:
        return next((one for one in self.token_stores(endpoint) if one.id == credential.id), None)

    def is_foreign_login(self, endpoint: Endpoint, name: str) -> bool:
        """Return whether this id is the login of another program."""
        return endpoint.id in self._foreign and self._foreign[endpoint.id].id == name

    def from_variables(self, endpoint: Endpoint) -> Iterator[Credential]:
        for name in endpoint.key_vars:
            if secret := (self._variables.secret(name) or "").strip():
                saved = bool(self._variables.saved.get(name))
                location = tilde(self._store.path.with_name(".env")) if saved else "the environment"
                is_token = name in ANTHROPIC_TOKENS or secret.startswith(ANTHROPIC_TOKEN_START)
                yield Credential(
                    id=f"{ENV}:{name}",
                    secret=secret,
                    kind="oauth" if is_token else "api_key",
                    source=f"{name} in {location}",
                )

    def from_aws(self, endpoint: Endpoint) -> Iterator[Credential]:
        if endpoint.auth == "aws":
            from hermes.providers.aws import aws_credentials  # only Bedrock needs it

            found = aws_credentials(self._variables.secret, self._user_home, self._aws_profile)
            yield from [found] if found else []

    def from_saved_variables(self, endpoint: Endpoint) -> Iterator[Credential]:
        return (one for one in self.from_variables(endpoint) if self._is_saved(one))

    def from_exported_tokens(self, endpoint: Endpoint) -> Iterator[Credential]:
        exported = (one for one in self.from_variables(endpoint) if not self._is_saved(one))
        return (one for one in exported if one.kind == "oauth")

    def from_login(self, endpoint: Endpoint) -> Iterator[Credential]:
        yield from _login_credentials(endpoint, StoredLogin(self._store, endpoint.id))

    def from_other_programs(self, endpoint: Endpoint) -> Iterator[Credential]:
        if endpoint.id in self._foreign:
            yield from _login_credentials(endpoint, self._foreign[endpoint.id])

    def from_user(self, endpoint: Endpoint) -> Iterator[Credential]:
        for entry in entries_of(self._store.read(), endpoint.id).values():
            if entry.secret and not entry.variable:
                is_token = entry.secret.startswith(ANTHROPIC_TOKEN_START)
                yield Credential(
                    id=entry.id,
                    secret=entry.secret,
                    kind="oauth" if is_token else entry.kind,
                    label=entry.label,
                    source=f"added with `hermes auth` to {tilde(self._store.path)}",
                )

    def _is_saved(self, credential: Credential) -> bool:
        return bool(self._variables.saved.get(credential.variable))


SourceFunction = Callable[[CredentialSources, Endpoint], Iterator[Credential]]

_USUAL_ORDER: tuple[SourceFunction, ...] = (
    CredentialSources.from_variables,
    CredentialSources.from_aws,
    CredentialSources.from_login,
    CredentialSources.from_other_programs,
    CredentialSources.from_user,
)
_ANTHROPIC_ORDER: tuple[SourceFunction, ...] = (
    CredentialSources.from_saved_variables,
    CredentialSources.from_user,
    CredentialSources.from_login,
    CredentialSources.from_other_programs,
    CredentialSources.from_exported_tokens,
    CredentialSources.from_variables,
)


def _login_credentials(endpoint: Endpoint, token_store: StoredTokens) -> Iterator[Credential]:
    tokens = token_store.read()
    if tokens is not None and not tokens.gone:
        yield login_credential(endpoint, token_store, tokens)


def login_credential(endpoint: Endpoint, token_store: StoredTokens, tokens: Tokens) -> Credential:
    """Return the credential of a login. Its base URL is used only if it is the provider's."""
    own = tokens.base_url and may_receive_key(endpoint, tokens.base_url)
    return Credential(
        id=token_store.id,
        secret=tokens.access_token,
        kind="oauth",
        source=token_store.source,
        expires_at=tokens.expires_at,
        base_url=tokens.base_url if own else "",
        headers={"ChatGPT-Account-ID": tokens.account_id} if tokens.account_id else {},
    )
