# SPDX-License-Identifier: Apache-2.0
"""Write files of the service's own so that a reader, or a run after a crash, sees the old content or the new one."""

import os
import pathlib
import threading


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
