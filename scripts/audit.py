"""Hold the locked packages against a database of known holes: ``audit.py PIP_AUDIT FILE...``.

Exit code 1 when one of them has a hole. Where no database can be reached that is told in one line, and 0.
"""

import json
import subprocess
import sys
from typing import Any


def audited(program: str, file: str) -> list[dict[str, Any]] | None:
    """Return what pip-audit says of the packages of a file; None where it could ask nobody."""
    command = [
        program,
        "--disable-pip",
        "--no-deps",
        "--progress-spinner=off",
        "--format=json",
        "--requirement",
    ]
    done = subprocess.run([*command, file], capture_output=True, text=True, check=False)  # noqa: S603 - ours
    try:
        packages: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return None
    return [each for each in packages if "skip_reason" not in each] or None


def main(program: str, *files: str) -> int:
    """Audit files of requirements."""
    found = 0
    for file in files:
        packages = audited(program, file)
        if packages is None:
            print(f"audit: {file}: skipped, no database of known holes can be reached")
            continue
        for each in packages:
            for hole in each["vulns"]:
                found += 1
                fixed = ", ".join(hole["fix_versions"]) or "no release"
                print(f"{file}: {each['name']} {each['version']}: {hole['id']}, mended in {fixed}")
        print(f"audit: {file}: {len(packages)} packages looked up")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
