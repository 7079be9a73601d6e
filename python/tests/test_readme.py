"""The examples of README.md run as they stand, one after the other, against a server."""

import re
import subprocess
import sys
from pathlib import Path

from conftest import Penstock

README = Path(__file__).resolve().parents[1] / "README.md"


def test_the_examples_run(tmp_path):
    examples = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(examples) == 4
    server = Penstock(tmp_path)
    try:
        said = ""
        for example in examples:
            for word, value in (("SERVER-HOST", "127.0.0.1"), ("SERVER-PORT", str(server.port))):
                example = example.replace(word, value)
            example = example.replace("SERVER", f"127.0.0.1:{server.port}")
            done = subprocess.run([sys.executable, "-W", "error::ResourceWarning", "-c", example], capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stderr) == (0, ""), example
            said += done.stdout
    finally:
        server.kill()
    for expected in ("on stable storage when the file is closed", "260", "Basel", "year: [[2026,2026]]", "/two.csv"):
        assert expected in said, said
