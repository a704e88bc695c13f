"""Errors of libraries become the gateway's own."""

import pytest

from hermes.gateway.platforms.kit.connection import translate_errors
from hermes.gateway.platforms.kit.contract import AdapterError, SendLater, SendRefused, SendUnsure
from tests.contracts.adapters.driving import told

TROUBLE = (ValueError, OSError)


def meaning(error: Exception) -> AdapterError:
    return SendRefused("no") if isinstance(error, ValueError) else SendUnsure("who knows")


def test_the_error_itself_is_left_out() -> None:
    with pytest.raises(SendRefused) as caught, translate_errors(meaning, TROUBLE):
        raise ValueError("https://platform.example/bot-secret-token")
    assert "secret" not in told(caught.value)


def test_what_may_be_done_twice_is_no_matter_of_doubt() -> None:
    with pytest.raises(SendUnsure), translate_errors(meaning, TROUBLE):
        raise OSError
    with (
        pytest.raises(SendLater, match="who knows"),
        translate_errors(meaning, TROUBLE, repeatable=True),
    ):
        raise OSError
    with pytest.raises(SendRefused), translate_errors(meaning, TROUBLE, repeatable=True):
        raise ValueError


def test_other_errors_are_faults_of_ours() -> None:
    with pytest.raises(KeyError), translate_errors(meaning, TROUBLE):
        raise KeyError
