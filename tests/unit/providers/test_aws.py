"""Requests to AWS are signed as AWS computes it; the known answers are AWS's own."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermes.core.errors import CredentialMissing
from hermes.providers.aws import aws_credentials, sign_request
from hermes.providers.endpoints import Credential
from tests.cases import table_test

NOW = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
PAIR = "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
ROOT = "https://example.amazonaws.com"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def sign(method="GET", url=f"{ROOT}/", headers=None, body=b"", secret=PAIR, service="service"):
    credential = Credential("manual:1", secret)
    return sign_request(
        method,
        url,
        headers or {},
        body,
        region="us-east-1",
        credential=credential,
        service=service,
        now=NOW,
    )


@table_test
def test_signatures_are_those_aws_publishes(case, method, url, headers, body, service, signature):
    sent = sign(method, url, headers, body.encode(), service=service)
    assert sent["authorization"].endswith(f"Signature={signature}"), case
    assert sent["x-amz-date"] == "20150830T123600Z"
    assert f"Credential=AKIDEXAMPLE/20150830/us-east-1/{service}/" in sent["authorization"]


def test_another_body_has_another_signature():
    assert sign("POST", body=b"a")["authorization"] != sign("POST", body=b"b")["authorization"]


def test_a_session_token_is_sent_and_signed():
    sent = sign(secret=f"{PAIR}:tok:en==")
    assert sent["x-amz-security-token"] == "tok:en=="
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token," in sent["authorization"]


def test_other_headers_go_along_unsigned_so_that_a_proxy_may_change_them():
    sent = sign(headers={"Accept": "text/event-stream", "User-Agent": "x"})
    assert sent["accept"] == "text/event-stream"
    assert "SignedHeaders=host;x-amz-date," in sent["authorization"]


def test_a_bedrock_key_is_sent_as_it_is():
    sent = sign(secret="ABSKexample==")
    assert sent["authorization"] == "Bearer ABSKexample=="
    assert "x-amz-date" not in sent


def test_without_a_key_the_variables_are_named():
    with pytest.raises(CredentialMissing) as caught:
        sign_request("GET", f"{ROOT}/", {}, b"", region="us-east-1", credential=None)
    assert "AWS_BEARER_TOKEN_BEDROCK" in caught.value.hint


@pytest.fixture
def aws_home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "[default]\naws_access_key_id = ID0\naws_secret_access_key = S%0\n"
        "[work]\naws_access_key_id = ID1\naws_secret_access_key = S1\naws_session_token = T1\n"
    )
    (tmp_path / ".aws" / "config").write_text(
        "[profile old]\naws_access_key_id=ID2\naws_secret_access_key=S2\n[profile sso]\nsso=x\n"
    )
    return tmp_path


VARIABLES = {"AWS_ACCESS_KEY_ID": "ID", "AWS_SECRET_ACCESS_KEY": "S", "AWS_SESSION_TOKEN": "T"}


@table_test
def test_keys_are_found_where_the_aws_tools_keep_them(aws_home, variables, profile, secret, name):
    credential = aws_credentials(variables.get, aws_home, profile)
    assert credential is not None
    assert (credential.secret, credential.id) == (secret, name)


@pytest.mark.parametrize("profile", ["nobody", "sso"])
def test_a_profile_without_keys_gives_none(aws_home, profile):
    assert aws_credentials({}.get, aws_home, profile) is None


@pytest.mark.parametrize("content", ["no = section", "[default\n", "[default]\n\x00"])
def test_a_damaged_file_gives_none(tmp_path, content):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(content)
    assert aws_credentials({}.get, tmp_path, "") is None
