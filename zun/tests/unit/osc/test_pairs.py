# SPDX-License-Identifier: Apache-2.0
import pytest
from osc_lib import exceptions

from zun.osc.pairs import hints, pairs

KAFKA = "PLAINTEXT://k:29092,HOST://localhost:9092"


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], {}),
        ([f"LISTENERS={KAFKA}"], {"LISTENERS": KAFKA}),
        (["A=b,C=d"], {"A": "b,C=d"}),
        (["A=b;c"], {"A": "b;c"}),
        (["A="], {"A": ""}),
        (["A==b=c"], {"A": "=b=c"}),
        (["A=b", "C=d,e"], {"A": "b", "C": "d,e"}),
        (["A=b", "A=c"], {"A": "c"}),
        (["A= b\n"], {"A": " b\n"}),
    ],
)
def test_one_option_is_one_pair(texts, found):
    assert pairs("--environment", texts) == found


@pytest.mark.parametrize("text", ["A", "", "=b", "HOST://localhost:9092"])
def test_a_text_that_is_no_pair_is_named(text):
    with pytest.raises(exceptions.CommandError, match="--label must be KEY=VALUE, got"):
        pairs("--label", [text])


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        ([], {}),
        (["label:a=b,label:c=d"], {"label:a": "b", "label:c": "d"}),
        (["image:pci_passthrough:alias=gpu:2,nic:1"], {"image:pci_passthrough:alias": "gpu:2,nic:1"}),
        (["different_host=a", "different_host=b", "group=g"], {"different_host": ["a", "b"], "group": "g"}),
    ],
)
def test_hints(texts, found):
    assert hints(texts) == found
