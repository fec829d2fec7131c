"""Lines with the contents of files are described by their size; other lines remain as they are."""

from __future__ import annotations

import base64
import json
import struct

import numpy as np
import pytest

from regard.core.file_lines import described_line, file_line
from regard.data.wav_files import write_wav

SOUND = json.dumps({"audio": base64.b64encode(bytes(30_720)).decode()})


@pytest.mark.parametrize(
    ("line", "description"),
    [
        (SOUND, "a sound of 30 KiB"),
        (file_line("audio", write_wav(np.zeros(12_000, np.int16), 8_000)), "a sound of 1.5 s"),
        (json.dumps({"image": "aGk="}), "an image of 1 KiB"),
        (file_line("image", b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 48) + bytes(60)),
         "an image of 640 × 48 pixels"),
        (json.dumps({"table": "date,load\n1,2\n2,3\n"}), "a table of 2 rows"),
        ('{"values": [[1, 2], [3, null]]}', "a table of 2 rows"),
        ('{"table": 7}', "a table of 0 rows"),
        ('{"table": "a', "a table of 0 rows"),
        ('{"text": "audio"}', '{"text": "audio"}'),
        ('say {"audio": 1}', 'say {"audio": 1}'),
    ],
)  # fmt: skip
def test_a_line_with_a_file_is_described_by_its_size(line: str, description: str) -> None:
    assert described_line(line) == description
