# SPDX-License-Identifier: Apache-2.0
"""Files of the service's own below ``state_path``.

They are written so that a reader, or a run after a crash, sees the old content or the new one.
"""

import os
import pathlib
import threading
import urllib.parse


def place_of(state_path: str, what: str, hostname: str, suffix: str = "") -> pathlib.Path:
    """Return the place where a host keeps ``what``, for example ``STATE_PATH/records/host-1``.

    The name of the host may have any characters.
    """
    return pathlib.Path(state_path, what, urllib.parse.quote(hostname, safe="") + suffix)


def write_whole(file: pathlib.Path, content: bytes, mode: int = 0o600) -> None:
    """Replace ``file`` in its folder, which exists, by one with ``content``. Raises OSError, and then changes nothing.

    The file has exactly ``mode``, whatever the umask of the program is. Two threads may write the same file.
    """
    new = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode), "wb") as opened:
            os.fchmod(opened.fileno(), mode)
            opened.write(content)
        new.replace(file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
